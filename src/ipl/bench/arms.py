"""The arms of a comparison: what fills a prompt's slots, and the baselines beside it."""

from __future__ import annotations

from collections.abc import Sequence

from ipl.config import CHOSEN, EMPTY, GIVEN, PLAIN, RANDOM
from ipl.display.formatting import listed

# Arms without a learner, which stands in their place in records.
ZERO_SHOT = "zero-shot"  # a hand-made prompt
LINEAR_PROBE = "linear-probe"  # a linear classifier on the image features of the shots
WORDS_ONLY = "words-only"  # the sentence that chose the words, as a prompt
UNTRAINED = (ZERO_SHOT, LINEAR_PROBE, WORDS_ONLY)

# In the order of the tables, with what each is.
ARMS = {
    ZERO_SHOT: "a hand-made prompt, nothing is trained",
    LINEAR_PROBE: "logistic regression on the image features of the shots",
    WORDS_ONLY: "the sentence that chose the words as a prompt, nothing is trained",
    PLAIN: "the published learner",
    EMPTY: "the layout with words, whose slots stay empty",
    RANDOM: "the layout with random words, as frequent as the chosen ones",
    GIVEN: "the layout with words that a person wrote down",
    CHOSEN: "the layout with the words that the search chose",
}
DEFAULT_ARMS = (ZERO_SHOT, PLAIN, EMPTY, RANDOM, CHOSEN)
WITH_WORDS = (WORDS_ONLY, EMPTY, RANDOM, CHOSEN)  # as many words or slots as a plan says
SEARCHED = (WORDS_ONLY, RANDOM, CHOSEN)  # depend on a search for words


def the_arms(arms: Sequence[str]) -> str:
    """Returns "the arm plain" or "the arms zero-shot and plain"."""
    return f"the {'arm' if len(arms) == 1 else 'arms'} {listed(arms)}"


def arm_of(learner: str, config_arm: str) -> str:
    """Returns the arm of a run: its `learner` if that is an arm, else that of its config."""
    return learner if learner in UNTRAINED else config_arm
