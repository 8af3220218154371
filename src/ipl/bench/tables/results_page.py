"""The results of a bench as a page: every table, and the figures between them."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence

from ipl._version import __version__
from ipl.bench.records import RunRecord
from ipl.bench.tables.figures import Drawing
from ipl.display.document import Block, Document, Picture, Section
from ipl.display.formatting import several
from ipl.display.table import Table


def results_document(
    name: str,
    runs: Sequence[RunRecord],
    tables: Mapping[str, Sequence[Table]],
    drawings: Sequence[Drawing] = (),
    warnings: Sequence[str] = (),
    verdicts: Sequence[str] = (),
) -> Document:
    """Returns the page of a bench.

    Parameters
    ----------
    name : str
        What the results are of, such as the name of the folder.
    runs : sequence of RunRecord
        The records that the tables are made from.
    tables : mapping
        The tables of each section, by its title.
    drawings : sequence of Drawing
        The figures; each stands in its section, below the tables.
    warnings : sequence of str
        What a reader must know first, such as records that were left out.
    verdicts : sequence of str
        What the results say, a sentence each, to begin with.
    """
    failed = sum(not run.done for run in runs)
    lead = f"{several(len(runs), 'run')}" + (f", {failed} of them failed." if failed else ".")
    sections = []
    for title, shown in tables.items():
        blocks: list[Block] = list(shown)
        blocks += [_picture(drawing) for drawing in drawings if drawing.section == title]
        sections.append(Section(_anchor(title), title, tuple(blocks)))
    return Document(
        title=f"Results of {name}",
        subtitle="A bench of prompt learners",
        prompt=(),
        lead=(lead, *verdicts),
        warnings=tuple(warnings),
        sections=tuple(sections),
        foot=f"Written by ipl {__version__} with `ipl table`.",
    )


def _picture(drawing: Drawing) -> Picture:
    svg = drawing.files["svg"]
    uri = f"data:image/svg+xml;base64,{base64.b64encode(svg).decode('ascii')}"
    width = re.search(rb'<svg[^>]* width="([\d.]+)pt"', svg)
    assert width is not None
    pixels = round(float(width[1]) * 4 / 3)
    return Picture(drawing.title, uri, pixels, drawing.alt, drawing.table)


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
