"""Result tables as sheets of text with footnotes."""

from __future__ import annotations

from collections.abc import Sequence

from ipl.bench.protocols.registry import all_measures, find_protocol
from ipl.bench.tables.cells import AVERAGE, Cell, Number
from ipl.bench.tables.gains import Gain
from ipl.bench.tables.methods import setting_text
from ipl.bench.tables.result_table import ResultTable
from ipl.display.table import DIFFERS, Sheet


def sheets_of(tables: Sequence[ResultTable]) -> list[Sheet]:
    """Returns a sheet of results for each table, and one of the gains of words if there are any."""
    sheets = []
    for table in tables:
        sheets.append(results_sheet(table))
        if table.gains:
            sheets.append(gains_sheet(table))
    return sheets


def results_sheet(table: ResultTable) -> Sheet:
    """Returns a section for each dataset and one for the average, a row for each method."""
    names = [all_measures()[measure] for measure in table.measures]
    average = [AVERAGE] if len(table.averaged) > 1 else []
    datasets = (*table.datasets, *average)
    there = [entry for entry in table.entries if entry.dataset in datasets]
    compared = any(entry.paper and entry.numbers for entry in there)
    columns = ["dataset", "method", *names, "seeds"]
    if compared:
        columns.append("paper " + " / ".join(names))
    sheet = Sheet(_title(table), columns, 2, _caption(table))
    for dataset in datasets:
        name = _average_name(table) if dataset == AVERAGE else dataset
        if dataset == table.source:
            name = f"{dataset} (source)"
        rows = []
        for place, entry in enumerate(table.of(dataset)):
            row = [name if place == 0 else "", entry.arm.label]
            row += [number(entry.numbers.get(measure)) for measure in table.measures]
            row.append(str(len(entry.seeds)) + sheet.mark(entry.gaps))
            if compared:
                row.append(_paper(sheet, table, entry))
            rows.append(row)
        sheet.sections.append(rows)
    sheet.notes += table.notes
    if compared:
        sheet.notes += _about_paper(table)
    return sheet


def gains_sheet(table: ResultTable) -> Sheet:
    """Returns what words brought over none, with the paired test."""
    columns = ["with words", "without", "measure", "difference", "pairs", "p"]
    caption = "Mean difference in percentage points; a pair is one dataset and one seed"
    sheet = Sheet(f"Gain of words, {_title(table)[0].lower()}{_title(table)[1:]}", columns, 3)
    sheet.caption = caption
    for gain in table.gains:
        sheet.sections.append(_gain_rows(sheet, gain))
    tests = dict.fromkeys(test.test for gain in table.gains for test in gain.tests.values())
    sheet.notes = [f"p: {test}; if words changed nothing, signs were a coin's." for test in tests]
    return sheet


def _gain_rows(sheet: Sheet, gain: Gain) -> list[list[str]]:
    differs = [f"The two also differ in {', '.join(gain.differs)}."] if gain.differs else []
    rows = []
    for place, (measure, test) in enumerate(gain.tests.items()):
        names = ["", ""]
        if place == 0:
            names = [gain.arm.label, gain.over.label + sheet.mark(differs)]
        p = "<0.0001" if test.p < 1e-4 else f"{test.p:.4f}"
        title = all_measures()[measure]
        rows.append([*names, title, f"{test.difference:+.2f}", str(test.pairs), p])
    return rows


def number(value: Number | None) -> str:
    """Returns "82.49 ± 0.31", without the deviation of a single seed, or a dash for none."""
    if value is None:
        return "-"
    return f"{value.mean:.2f}" + (f" ± {value.std:.2f}" if value.std is not None else "")


def _paper(sheet: Sheet, table: ResultTable, entry: Cell) -> str:
    if entry.paper is None or not entry.numbers:
        return ""
    if entry.comparable:
        return " / ".join(f"{entry.paper[measure]:.2f}" for measure in table.measures)
    return DIFFERS + sheet.mark(f"not the paper's setting: {why}" for why in entry.differs)


def _title(table: ResultTable) -> str:
    return find_protocol(table.protocol).title.format(table.source)


def _average_name(table: ResultTable) -> str:
    what = "datasets" if table.source is None else "targets"
    return f"average of {len(table.averaged)} {what}"


def _caption(table: ResultTable) -> str:
    common = table.common
    parts = ["Accuracy in %, mean ± standard deviation over seeds"]
    if "backbone" in common:
        parts.append(str(common["backbone"]))
    if "shots" in common:
        parts.append(f"{common['shots']} shots")
    words = {setting_text(run.words) for arm in table.arms if arm.with_words for run in arm.runs}
    if len(words) == 1:
        parts.append(f"words {words.pop()}")
    return ", ".join(parts)


def _about_paper(table: ResultTable) -> list[str]:
    notes = [f"paper: its number where our setting is the paper's; {DIFFERS} where it is not."]
    known = {(e.arm.learner, e.arm.with_words) for e in table.entries if e.paper}
    if table.source is None and any(learner != "coop" for learner, _ in known):
        notes.append("Of the paper's numbers per dataset only those of CoOp are kept here.")
    return notes
