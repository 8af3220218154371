"""Result tables: built from run records, shown to people, and written for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ipl.bench.arms import UNTRAINED, ZERO_SHOT
from ipl.bench.protocols.protocol import recorded_count
from ipl.bench.protocols.registry import PROTOCOLS, all_measures, find_protocol
from ipl.bench.records import RunRecord
from ipl.bench.tables.cells import (
    AVERAGE,
    Cell,
    average_cell,
    dataset_cell,
    differing_runs,
    finished_runs,
    measures_of,
    number_text,
    paper_text,
)
from ipl.bench.tables.gains import (
    Gain,
    baseline_verdicts,
    find_baseline_gains,
    find_gains,
    gain_values,
    gains_table,
    verdicts,
)
from ipl.bench.tables.intervals import count_test_images
from ipl.bench.tables.methods import Method, common_settings, group_methods, results_caption
from ipl.bench.tables.paper import SIZES, WORDS, ZERO_SHOT_SOURCE
from ipl.bench.tables.paper_comparison import published_settings
from ipl.config import GIVEN
from ipl.display.formatting import listed
from ipl.display.table import DIFFERS, Table
from ipl.metrics import wilson_interval

POCKET = "pocket"
# By its card; the labels of the last four only of up to 20 validation images a class, all classes.
# The drawn scenes are not among them: it saw 800 others, without the names of their classes.
SEEN_BY_POCKET = (
    *("imagenet", "food101", "stanford_cars"),
    *("caltech101", "oxford_pets", "oxford_flowers", "eurosat"),
)


@dataclass(frozen=True)
class ResultTable:
    """All methods of a protocol on all its datasets.

    Attributes
    ----------
    protocol, source : str
        The protocol, and the dataset that was trained on; None for base-to-novel.
    measures : tuple of str
        base, novel and hm, or accuracy.
    datasets, averaged : tuple of str
        The datasets of the table, and those of them that the average is over.
    methods : tuple of Method
        The rows.
    cells : tuple of Cell
        Each method on each dataset and its average, dataset by dataset.
    gains : tuple of Gain
        The differences between the arms of each learner.
    baselines : tuple of Gain
        What each learner has over zero-shot and over a linear probe.
    common : dict
        The settings that all runs share.
    notes : tuple of str
        Sentences on the data and the settings.
    """

    protocol: str
    source: str | None
    measures: tuple[str, ...]
    datasets: tuple[str, ...]
    averaged: tuple[str, ...]
    methods: tuple[Method, ...]
    cells: tuple[Cell, ...]
    gains: tuple[Gain, ...]
    common: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    baselines: tuple[Gain, ...] = ()

    @property
    def verdicts(self) -> list[str]:
        """Returns what the baselines and the arms say of each learner, a sentence each."""
        return [*baseline_verdicts(self.baselines), *verdicts(self.gains)]

    @property
    def title(self) -> str:
        """Returns the protocol and its source."""
        return protocol_title(self.protocol, self.source)

    def of(self, dataset: str) -> list[Cell]:
        """Returns the cells of a dataset, or of the average, in the order of the methods."""
        return [cell for cell in self.cells if cell.dataset == dataset]


def protocol_title(protocol: str, source: str | None) -> str:
    """Returns the heading of a protocol's tables."""
    return find_protocol(protocol).title.format(source)


def build_tables(runs: Sequence[RunRecord]) -> list[ResultTable]:
    """Returns a table for base-to-novel, and one for each source across datasets and domains."""
    groups: dict[tuple[int, str], list[RunRecord]] = {}
    for run in runs:
        source = run.dataset if run.rules.has_source else ""
        groups.setdefault((list(PROTOCOLS).index(run.protocol), source), []).append(run)
    return [_build_table(groups[key]) for key in sorted(groups)]


def _build_table(runs: Sequence[RunRecord]) -> ResultTable:
    protocol = runs[0].rules
    source = runs[0].dataset if protocol.has_source else None
    datasets = _datasets(runs, source)
    averaged = tuple(name for name in datasets if name != source)
    methods = group_methods(runs)
    learnt_seeds = {run.seed for run in runs if run.learner not in UNTRAINED}
    cells = []
    for method in methods:
        # Zero-shot draws nothing: one run says it all.
        own_seeds = {run.seed for run in method.runs}
        expected = sorted(own_seeds if method.learner in UNTRAINED else learnt_seeds)
        finished = {name: finished_runs(method, name) for name in datasets}
        of_method = [dataset_cell(method, name, finished[name], expected) for name in datasets]
        targets = [cell for cell in of_method if cell.dataset in averaged]
        cells += [*of_method, average_cell(method, targets, finished, source)]
    return ResultTable(
        protocol.name,
        source,
        tuple(protocol.measures),
        datasets,
        averaged,
        tuple(methods),
        tuple(sorted(cells, key=lambda cell: [*datasets, AVERAGE].index(cell.dataset))),
        tuple(find_gains(methods, averaged)),
        common_settings(runs),
        (
            *_given_words(runs),
            *_incomplete(runs, datasets),
            *_left_out(runs),
            *_other_images(runs),
            *_seen_before(runs, datasets),
            *(note for method in methods for note in _mixed(method)),
            *(note for m in methods for name in datasets for note in differing_runs(m, name)),
            *_uncertainty(runs, datasets),
        ),
        tuple(find_baseline_gains(methods, averaged, source)),
    )


def _datasets(runs: Sequence[RunRecord], source: str | None) -> tuple[str, ...]:
    """Returns the datasets in the paper's order, the source first, others by name."""
    names = {run.dataset for run in runs}
    if source is not None:
        names |= {name for run in runs for name in (*run.accuracy, *run.targets)}
    known = [source, *runs[0].rules.paper_datasets(source)]
    order = {name: index for index, name in enumerate(known) if name}
    return tuple(sorted(names, key=lambda name: (order.get(name, len(order)), name)))


def _given_words(runs: Sequence[RunRecord]) -> list[str]:
    """Returns a note with the words that a person gave for each dataset."""
    words = {run.dataset: str(run.settings["words_given"]) for run in runs if run.arm == GIVEN}
    texts = [f"{dataset}: {given}" for dataset, given in sorted(words.items())]
    return [f"Given words: {'; '.join(texts)}."] if texts else []


def _incomplete(runs: Sequence[RunRecord], datasets: Sequence[str]) -> list[str]:
    """Returns a note for each published dataset of which the runs had only a part."""
    notes = []
    for name in [name for name in datasets if name in SIZES]:
        tested = [run for run in runs if run.rules.has_source or run.dataset == name]
        parts = {_part_of(run, name) for run in tested} - {None}
        ending = " in some runs." if len(parts) > 1 else "."
        notes += [f"{name}: {part}{ending}" for part in sorted(filter(None, parts))]
    return notes


def _other_images(runs: Sequence[RunRecord]) -> list[str]:
    """Returns a note for each dataset whose zero-shot run has other test images than another."""
    notes = []
    for run in runs:
        of_dataset = [other for other in runs if other.dataset == run.dataset]
        hashes = {other.data.get("test_sha256") for other in of_dataset} - {None}
        if run.learner == ZERO_SHOT and len(hashes) > 1:
            notes.append(
                f"{run.dataset} has no test part: each number is from the images that the shots "
                f"leave, that of zero-shot from those of seed {run.seed} ({run.shots} shots)."
            )
    return notes


def _part_of(run: RunRecord, dataset: str) -> str | None:
    """Returns how much of a published dataset a run had; empty for all of it, None if not known.

    Test images that are missing or cannot be read have a note of their own.
    """
    classes, images = _count(run, "classes", dataset), _count(run, "test_images", dataset)
    if classes is None or images is None:
        return None
    left_out = (run.data.get("missing_images") or {}).get(dataset, 0)
    left_out += _count(run, "unreadable_images", dataset) or 0
    all_classes, all_images = SIZES[dataset]
    texts = [f"{classes:,} of its {all_classes:,} classes"] if classes < all_classes else []
    if images + left_out < all_images:
        texts.append(f"{images:,} of {all_images:,} test images")
    return ", ".join(texts)


def _count(run: RunRecord, what: str, dataset: str) -> int | None:
    """Returns a number of a dataset, over its parts; None if a record does not have it."""
    counts = [recorded_count(run.data, what, part) for part in run.rules.parts or (dataset,)]
    return None if None in counts else sum(filter(None, counts))


def _uncertainty(runs: Sequence[RunRecord], datasets: Sequence[str]) -> list[str]:
    """Returns a note on how sure an accuracy can be with as many test images."""
    texts: list[str] = []
    for name in datasets:
        tested = [run for run in runs if measures_of(run, name) is not None]
        if images := count_test_images(tested, name):
            fewest = min(images.values())
            low, high = wilson_interval(fewest // 2, fewest)  # the widest
            parts = [f"{count:,} {part}" for part, count in images.items()]
            counts = listed(parts) if len(parts) > 1 else f"{fewest:,}"
            points, noun = ("", "") if texts else (" points", " images")
            texts.append(f"± {50 * (high - low):.1f}{points} on {name} ({counts}{noun})")
    start = "The number of test images alone leaves an accuracy uncertain by up to"
    return [f"{start} {', '.join(texts)}, at 95 %."] if texts else []


def _left_out(runs: Sequence[RunRecord]) -> list[str]:
    """Returns a note for each test set of which images are missing or cannot be read."""
    notes = []
    for key, reason in (("missing_images", "are missing"), ("unreadable_images", "cannot be read")):
        counts: dict[str, int] = {}
        for run in runs:
            data: Mapping[str, Any] = run.data
            for part, count in data.get(key, {}).items():
                name = f"{run.dataset} ({part})" if part in run.rules.parts else part
                counts[name] = max(counts.get(name, 0), count)
        notes += [
            f"{count:,} test images of {name} {reason}; accuracies are over the rest."
            for name, count in counts.items()
            if count
        ]
    return notes


def _seen_before(runs: Sequence[RunRecord], datasets: Sequence[str]) -> list[str]:
    """Returns a note on datasets that the bundled backbone was itself trained with."""
    if not any(run.backbone.get("name") == POCKET for run in runs):
        return []
    notes, known = [], [name for name in datasets if name in SEEN_BY_POCKET]
    if known:
        notes.append(
            f"PocketCLIP ({POCKET}) was itself trained with images and class names of "
            f"{', '.join(known)}: there no class is new to it, and high numbers say little."
        )
    if "scenes" in datasets:
        notes.append(
            f"PocketCLIP ({POCKET}) was trained with 800 other drawn scenes, without the names of "
            "their classes."
        )
    return notes


def _mixed(method: Method) -> list[str]:
    """Returns a note for each setting that differs between datasets other than in the paper."""
    notes = []
    for key in ("words", "lambda_", "epochs"):
        values: dict[str, list[str]] = {}
        as_published = True
        for run in method.runs:
            published = {**published_settings(run), "words": WORDS.get(run.dataset)}
            as_published &= run.config().get(key) == published.get(key)
            values.setdefault(str(run.config().get(key)), []).append(run.dataset)
        if len(values) > 1 and not as_published:
            parts = [
                f"{value}: {', '.join(dict.fromkeys(names))}" for value, names in values.items()
            ]
            name = key.rstrip("_")
            notes.append(f"{method.label} has different {name} for datasets ({'; '.join(parts)}).")
    return notes


def display_tables(results: Sequence[ResultTable]) -> list[Table]:
    """Returns a table of the results for each protocol, and one of the gains if there are any."""
    tables = []
    for result in results:
        tables.append(results_table(result))
        if result.gains:
            tables.append(gains_table(result.gains, result.title))
    return tables


def results_table(result: ResultTable) -> Table:
    """Returns a section for each dataset and one for the average, a row for each method."""
    measures = [all_measures()[measure] for measure in result.measures]
    average = [AVERAGE] if len(result.averaged) > 1 else []
    datasets = (*result.datasets, *average)
    cells = [cell for cell in result.cells if cell.dataset in datasets]
    compared = any(cell.paper and cell.numbers for cell in cells)
    columns = ["dataset", "method", *measures, "seeds"]
    if compared:
        columns.append("paper " + " / ".join(measures))
    common = {key: value for key, value in result.common.items() if key != "words"}
    words = {run.words for m in result.methods if m.with_words for run in m.runs}
    caption = results_caption({**common, **({"words": words.pop()} if len(words) == 1 else {})})
    table = Table(columns, title=result.title, caption=caption, numbers=columns[2:])
    for dataset in datasets:
        name = dataset
        if dataset == AVERAGE:
            kind = "datasets" if result.source is None else "targets"
            name = f"average of {len(result.averaged)} {kind}"
        elif dataset == result.source:
            name = f"{dataset} (source)"
        rows = []
        for index, cell in enumerate(result.of(dataset)):
            row = [name if index == 0 else "", cell.method.label]
            row += [number_text(cell.numbers.get(measure)) for measure in result.measures]
            row.append(str(len(cell.seeds)) + table.footnote_mark(cell.gaps))
            if compared:
                row.append(paper_text(table, cell))
            rows.append(row)
        table.add_section(rows)
    table.notes += result.notes
    if result.baselines:
        table.notes += baseline_verdicts(result.baselines)
        unit = "datasets and seeds" if result.source is None else "seeds and targets"
        table.notes.append(
            f"Against baselines: mean difference over {unit}, and its 95 % bootstrap interval."
        )
    if "hm" in result.measures and average:
        table.notes.append(
            "HM: the mean of the HM of each run; in the average, as in the paper, the HM of the "
            "averaged base and novel accuracy."
        )
    if compared:
        table.notes += _paper_notes(result)
    return table


def _paper_notes(result: ResultTable) -> list[str]:
    notes = [f"paper: its number where our setting is the paper's; {DIFFERS} where it is not."]
    compared = [cell.method for cell in result.cells if cell.comparable]
    runs = [run for method in compared for run in method.runs if run.done]
    if hashes := sorted({str(run.config()["weights"])[:12] for run in runs}):
        notes.append(
            f"The backbone is the paper's by name; its weights (SHA-256 {', '.join(hashes)}) were "
            "not compared with the published ones, whose hash ipl does not know."
        )
    if any(method.learner == ZERO_SHOT for method in compared):
        notes.append(ZERO_SHOT_SOURCE)
    return notes


def results_to_csv(results: Sequence[ResultTable]) -> str:
    """Returns one line per method and dataset, or average; numbers in %, in full precision."""
    rows = []
    for result in results:
        for cell in result.cells:
            row = _names(result, cell.method) | {"dataset": cell.dataset}
            for measure in all_measures():
                number = cell.numbers.get(measure)
                row[measure] = number.mean if number else None
                row[f"{measure}_std"] = number.std if number else None
                row[f"{measure}_low"] = number.low if number else None
                row[f"{measure}_high"] = number.high if number else None
                row[f"paper_{measure}"] = cell.paper_beside.get(measure)
            row["seeds"] = " ".join(map(str, cell.seeds))
            row["gaps"] = "; ".join(cell.gaps)
            row["differs_from_paper"] = "; ".join(cell.differences)
            rows.append(row)
    return _csv(rows)


def gains_to_csv(results: Sequence[ResultTable]) -> str:
    """Returns one line per learner, comparison of two arms or with a baseline, and measure."""
    rows = [
        _names(result, gain.method)
        | {"comparison": gain.comparison, "over": gain.baseline.label, "measure": measure}
        | asdict(effect)
        | {"p_holm": gain.adjusted[measure], "differs": "; ".join(gain.differences)}
        for result in results
        for gain in (*result.gains, *result.baselines)
        for measure, effect in gain.effects.items()
    ]
    return _csv(rows)


def table_verdicts(results: Sequence[ResultTable]) -> list[str]:
    """Returns the verdicts of all tables, with the protocol if there are several."""
    return [
        f"{result.title}: {sentence}" if len(results) > 1 else sentence
        for result in results
        for sentence in result.verdicts
    ]


def results_to_values(
    results: Sequence[ResultTable], warnings: Sequence[str] = ()
) -> dict[str, Any]:
    """Returns everything in the tables as plain values; numbers in %, in full precision."""
    tables = [_table_values(result) for result in results]
    return {"unit": "%", "warnings": list(warnings), "tables": tables}


def _table_values(result: ResultTable) -> dict[str, Any]:
    return {
        "protocol": result.protocol,
        "source": result.source,
        "averaged": list(result.averaged),
        "common": result.common,
        "entries": [_cell_values(cell) for cell in result.cells],
        "gains": [gain_values(gain) for gain in result.gains],
        "baselines": [gain_values(gain) for gain in result.baselines],
        "verdicts": result.verdicts,
        "notes": list(result.notes),
    }


def _cell_values(cell: Cell) -> dict[str, Any]:
    return {
        "dataset": cell.dataset,
        "method": cell.method.label,
        "learner": cell.method.learner,
        "arm": cell.method.arm,
        "varied": cell.method.varied,
        "numbers": {measure: asdict(number) for measure, number in cell.numbers.items()},
        "seeds": list(cell.seeds),
        "gaps": list(cell.gaps),
        "paper": cell.paper_beside or None,
        "differs_from_paper": list(cell.differences),
    }


def _names(result: ResultTable, method: Method) -> dict[str, Any]:
    return {"protocol": result.protocol, "source": result.source or "", "method": method.label}


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    """Returns rows with the same keys as CSV; nothing for no rows."""
    if not rows:
        return ""
    cells = [["" if value is None else str(value) for value in row.values()] for row in rows]
    return Table(list(rows[0]), cells).to_csv()
