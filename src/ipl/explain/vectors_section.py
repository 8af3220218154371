"""The soft vectors: what lies near them, and how far they moved."""

from __future__ import annotations

from ipl.display.document import Block, Figure, Figures, Heading, Paragraph, Section
from ipl.display.document import make_table as make
from ipl.display.formatting import number
from ipl.display.plots import Bar, bars
from ipl.explain.analysis import Analysis
from ipl.explain.vectors import Vector, Vectors


def vectors_section(analysis: Analysis) -> Section:
    """Returns the soft vectors beside the words of the pool and beside their start."""
    blocks: list[Block] = [
        Paragraph(
            "A soft vector is a row of numbers where a word's embedding would stand. Below is the "
            "word whose embedding points most nearly the same way (cosine) and how far away it is "
            f"(distance); embeddings of the pool have a mean length of "
            f"{analysis.vectors.word_norm:.3f}. A vector that started at random has a nearest word "
            "too: a cosine no higher than it had at its start says nothing."
        )
    ]
    named = [("This prompt", analysis.vectors)]
    if analysis.plain_vectors is not None:
        named.append(("The learner without words", analysis.plain_vectors))
    most = max((v.moved or 0.0 for _, one in named for v in one.vectors), default=0.0)
    blocks.append(Figures(tuple(_moves(name, one, most) for name, one in named)))
    for name, one in named:
        blocks += [Heading(name), _nearest(name, one), *_others(one)]
    return Section("vectors", "The soft vectors", tuple(blocks))


def _label(vector: Vector) -> str:
    return f"group {vector.group}, vector {vector.number}"


def _moves(name: str, vectors: Vectors, most: float) -> Figure:
    known = [vector for vector in vectors.vectors if vector.moved is not None]
    shown = [Bar(_label(v), v.moved or 0.0, number(v.moved or 0.0, 3)) for v in known]
    told = ", ".join(f"{_label(v)} {v.moved:.3f}" for v in known)
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
    alt = f"{title}: {told or 'the start is not known'}."
    return Figure(title, bars(shown, alt, most), make(title, columns, rows))


def _nearest(name: str, vectors: Vectors) -> Block:
    rows = []
    for v in vectors.vectors:
        near = ", ".join(f"{n.word} ({n.cosine:.2f})" for n in v.nearest[1:])
        best, start = v.nearest[0], v.nearest_at_start
        rows.append(
            [
                _label(v),
                best.word,
                number(best.cosine, 3),
                number(best.distance, 3),
                near,
                start.word if start else "",
                number(start.cosine, 3) if start else "",
            ]
        )
    columns = (
        *("vector", "nearest word now", "cosine now", "distance now"),
        *("next nearest now (cosine)", "nearest word at start", "cosine at start"),
    )
    return make(f"{name}: nearest words", columns, rows)


def _others(vectors: Vectors) -> list[Block]:
    if not vectors.others:
        return []
    rows = [
        [o.name, f"{o.numbers:,}", number(o.distance), number(o.start_norm)] for o in vectors.others
    ]
    columns = ("trained as well", "numbers", "moved in all", "length at start")
    return [make("What else this learner trained", columns, rows)]
