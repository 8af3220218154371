"""Untrained learners of three classes."""

from __future__ import annotations

from typing import Any

from ipl.backbone.backbone import Backbone
from ipl.learners.learner import Learner
from ipl.learners.registry import learner_class

NAMES = ("cat", "starry night", "pirate ship")
WORDS = ("furry", "blue")


def make_learner(
    backbone: Backbone,
    kind: str | type[Learner],
    slots: int = 0,
    placed: bool = True,
    **options: Any,
) -> Any:
    """Returns a learner as published, with its first two words in their slots if wanted."""
    cls = learner_class(kind) if isinstance(kind, str) else kind
    numbers = cls.hyperparameters(slots)
    layout = cls.layout_for(slots, options.pop("m", numbers.m))
    learner = cls(backbone, layout, NAMES, **{"depth": numbers.depth, **options})
    for word in WORDS[:slots] if placed else ():
        learner.place_word(word)
    return learner
