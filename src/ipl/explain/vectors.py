"""The soft vectors: which words lie nearest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

from ipl.display.document import Paragraph, Section
from ipl.display.formatting import several
from ipl.display.table import Table
from ipl.explain.data import ReportData
from ipl.explain.run import LoadedRun
from ipl.learners.learner import Learner
from ipl.words.pool import Pool

NEAREST = 3


class NearWord(NamedTuple):
    """A word of the pool, and the cosine of its embedding with a vector."""

    word: str
    cosine: float

    def __str__(self) -> str:
        return f"{self.word} ({self.cosine:.2f})"


@dataclass(frozen=True)
class SoftVector:
    """One soft vector."""

    name: str  # group and number: 1.1
    nearest: tuple[NearWord, ...]


def describe_vectors(learner: Learner, pool: Pool) -> tuple[SoftVector, ...]:
    """The vectors of a learner beside the words of a pool."""
    embeddings = learner.backbone.embed(learner.backbone.tokenize_words(pool.words))
    names = [
        f"{group}.{vector}"
        for group, each in enumerate(learner.layout.groups, start=1)
        for vector in range(1, each.size + 1)
    ]
    return tuple(
        SoftVector(name, nearest(vector, embeddings, pool))
        for name, vector in zip(names, learner.soft.detach(), strict=True)
    )


def nearest(
    vector: Tensor, embeddings: Tensor, pool: Pool, limit: int = NEAREST
) -> tuple[NearWord, ...]:
    """The pool's words whose embeddings (words, width) have the highest cosine."""
    cosines = normalize(embeddings, dim=-1) @ normalize(vector, dim=-1)
    best = torch.argsort(cosines, descending=True, stable=True)[:limit].tolist()
    return tuple(NearWord(pool.words[i], float(cosines[i])) for i in best)


def vectors_section(run: LoadedRun, data: ReportData) -> Section:
    """The words nearest to each vector."""
    del data
    vectors = describe_vectors(run.learner, run.candidates)
    rows = [[each.name, *map(str, each.nearest)] for each in vectors]
    columns = ("vector", "nearest word", "second", "third")
    caption = "Vectors by group and number, and the words nearest to them by cosine"
    blocks = (
        Paragraph(
            "A soft vector is a row of numbers where a word's embedding would stand. Below are the "
            "words whose embeddings point most nearly the same way. A vector that started at "
            "random has a nearest word too, so these words say little."
        ),
        Table(columns, rows, caption=caption),
    )
    summary = f"{several(len(vectors), 'vector')} and the words nearest to them."
    return Section("vectors", "The soft vectors", blocks, summary, {"vectors": vectors})
