"""Ablations: one setting at several levels, summarised level by level, as tables and a plot."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ipl.bench.arms import WITH_WORDS
from ipl.bench.planned_runs import Level, Planned
from ipl.bench.protocols.base_to_novel import BaseToNovel
from ipl.bench.protocols.protocol import Values
from ipl.bench.protocols.registry import all_measures
from ipl.bench.records import NOT_RUN, RunRecord
from ipl.bench.run import POOL, Run
from ipl.bench.tables import paper
from ipl.bench.tables.cells import AVERAGE, Cell, number_text, paper_numbers, paper_text
from ipl.bench.tables.figures import TITLES
from ipl.bench.tables.methods import common_settings, learner_name, results_caption
from ipl.bench.tables.result_table import build_tables, protocol_title
from ipl.config import CHOSEN
from ipl.display.formatting import several
from ipl.display.plots import ErrorBarLine, Panel, plot_panels
from ipl.display.table import DIFFERS, Table
from ipl.support.errors import DataError


class Varied(NamedTuple):
    """What an ablation varies, and how plots and tables name it."""

    setting: str  # of a plan, or the pool of words
    axis: str
    column: str


ABLATIONS = {
    "penalty": Varied("lambda", "weight of redundancy, λ", "lambda"),
    "k": Varied("words", "number of words, k", "k"),
    "interval": Varied("interval", "epochs after each word, t", "t"),
    "template": Varied("template", "sentence that scores words", "sentence"),
    "pool": Varied(POOL, "pool of words", "pool"),
    "init": Varied("init", "start of the soft vectors", "start"),
    "shots": Varied("shots", "training images per class", "shots"),
    "arms": Varied("arms", "arm", "arm"),
}
ENOUGH_SEEDS = 3
CHANGES_WORDS = ("penalty", "template", "pool")
ENDINGS = ("_std", "_low", "_high")  # of columns beside a mean
PAPER_METHOD = ("coop", True)  # what the paper's tables of ablations are about: CoOp with words


@dataclass(frozen=True)
class AblationRow:
    """One method at one level on one dataset, or its average."""

    level: Level
    cell: Cell

    @property
    def method(self) -> str:
        """Returns the method's name; where arms vary, the level is the arm."""
        method = self.cell.method
        return method.label if "arms" not in self.level.settings else learner_name(method.learner)


@dataclass(frozen=True)
class Ablation:
    """The results of every level of one setting.

    Attributes
    ----------
    name : str
        A key of `ABLATIONS`.
    protocol, source : str
        The protocol, and the dataset that was trained on, if the protocol has one.
    measures : tuple of str
        What was measured: base, novel and hm, or accuracy.
    datasets : tuple of str
        The datasets, and the average if there are several.
    rows : tuple of AblationRow
        A row for each level, method and dataset.
    common : dict
        The settings that all runs share.
    same_words : bool
        Whether all levels chose the same words.
    notes : tuple of str
        Sentences on the data.
    """

    name: str
    protocol: str
    source: str | None
    measures: tuple[str, ...]
    datasets: tuple[str, ...]
    rows: tuple[AblationRow, ...]
    common: dict[str, Any] = field(default_factory=dict)
    same_words: bool = False
    notes: tuple[str, ...] = ()

    @property
    def varied(self) -> Varied:
        """Returns what varies."""
        return ABLATIONS[self.name]

    @property
    def headline(self) -> str:
        """Returns the dataset to plot: the average, or the only one there is."""
        if AVERAGE in self.datasets:
            return AVERAGE
        return next(name for name in self.datasets if name != self.source)

    def of(self, dataset: str) -> list[AblationRow]:
        """Returns the rows of a dataset, or of the average, method by method."""
        rows = [row for row in self.rows if row.cell.dataset == dataset]
        methods = list(dict.fromkeys(row.method for row in rows))
        return sorted(rows, key=lambda row: methods.index(row.method))


def summarize_ablation(name: str, planned: Planned, records: Sequence[RunRecord]) -> Ablation:
    """Returns an ablation from the records of its runs; records of other runs are ignored.

    Parameters
    ----------
    name : str
        A key of `ABLATIONS`.
    planned : Planned
        The runs, level by level.
    records : sequence of RunRecord
        The records of a folder.

    Returns
    -------
    Ablation
        The results; a run without a record is a gap in its cell.

    Raises
    ------
    DataError
        If none of the runs is done.
    """
    by_id = {record.id: record for record in records}
    rows: list[AblationRow] = []
    results = []
    for level, runs in planned.levels:
        (result,) = build_tables([by_id.get(run.id) or _not_run(run) for run in runs])
        datasets = [*result.datasets, *([AVERAGE] if len(result.averaged) > 1 else [])]
        results.append((result, datasets))
        cells = [cell for cell in result.cells if cell.dataset in datasets]
        rows += [AblationRow(level, _beside_paper(name, level, cell)) for cell in cells]
    if not any(row.cell.numbers for row in rows):
        errors = [by_id[run.id].error for run in planned.runs if run.id in by_id]
        first = f" The first failed: {errors[0]}" if errors else ""
        raise DataError(f"None of the ablation's runs is done; there is nothing to show.{first}")
    result, datasets = results[0]
    return Ablation(
        name,
        result.protocol,
        result.source,
        result.measures,
        tuple(datasets),
        tuple(rows),
        _common(planned, by_id),
        _same_words(planned, by_id),
        (
            *_few_seeds(rows),
            *dict.fromkeys(note for result, _ in results for note in result.notes),
        ),
    )


def _common(planned: Planned, records: Mapping[str, RunRecord]) -> dict[str, Any]:
    """Returns the settings that all runs share, those that train nothing aside."""
    common = common_settings(records.get(run.id) or _not_run(run) for run in planned.runs)
    words = {run.words for run in planned.runs if run.arm in WITH_WORDS}
    return {**common, "words": words.pop()} if len(words) == 1 else common


def _few_seeds(rows: Sequence[AblationRow]) -> tuple[str, ...]:
    """Returns a sentence if there are too few seeds to tell a difference from chance."""
    most = max(len(row.cell.seeds) for row in rows)
    if most >= ENOUGH_SEEDS:
        return ()
    return (f"From {several(most, 'seed')}, too few to conclude anything from a difference.",)


def _same_words(planned: Planned, records: Mapping[str, RunRecord]) -> bool:
    """Returns whether all levels have words, and the same ones for each dataset and seed."""
    words: dict[tuple[str, str, int], set[tuple[str, ...]]] = {}
    for _, runs in planned.levels:
        for run in runs:
            if run.arm == CHOSEN and run.id in records and records[run.id].done:
                key = (run.dataset, run.learner, run.seed)
                words.setdefault(key, set()).add(records[run.id].chosen)
    return bool(words) and all(len(choices) == 1 for choices in words.values())


def _not_run(run: Run) -> RunRecord:
    """Returns a record that says that a run has none."""
    return RunRecord(
        id=run.id,
        protocol=run.protocol,
        dataset=run.dataset,
        learner=run.learner,
        words=run.words,
        seed=run.seed,
        shots=run.shots,
        settings=dict(run.settings),
        backbone={"name": run.backbone, "precision": run.precision},
        data={},
        accuracy={},
        error=NOT_RUN,
        targets=run.targets,
    )


def _beside_paper(name: str, level: Level, cell: Cell) -> Cell:
    """Returns the cell with the paper's numbers of this ablation and level, if it has any."""
    protocol, method = cell.method.runs[0].protocol, cell.method
    levels = _paper_levels(name, cell.dataset) if protocol == BaseToNovel.name else {}
    numbers = next((n for value, n in levels.items() if value == level.value), None)
    if numbers is None or (method.learner, method.with_words) != PAPER_METHOD:
        return replace(cell, paper=None)
    # The level is the paper's, although it is not the value of the paper's other tables.
    varied = f"{ABLATIONS[name].setting} is "
    others = tuple(text for text in cell.differences if not text.startswith(varied))
    return replace(cell, paper=numbers, differences=others)


def _paper_levels(name: str, dataset: str) -> dict[Any, Values]:
    """Returns the paper's numbers on a dataset, or of the average, by level of an ablation."""
    if name == "penalty" and dataset in paper.penalty():
        numbers = paper.penalty()[dataset]
        # No level has the average with a penalty: its weight is not the same for all datasets.
        weight = paper.LAMBDA.get(dataset, "0.1 (Pets and Flowers 0.2)")
        return {0: numbers[False], weight: numbers[True]}
    if name == "template":
        sentences = paper.templates().items()
        return {text: {"hm": values[dataset]} for text, values in sentences if dataset in values}
    return {}


def ablation_table(ablation: Ablation) -> Table:
    """Returns a section for each dataset and the average, a row for each method and level."""
    varied = ablation.varied
    measures = [all_measures()[measure] for measure in ablation.measures]
    columns = ["dataset", "method", varied.column, *measures, "seeds"]
    compared = [row.cell.paper for row in ablation.rows if row.cell.comparable]
    if compared:
        columns.append(f"paper {_headings(compared[0] or {})}")
    protocol = protocol_title(ablation.protocol, ablation.source)
    table = Table(
        columns,
        title=f"Ablation of the {varied.axis}: {protocol[0].lower()}{protocol[1:]}",
        caption=results_caption({k: v for k, v in ablation.common.items() if k != varied.setting}),
        numbers=columns[3:],
    )
    for dataset in ablation.datasets:
        rows, last_method = [], ""
        for index, row in enumerate(ablation.of(dataset)):
            method = row.method if row.method != last_method else ""
            last_method = row.method
            numbers = [number_text(row.cell.numbers.get(name)) for name in ablation.measures]
            seeds = str(len(row.cell.seeds)) + table.footnote_mark(row.cell.gaps)
            cells = [dataset if index == 0 else "", method, row.level.label, *numbers, seeds]
            rows.append([*cells, *([paper_text(table, row.cell)] if compared else [])])
        table.add_section(rows)
    table.notes += ablation.notes
    if ablation.same_words and ablation.name in CHANGES_WORDS:
        table.notes.append("Every level chose the same words: it makes no difference here.")
    table.notes += _paper_notes(ablation, bool(compared))
    return table


def _paper_notes(ablation: Ablation, compared: bool) -> list[str]:
    """Returns what the paper's column is, and the paper's numbers that are not in it."""
    if ablation.protocol != BaseToNovel.name:
        return []
    notes = []
    if compared:
        setting = "our setting is the paper's but for the level"
        notes.append(f"paper: its number where {setting}; {DIFFERS} where it is not.")
    if ablation.name == "interval":
        best = "CoOp and KgCoOp, best at t = 10"
        notes.append(f"The paper shows this ablation in a figure, without numbers ({best}).")
    for dataset in ablation.datasets:
        levels = _paper_levels(ablation.name, dataset)
        shown = {row.level.value for row in ablation.of(dataset) if row.cell.comparable}
        too_few = dataset == AVERAGE and not set(paper.ELEVEN) <= set(ablation.datasets)
        if too_few or levels.keys() <= shown:
            continue
        numbers = "; ".join(f"{label}: {paper_numbers(values)}" for label, values in levels.items())
        notes.append(
            f"The paper, {dataset} (CLIP ViT-B/16, CoOp + IPL, "
            f"{_headings(next(iter(levels.values())))}), by {ablation.varied.column}: {numbers}."
        )
        if dataset == AVERAGE:
            (line,) = (line for line in paper.rows("penalty") if line["dataset"] == dataset)
            notes.append(
                f"The paper prints {line['hm_without']} and {line['hm_with']} as average HMs, "
                "which are the means of the datasets' HMs; these are the HMs of the averages."
            )
    return notes


def _headings(values: Values) -> str:
    return " / ".join(all_measures()[measure] for measure in values)


def ablation_to_csv(ablation: Ablation) -> str:
    """Returns one line per dataset, method and level; numbers in %, in full precision."""
    measures = [f"{name}{ending}" for name in ablation.measures for ending in ("", *ENDINGS)]
    published = [f"paper_{name}" for name in ablation.measures]
    columns = ["dataset", "method", ablation.name, *measures, *published]
    columns += ["seeds", "gaps", "differs_from_paper"]
    rows = []
    for row in ablation.rows:
        cells = [row.cell.dataset, row.method, str(row.level.value)]
        for measure in ablation.measures:
            number = row.cell.numbers.get(measure)
            values = asdict(number).values() if number else [None] * 4
            cells += ["" if value is None else str(value) for value in values]
        numbers = row.cell.paper_beside
        cells += [str(numbers.get(measure, "")) for measure in ablation.measures]
        cells += [" ".join(map(str, row.cell.seeds)), "; ".join(row.cell.gaps)]
        rows.append([*cells, "; ".join(row.cell.differences)])
    return Table(columns, rows).to_csv()


def ablation_to_values(ablation: Ablation) -> dict[str, Any]:
    """Returns everything in the ablation as plain values; numbers in %, in full precision."""
    return {
        "unit": "%",
        "ablation": ablation.name,
        "protocol": ablation.protocol,
        "source": ablation.source,
        "common": ablation.common,
        "same_words": ablation.same_words,
        "notes": list(ablation.notes),
        "rows": [_row_values(row) for row in ablation.rows],
    }


def _row_values(row: AblationRow) -> dict[str, Any]:
    return {
        "dataset": row.cell.dataset,
        "method": row.method,
        "level": row.level.value,
        "numbers": {measure: asdict(number) for measure, number in row.cell.numbers.items()},
        "seeds": list(row.cell.seeds),
        "gaps": list(row.cell.gaps),
        "paper": row.cell.paper_beside or None,
        "differs_from_paper": list(row.cell.differences),
    }


def plot_ablation(ablation: Ablation) -> dict[str, bytes]:
    """Returns the plot of the average as SVG and PNG files: a panel for each measure."""
    rows = ablation.of(ablation.headline)
    labels = list(dict.fromkeys(row.level.label for row in rows))
    numeric = all(isinstance(row.level.value, int | float) for row in rows)
    positions = {
        row.level.label: float(row.level.value) if numeric else float(labels.index(row.level.label))
        for row in rows
    }
    ticks = tuple(zip(positions.values(), _tick_texts(labels, numeric), strict=True))
    panels = [
        Panel(
            TITLES.get(measure, _accuracy_title(ablation)),
            _lines(rows, measure, positions, numeric),
            ticks,
            tick_size=9 if numeric else 8,
        )
        for measure in ablation.measures
    ]
    return plot_panels(panels, _plot_title(ablation, rows), ablation.varied.axis, "accuracy in %")


def _lines(
    rows: Sequence[AblationRow], measure: str, positions: Mapping[str, float], numeric: bool
) -> tuple[ErrorBarLine, ...]:
    """Returns a line for each method: a colour for each learner, a pattern for each arm."""
    kinds = {row.method: (row.cell.method.learner, row.cell.method.pattern) for row in rows}
    methods = list(kinds)
    learners = list(dict.fromkeys(learner for learner, _ in kinds.values()))
    distinct = len(set(kinds.values())) == len(kinds)
    lines = []
    for index, (method, (learner, pattern)) in enumerate(kinds.items()):
        # Side by side where levels have no order and no line joins them.
        shift = 0.0 if numeric else 0.12 * (index - (len(methods) - 1) / 2)
        points = []
        for row in rows:
            number = row.cell.numbers.get(measure)
            if row.method == method and number is not None:
                position = positions[row.level.label] + shift
                points.append((position, number.mean, number.std or 0.0))
        # A learner with several rows of the same kind needs a colour for each of them.
        colour = learners.index(learner) if distinct else index
        lines.append(ErrorBarLine(method, tuple(points), colour, pattern, numeric))
    return tuple(lines)


def _plot_title(ablation: Ablation, rows: Sequence[AblationRow]) -> str:
    """Returns what is shown: the method if there is only one, data, backbone, shots and seeds."""
    methods = dict.fromkeys(row.method for row in rows)
    names = [name for name in ablation.datasets if name not in (AVERAGE, ablation.source)]
    data = names[0] if len(names) == 1 else f"average of {len(names)} datasets"
    parts = [f"{next(iter(methods))}, {data}" if len(methods) == 1 else data]
    if ablation.source:
        parts.append(f"trained on {ablation.source}")
    if "backbone" in ablation.common:
        parts.append(str(ablation.common["backbone"]))
    if "shots" in ablation.common:
        parts.append(f"{ablation.common['shots']} shots")
    counts = sorted({len(row.cell.seeds) for row in rows if row.cell.seeds})
    seeds = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])
    statistic = "1 seed" if seeds == "1" else f"mean and standard deviation of {seeds} seeds"
    return f"{', '.join(parts)}: {statistic}"


def _accuracy_title(ablation: Ablation) -> str:
    return "average of the targets" if ablation.headline == AVERAGE else ablation.headline


def _tick_texts(labels: Sequence[str], numeric: bool) -> list[str]:
    """Returns what to write below the levels: of sentences only what tells them apart."""
    if numeric:
        return list(labels)
    start = _shared_start(labels)
    end = _shared_start([label[len(start) :][::-1] for label in labels])[::-1]
    short = [label[len(start) : len(label) - len(end)].strip(" :,") for label in labels]
    texts = [text if " " in text else Path(text).name for text in (short if all(short) else labels)]
    return ["\n".join(textwrap.wrap(textwrap.shorten(text, 40), 10)) for text in texts]


def _shared_start(texts: Sequence[str]) -> str:
    """Returns the words that all texts begin with."""
    if len(texts) < 2:
        return ""
    start = ""
    for word in texts[0].split(" "):
        longer = f"{start}{word} "
        if not all(text.startswith(longer) for text in texts):
            break
        start = longer
    return start
