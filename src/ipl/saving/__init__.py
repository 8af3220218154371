"""The saved form of a learnt prompt: config.json, prompt.safetensors and a card."""

from ipl.saving.card import model_card
from ipl.saving.format import FORMAT_VERSION, SavedPrompt, check_target, read_run, write_run
from ipl.saving.hub import find_run, push_run
from ipl.saving.learner import capture, find_backbone, restore

__all__ = [
    "FORMAT_VERSION",
    "SavedPrompt",
    "capture",
    "check_target",
    "find_backbone",
    "find_run",
    "model_card",
    "push_run",
    "read_run",
    "restore",
    "write_run",
]
