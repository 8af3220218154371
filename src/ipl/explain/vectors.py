"""The soft vectors: which words lie nearest, and how far each moved from its start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ipl.learners.learner import Learner
from ipl.words.pool import Pool

NEAREST = 3


@dataclass(frozen=True)
class Near:
    """A word of the pool, and how near its embedding is."""

    word: str
    cosine: float
    distance: float


@dataclass(frozen=True)
class Vector:
    """One soft vector; `moved` is None where its start cannot be drawn again."""

    group: int
    number: int
    norm: float
    nearest: tuple[Near, ...]  # by cosine
    nearest_at_start: Near | None
    moved: float | None  # distance from its start
    start_norm: float | None


@dataclass(frozen=True)
class Moved:
    """What else a learner trained, and how far it moved as a whole."""

    name: str
    numbers: int
    distance: float
    start_norm: float


@dataclass(frozen=True)
class Vectors:
    """All soft vectors of one learner, and what else it trained."""

    vectors: tuple[Vector, ...]
    others: tuple[Moved, ...]
    word_norm: float  # mean length of the pool's embeddings, to compare with


def describe_vectors(learner: Learner, training: Mapping[str, Any], pool: Pool) -> Vectors:
    """Returns the vectors of a learner beside the words of a pool and beside their start."""
    rows = learner.backbone.embed(learner.backbone.tokenize_words(pool.words))
    first = start_of(learner, training)
    soft = learner.soft.detach()
    found, place = [], 0
    for number, group in enumerate(learner.layout.groups, start=1):
        for inside in range(1, group.size + 1):
            now, then = soft[place], None if first is None else first.soft.detach()[place]
            found.append(
                Vector(
                    group=number,
                    number=inside,
                    norm=float(now.norm()),
                    nearest=nearest(now, rows, pool),
                    nearest_at_start=None if then is None else nearest(then, rows, pool, 1)[0],
                    moved=None if then is None else float((now - then).norm()),
                    start_norm=None if then is None else float(then.norm()),
                )
            )
            place += 1
    others = []
    if first is not None:
        starts = first.state_dict()
        for name, value in learner.state_dict().items():
            if name != "soft" and value.numel():
                way = float((value - starts[name]).norm())
                others.append(Moved(name, value.numel(), way, float(starts[name].norm())))
    return Vectors(tuple(found), tuple(others), float(rows.norm(dim=-1).mean()))


def nearest(vector: Tensor, rows: Tensor, pool: Pool, most: int = NEAREST) -> tuple[Near, ...]:
    """Returns the pool's words whose embeddings (words, width) have the highest cosine."""
    cosines = normalize(rows, dim=-1) @ normalize(vector, dim=-1)
    best = torch.argsort(cosines, descending=True, stable=True)[:most].tolist()
    return tuple(
        Near(pool.words[i], float(cosines[i]), float((rows[i] - vector).norm())) for i in best
    )


def start_of(learner: Learner, training: Mapping[str, Any]) -> Learner | None:
    """Returns the learner before training, drawn again from its seed; None if that is not known."""
    seed, m = training.get("seed"), training.get("m")
    if not isinstance(seed, int) or not isinstance(m, int):
        return None
    kind = type(learner)
    layout = kind.layout_for(learner.layout.slots, m)
    if layout.readable() != learner.layout.readable():  # a learner whose layout has changed since
        return None
    return kind(
        learner.backbone,
        layout,
        learner.prompts.class_names,
        seed,
        learner.placeholder,
        learner.depth,
        learner.class_template,
    )
