"""A small PromptSRC."""

from __future__ import annotations

from ipl.backbone.clip import Backbone
from ipl.learners.promptsrc import PromptSRC

NAMES = ["cat", "starry_night", "pirate ship"]
WORDS = ["furry", "blue"]


def make(backbone: Backbone, words: int = 0, depth: int = 9, seed: int = 1) -> PromptSRC:
    """Returns the learner with its first words in place."""
    layout = PromptSRC.layout_for(words, PromptSRC.recipe(words).m)
    learner = PromptSRC(backbone, layout, NAMES, seed, depth=depth)
    for word in WORDS[:words]:
        learner.place_word(word)
    return learner
