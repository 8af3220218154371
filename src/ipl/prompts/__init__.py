"""Prompts as lists of segments: which row of which class is soft, a word, a name or fixed."""

from ipl.prompts.bound import PLACEHOLDERS, BoundPrompts, bind, initial_soft
from ipl.prompts.layout import EOS, SOS, ClassName, PromptLayout, Segment, Soft, Text, WordSlot

__all__ = [
    "EOS",
    "PLACEHOLDERS",
    "SOS",
    "BoundPrompts",
    "ClassName",
    "PromptLayout",
    "Segment",
    "Soft",
    "Text",
    "WordSlot",
    "bind",
    "initial_soft",
]
