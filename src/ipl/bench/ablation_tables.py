"""Ablations as tables: a row for each level of the setting that varies."""

from __future__ import annotations

import csv
from dataclasses import asdict
from io import StringIO
from typing import Any

from ipl.bench.ablation import Ablation, AblationRow
from ipl.bench.protocols.base_to_novel import BaseToNovel
from ipl.bench.protocols.registry import all_measures, find_protocol
from ipl.bench.tables import paper
from ipl.bench.tables.cells import AVERAGE
from ipl.bench.tables.methods import setting_text
from ipl.bench.tables.sheets import number
from ipl.display.table import Sheet

NAMES = {"penalty": "lambda", "k": "k", "interval": "t", "template": "sentence", "pool": "pool"}


def ablation_sheet(ablation: Ablation) -> Sheet:
    """Returns a section for each dataset and the average, a row for each method and level."""
    names = [all_measures()[measure] for measure in ablation.measures]
    columns = ["dataset", "method", NAMES[ablation.name], *names, "seeds"]
    protocol = find_protocol(ablation.protocol).title.format(ablation.source)
    title = f"Ablation of the {ablation.axis}: {protocol[0].lower()}{protocol[1:]}"
    sheet = Sheet(title, columns, 3, _caption(ablation))
    for dataset in ablation.datasets:
        rows, last = [], ""
        for place, row in enumerate(ablation.of(dataset)):
            method = row.method if row.method != last else ""
            last = row.method
            cells = [number(row.entry.numbers.get(measure)) for measure in ablation.measures]
            seeds = str(len(row.entry.seeds)) + sheet.mark(row.entry.gaps)
            rows.append([dataset if place == 0 else "", method, row.level.label, *cells, seeds])
        sheet.sections.append(rows)
    sheet.notes += ablation.notes
    if ablation.same_words and ablation.name in ("penalty", "template", "pool"):
        sheet.notes.append("Every level chose the same words: it makes no difference here.")
    if ablation.name == "penalty" and ablation.protocol == BaseToNovel.name:
        with_it, without = paper.PENALTY[True], paper.PENALTY[False]
        sheet.notes.append(
            "The paper's averages (CLIP ViT-B/16, CoOp + IPL, eleven datasets): "
            f"without the penalty novel {without['novel']:.2f}, HM {without['hm']:.2f}; "
            f"with 0.1 (0.2 for Pets and Flowers) {with_it['novel']:.2f}, {with_it['hm']:.2f}."
        )
    return sheet


def _caption(ablation: Ablation) -> str:
    parts = ["Accuracy in %, mean ± standard deviation over seeds"]
    for key, text in (("backbone", "{}"), ("shots", "{} shots"), ("words", "words {}")):
        if key in ablation.common:
            parts.append(text.format(setting_text(ablation.common[key])))
    return ", ".join(parts)


def ablation_csv(ablation: Ablation) -> str:
    """Returns one line per dataset, method and level; numbers in %, in full precision."""
    text = StringIO()
    columns = [f"{m}{end}" for m in ablation.measures for end in ("", "_std")]
    names = ["dataset", "method", ablation.name, *columns, "seeds", "gaps"]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for row in ablation.rows:
        cells: list[Any] = []
        for measure in ablation.measures:
            found = row.entry.numbers.get(measure)
            cells += [found.mean, found.std] if found else ["", ""]
        seeds = " ".join(map(str, row.entry.seeds))
        gaps = "; ".join(row.entry.gaps)
        writer.writerow([row.entry.dataset, row.method, row.level.value, *cells, seeds, gaps])
    return text.getvalue()


def ablation_values(ablation: Ablation) -> dict[str, Any]:
    """Returns everything in the ablation as plain values; numbers in %, in full precision."""
    return {
        "unit": "%",
        "ablation": ablation.name,
        "protocol": ablation.protocol,
        "source": ablation.source,
        "common": ablation.common,
        "same_words": ablation.same_words,
        "notes": list(ablation.notes),
        "rows": [_row(row) for row in ablation.rows],
    }


def _row(row: AblationRow) -> dict[str, Any]:
    return {
        "dataset": row.entry.dataset,
        "method": row.method,
        "level": row.level.value,
        "numbers": {measure: asdict(found) for measure, found in row.entry.numbers.items()},
        "seeds": list(row.entry.seeds),
        "gaps": list(row.entry.gaps),
    }


def headline(ablation: Ablation) -> str:
    """Returns the dataset to plot: the average, or the only one there is."""
    if AVERAGE in ablation.datasets:
        return AVERAGE
    return next(name for name in ablation.datasets if name != ablation.source)
