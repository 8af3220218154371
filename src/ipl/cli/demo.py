"""`ipl demo`: the whole way, from images to a readable prompt, in two minutes or less."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.labelled_features import encode_items
from ipl.bench.plan import Plan
from ipl.bench.protocols.base_to_novel import BaseToNovel
from ipl.bench.protocols.protocol import Task
from ipl.bench.record_writing import write_record
from ipl.bench.records import RunRecord, read_record, record_path
from ipl.bench.run import expand
from ipl.bench.runner import RunEnvironment, Runner
from ipl.bench.tables.gains import verdicts
from ipl.bench.tables.result_table import ResultTable, build_tables
from ipl.classifier import PromptClassifier
from ipl.cli.output import command_line, console, on_interrupt, print_json
from ipl.cli.shared_options import DEVICE, JSON, QUIET
from ipl.config import CHOSEN, EMPTY, FitConfig
from ipl.datasets.dataset import Dataset
from ipl.datasets.scenes import scenes_dataset
from ipl.display.formatting import first_few
from ipl.display.table import Table
from ipl.saving.run_folder import check_target
from ipl.support.cache import Cache
from ipl.support.errors import ConfigError, IplError
from ipl.support.files import write_json
from ipl.support.progress import Reporter
from ipl.training.comparison import WITHOUT_WORDS, compare_with_baselines
from ipl.words.selection import words_table

ARMS = ("zero-shot", "linear-probe", "plain", "empty", "words")


@dataclass(frozen=True)
class DemoSize:
    """How much a demo computes."""

    per_class: int  # images of each class to draw shots from, and as many to test on
    shots: int
    words: int
    seeds: tuple[int, ...]
    settings: Mapping[str, int | str]


# The same epochs for all arms, and centre crops; published are 200 for the plain learner, and
# fresh crops in every epoch, which take longer.
FULL = DemoSize(24, 16, 3, (1, 2, 3), {"epochs": 100, "views": 0})
# Shows that everything works, not how well.
QUICK = DemoSize(4, 4, 2, (1,), {"epochs": 20, "views": 0})


WRITTEN = ("scenes", "bench", "run", "results.json")  # below the folder of a demo


def demo(
    folder: Path = typer.Option(
        Path("ipl-demo"), "--out", help="The folder to write everything to."
    ),
    quick: bool = typer.Option(
        False, "--quick", help="A few images, one seed, short trainings: does everything work?"
    ),
    device: str = DEVICE,
    quiet: bool = QUIET,
    as_json: bool = JSON,
) -> None:
    """Learn prompts with and without words for drawn scenes; show what the words are worth."""
    started = time.perf_counter()
    size = QUICK if quick else FULL
    reporter = Reporter(quiet=quiet)
    kept = {"what": f"nothing; {folder} may contain some of the images."}
    with on_interrupt(lambda: f"kept: {kept['what']}"):
        _check_folder(folder)
        check_target(folder / "run", overwrite=True)
        dataset = scenes_dataset(folder / "scenes", size.per_class, size.per_class)
        kept["what"] = f"the images in {folder / 'scenes'}."
        reporter.say(f"{len(dataset.train) + len(dataset.test)} drawn images of 20 classes.")
        records, classifier = _run_plan(size, dataset, folder, device, reporter)
        run = folder / "run"
        classifier.save_pretrained(run, overwrite=True)
        selection, comparison = classifier.selection_, classifier.result_.comparison
        assert selection is not None
        assert comparison is not None
        (result,) = build_tables(records)
        report: dict[str, Any] = {
            "summary": _summary(result),
            "verdict": _verdict(result),
            "comparison": comparison.as_dict(),
            "runs": [_outcome(record) for record in records],
            "words": classifier.words_,
            "prompt": classifier.prompt_,
            "selection": selection.as_dict(),
            "saved": {name: str(folder / name) for name in WRITTEN},
            "seconds": time.perf_counter() - started,
        }
        write_json(folder / "results.json", report)
    if as_json:
        print_json(report)
        return
    terminal = console()
    image = dataset.test[12 * size.per_class].path
    first = size.seeds[0]
    title = (
        "Accuracy in % on base classes (trained) and novel ones, "
        f"{'mean over seeds' if len(size.seeds) > 1 else 'seed'} "
        f"{', '.join(map(str, size.seeds))}\n"
        f"and 95 % interval over images and seeds (drawn scenes, PocketCLIP, {size.shots} shots, "
        f"{size.settings['epochs']} epochs, centre crops)"
    )
    terminal.print(title, soft_wrap=True)
    terminal.print(_table(report["summary"]).to_terminal())
    terminal.print(f"\n{report['verdict']}", markup=False)
    terminal.print(
        f"\nThe prompt of seed {first} on {comparison.total} held-out images of its classes:\n"
        + "\n".join(comparison.verdict),
        markup=False,
    )
    terminal.print(
        f"\nThe words of seed {first}: gain = utility - {selection.lambda_} * redundancy"
    )
    terminal.print(words_table(selection).to_terminal())
    terminal.print(
        "\nThe prompt: [V] is a trained vector, *word* a chosen word, {cls} the class name\n"
        f"  {classifier.prompt_}\n\n"
        f"Saved\n"
        f"  the images          {folder / 'scenes'}\n"
        f"  this prompt         {run}\n"
        f"  every run           {folder / 'bench'}\n"
        f"  every number above  {folder / 'results.json'}\n\n"
        f"Next\n"
        f"  {command_line('predict', run, str(image), '--classes', 'castle,bridge,windmill')}\n"
        f"  {command_line('report', run, '--data', folder / 'scenes')}\n"
        f"  {command_line('table', folder / 'bench')}\n"
        f"  {command_line('fit', 'YOUR_FOLDER_OF_CLASS_FOLDERS')}\n\n"
        f"{report['seconds']:.0f} s in all.",
        markup=False,
        soft_wrap=True,
    )


def _run_plan(
    size: DemoSize, dataset: Dataset, folder: Path, device: str, reporter: Reporter
) -> tuple[list[RunRecord], PromptClassifier]:
    """Returns the record of every run, and the classifier with words of the first seed."""
    plan = Plan(
        "base-to-novel",
        ("scenes",),
        arms=ARMS,
        words=(size.words,),
        shots=(size.shots,),
        seeds=size.seeds,
        config=FitConfig.from_dict({**size.settings, "words": 0}),
    )
    runner = Runner(RunEnvironment(str(folder), device), reporter, {"scenes": dataset})
    records: list[RunRecord] = []
    classifiers: dict[str, PromptClassifier] = {}  # of the first seed, by arm
    for run in expand(plan):
        record, fitted = runner.fit(run)
        if record["error"]:
            raise IplError(record["error"])
        write_record(folder / "bench", record)
        saved = read_record(record_path(folder / "bench", run.id))
        assert saved is not None
        records.append(saved)
        scores = run.rules.scores(records[-1].accuracy).items()
        numbers = ", ".join(f"{name} {100 * value:.1f}" for name, value in scores)
        words = f" ({', '.join(record['chosen'])})" if record["chosen"] else ""
        reporter.say(f"  {run.title.removeprefix('scenes, ')}{words}: {numbers}")
        if fitted is not None and run.seed == size.seeds[0]:
            classifiers[run.arm] = fitted
            task = runner.task(run)
    return records, _with_comparison(classifiers[CHOSEN], classifiers[EMPTY], task, reporter)


def _with_comparison(
    classifier: PromptClassifier, empty: PromptClassifier, task: Task, reporter: Reporter
) -> PromptClassifier:
    """Returns the classifier, compared on the test images of the base classes as `ipl fit` does."""
    learner = classifier.learner_
    store = FeatureStore(learner.backbone, Cache(reporter=reporter))
    shots = encode_items(task.training.train, "training", store)
    held_out = encode_items(task.tests["base"].test, "held-out", store)
    without_words = empty.learner_.log_probabilities(held_out.features)
    comparison = compare_with_baselines(
        learner,
        learner.log_probabilities(held_out.features),
        shots,
        held_out,
        classifier.config,
        [(WITHOUT_WORDS, empty.prompt_, without_words)],
    )
    classifier.result_ = replace(classifier.result_, comparison=comparison)
    return classifier


def _check_folder(folder: Path) -> None:
    """Raises ConfigError if a folder has anything but what an earlier demo wrote."""
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if strange := sorted(name for name in names - {*WRITTEN} if not name.startswith(".")):
        raise ConfigError(
            f"{folder} contains {first_few(strange)}, which no demo wrote; give an empty folder or "
            "a new one with --out."
        )


def _outcome(record: RunRecord) -> dict[str, Any]:
    """Returns a run's accuracies from 0 to 1 as plain values."""
    return {
        "arm": record.arm,
        "seed": record.seed,
        "words": list(record.chosen),
        **record.rules.scores(record.accuracy),
    }


def _summary(result: ResultTable) -> list[dict[str, Any]]:
    """Returns the mean of each measure by method in %, with its interval."""
    rows = []
    for cell in result.of("scenes"):
        row: dict[str, Any] = {"method": cell.method.label, "arm": cell.method.arm}
        row["seeds"] = list(cell.seeds)
        for measure, number in cell.numbers.items():
            row[measure] = {"mean": number.mean, "interval": [number.low, number.high]}
        rows.append(row)
    return rows


def _verdict(result: ResultTable) -> str:
    """Returns a sentence on what layout and words contributed."""
    (sentence,) = verdicts(result.gains)
    return f"What it means for {sentence}"


def _table(summary: list[dict[str, Any]]) -> Table:
    """Returns a table of the summary: mean and interval in %."""
    rows = []
    for row in summary:
        cells = [row["method"]]
        for measure in BaseToNovel.measures:
            number = row.get(measure)
            text = "-"
            if number is not None:
                text = "{:.1f} ({:.1f} to {:.1f})".format(number["mean"], *number["interval"])
            cells.append(text)
        rows.append(cells)
    headings = list(BaseToNovel.measures.values())
    return Table(["method", *headings], rows, numbers=headings)
