"""The soft vectors: which words lie nearest, and how far each moved from its start."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ipl.config import FitConfig
from ipl.display.document import Block, Figure, Figures, Heading, Paragraph, Section
from ipl.display.formatting import number, several
from ipl.display.plots import Bar, bars
from ipl.display.table import Table
from ipl.learners.learner import Learner
from ipl.training.fit import new_learner
from ipl.words.pool import Pool

NEAREST = 3


@dataclass(frozen=True)
class NearWord:
    """A word of the pool, and how near its embedding is."""

    word: str
    cosine: float
    distance: float


@dataclass(frozen=True)
class SoftVector:
    """One soft vector; `moved` is None where its start cannot be drawn again."""

    group: int
    number: int
    norm: float
    nearest: tuple[NearWord, ...]  # by cosine
    nearest_at_start: NearWord | None
    moved: float | None  # distance from its start
    start_norm: float | None


@dataclass(frozen=True)
class TrainedTensor:
    """Another tensor that a learner trained, and how far it moved as a whole."""

    name: str
    numbers: int
    distance: float
    start_norm: float


@dataclass(frozen=True)
class Vectors:
    """All soft vectors of one learner, and what else it trained."""

    vectors: tuple[SoftVector, ...]
    others: tuple[TrainedTensor, ...]
    word_norm: float  # mean length of the pool's embeddings, to compare with


def describe_vectors(learner: Learner, config: FitConfig, pool: Pool) -> Vectors:
    """Returns the vectors of a learner beside the words of a pool and beside their start."""
    embeddings = learner.backbone.embed(learner.backbone.tokenize_words(pool.words))
    start = untrained(learner, config)
    soft, start_soft = learner.soft.detach(), None if start is None else start.soft.detach()
    vectors, row = [], 0
    for group_number, group in enumerate(learner.layout.groups, start=1):
        for vector_number in range(1, group.size + 1):
            now, then = soft[row], None if start_soft is None else start_soft[row]
            vectors.append(
                SoftVector(
                    group=group_number,
                    number=vector_number,
                    norm=float(now.norm()),
                    nearest=nearest(now, embeddings, pool),
                    nearest_at_start=(
                        None if then is None else nearest(then, embeddings, pool, 1)[0]
                    ),
                    moved=None if then is None else float((now - then).norm()),
                    start_norm=None if then is None else float(then.norm()),
                )
            )
            row += 1
    others = []
    if start is not None:
        start_state = start.state_dict()
        for name, value in learner.state_dict().items():
            if name != "soft" and value.numel():
                first = start_state[name]
                distance = float((value - first).norm())
                others.append(TrainedTensor(name, value.numel(), distance, float(first.norm())))
    return Vectors(tuple(vectors), tuple(others), float(embeddings.norm(dim=-1).mean()))


def nearest(
    vector: Tensor, embeddings: Tensor, pool: Pool, limit: int = NEAREST
) -> tuple[NearWord, ...]:
    """Returns the pool's words whose embeddings (words, width) have the highest cosine."""
    cosines = normalize(embeddings, dim=-1) @ normalize(vector, dim=-1)
    best = torch.argsort(cosines, descending=True, stable=True)[:limit].tolist()
    return tuple(
        NearWord(pool.words[i], float(cosines[i]), float((embeddings[i] - vector).norm()))
        for i in best
    )


def untrained(learner: Learner, config: FitConfig) -> Learner | None:
    """Returns the learner before training, drawn again from its seed; None if it is not known."""
    classes = learner.prompts.class_names
    start = new_learner(config, learner.backbone, classes, learner.layout.slots)
    # A learner whose layout has changed since the run was trained cannot be drawn again.
    same = start.layout.readable() == learner.layout.readable()
    return start if same else None


# -- how it is shown ----------------------------------------------------------------------------


def vectors_section(vectors: Vectors, baseline: Vectors | None) -> Section:
    """Returns the soft vectors beside the words of the pool and beside their start."""
    blocks: list[Block] = [
        Paragraph(
            "A soft vector is a row of numbers where a word's embedding would stand. Below is the "
            "word whose embedding points most nearly the same way (cosine) and how far away it is "
            f"(distance); embeddings of the pool have a mean length of {vectors.word_norm:.3f}. A "
            "vector that started at random has a nearest word too: a cosine no higher than it had "
            "at its start says nothing."
        )
    ]
    learners = [("This prompt", vectors)]
    if baseline is not None:
        learners.append(("The learner without words", baseline))
    longest = max((v.moved or 0.0 for _, some in learners for v in some.vectors), default=0.0)
    blocks.append(Figures(tuple(_moves(name, some, longest) for name, some in learners)))
    for name, some in learners:
        blocks += [Heading(name), _nearest_table(name, some), *_others_tables(some)]
    moves = [vector.moved for vector in vectors.vectors if vector.moved is not None]
    summary = several(len(vectors.vectors), "vector")
    if moves:
        summary += f", moved by {number(sum(moves) / len(moves), 3)} on average"
    summary += "; the words nearest to them."
    return Section("vectors", "The soft vectors", tuple(blocks), summary)


def _label(vector: SoftVector) -> str:
    return f"group {vector.group}, vector {vector.number}"


def _moves(name: str, vectors: Vectors, longest: float) -> Figure:
    moves = [(_label(v), v.moved) for v in vectors.vectors if v.moved is not None]
    values = ", ".join(f"{label} {moved:.3f}" for label, moved in moves)
    rows = [
        [
            _label(v),
            "" if v.moved is None else number(v.moved),
            "" if v.start_norm is None else number(v.start_norm),
            number(v.norm),
        ]
        for v in vectors.vectors
    ]
    columns = ("vector", "moved", "length at start", "length now")
    title = f"{name}: how far each vector moved"
    alt = f"{title}: {values or 'the start is not known'}."
    svg = bars([Bar(label, moved, number(moved, 3)) for label, moved in moves], alt, longest)
    return Figure(title, svg, Table(columns, rows, caption=title))


def _nearest_table(name: str, vectors: Vectors) -> Block:
    rows = []
    for vector in vectors.vectors:
        best, start = vector.nearest[0], vector.nearest_at_start
        rows.append(
            [
                _label(vector),
                best.word,
                number(best.cosine, 3),
                number(best.distance, 3),
                ", ".join(f"{near.word} ({near.cosine:.2f})" for near in vector.nearest[1:]),
                start.word if start else "",
                number(start.cosine, 3) if start else "",
            ]
        )
    columns = (
        *("vector", "nearest word now", "cosine now", "distance now"),
        *("next nearest now (cosine)", "nearest word at start", "cosine at start"),
    )
    return Table(columns, rows, caption=f"{name}: nearest words")


def _others_tables(vectors: Vectors) -> list[Block]:
    if not vectors.others:
        return []
    rows = [
        [o.name, f"{o.numbers:,}", number(o.distance), number(o.start_norm)] for o in vectors.others
    ]
    columns = ("trained as well", "numbers", "moved in all", "length at start")
    return [Table(columns, rows, caption="What else this learner trained")]
