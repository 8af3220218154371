"""The arms of a comparison: what fills a prompt's slots, and the baselines beside it."""

from __future__ import annotations

from ipl.config import CHOSEN, EMPTY, GIVEN, PLAIN, RANDOM

# Arms without a learner, which stands in their place in records.
ZERO_SHOT = "zero-shot"  # a hand-made prompt
LINEAR_PROBE = "linear-probe"  # a linear classifier on the image features of the shots
WORDS_ONLY = "words-only"  # the sentence that chose the words, as a prompt
UNTRAINED = (ZERO_SHOT, LINEAR_PROBE, WORDS_ONLY)

# In the order of the tables.
ARMS = (ZERO_SHOT, LINEAR_PROBE, WORDS_ONLY, PLAIN, EMPTY, RANDOM, GIVEN, CHOSEN)
DEFAULT_ARMS = (ZERO_SHOT, PLAIN, EMPTY, RANDOM, CHOSEN)
WITH_WORDS = (WORDS_ONLY, EMPTY, RANDOM, CHOSEN)  # as many words or slots as a plan says
SEARCHED = (WORDS_ONLY, RANDOM, CHOSEN)  # depend on a search for words


def arm_of(learner: str, config_arm: str) -> str:
    """The arm of a run: its `learner` if that is an arm, else that of its config."""
    return learner if learner in UNTRAINED else config_arm
