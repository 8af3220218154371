"""The soft vectors: which tokens of the backbone's vocabulary lie nearest."""

from __future__ import annotations

from ipl.display.document import Paragraph, Section
from ipl.display.formatting import several
from ipl.display.table import Table
from ipl.explain.inputs import ReportData


def vectors_section(data: ReportData) -> Section:
    """The tokens nearest to each vector."""
    learner = data.run.learner
    names = [
        f"{group}.{vector}"
        for group, each in enumerate(learner.layout.groups, start=1)
        for vector in range(1, each.size + 1)
    ]
    nearest = learner.backbone.nearest_tokens(learner.soft.detach(), 3)
    vectors = dict(zip(names, nearest, strict=True))
    columns = ("vector", "nearest token", "second", "third")
    caption = "Vectors by group and number, and the tokens nearest to them"
    blocks = (
        Paragraph(
            "A soft vector is a row of numbers where a token's embedding would stand. Below are "
            "the tokens of the backbone's whole vocabulary (words, pieces of words and signs) "
            "whose embeddings have the smallest Euclidean distance. A vector that started at "
            "random has a nearest token too, so these say little."
        ),
        Table(columns, [[name, *tokens] for name, tokens in vectors.items()], caption=caption),
    )
    summary = f"{several(len(vectors), 'vector')} and the tokens nearest to them."
    return Section("vectors", "The soft vectors", blocks, summary, {"vectors": vectors})
