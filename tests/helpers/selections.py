"""Made-up selections of words."""

from __future__ import annotations

from typing import Any

from ipl.words.selection import Certainty, RankedWord, Selection, SelectionStep

SENTENCE = "a photo of a {cls}, with emphasis on: {words}"


def make_step(word: str, gain: float, **changes: Any) -> SelectionStep:
    values: dict[str, Any] = {
        "word": word,
        "utility": gain,
        "redundancy": 0.0,
        "gain": gain,
        "loss": 1.0,
        "accuracy": 0.5,
        "runners_up": (RankedWord("other", gain - 1), RankedWord("last", gain - 2)),
        "checked": 7,
        "seconds": 0.5,
        "margin": 0.0,
        "certainty": Certainty(0.934, 1.75, 1.5, 2.25),
    }
    return SelectionStep(**{**values, **changes})


def make_selection(*steps: SelectionStep, **changes: Any) -> Selection:
    values: dict[str, Any] = {
        "loss_without_words": 2.0,
        "template": SENTENCE,
        "lambda_": 0.1,
        "preset": "paper",
        "word_embedding": "text",
        "pool_size": 7,
        "pool_sha256": "ab" * 32,
        "utility": "paper",
        "accuracy_without_words": 0.5,
        "search": "exact",
    }
    return Selection(steps, **{**values, **changes})
