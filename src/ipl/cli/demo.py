"""`ipl demo`: the whole way, from drawn images to a readable prompt, in two minutes."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

import typer

from ipl.cli.output import command_line, console, on_interrupt, print_json
from ipl.cli.shared_options import DEVICE, JSON, QUIET
from ipl.display.table import Table

if TYPE_CHECKING:
    from ipl.bench.run import Run
    from ipl.classifier import PromptClassifier
    from ipl.datasets.dataset import Dataset
    from ipl.support.progress import Reporter

PER_CLASS = 24  # images of each class to draw shots from, and as many to test on
SEEDS = (1, 2, 3)
WORDS = 2
SHORT = {"epochs": 50, "views": 0}  # published: 200 plain, 100 with words; fresh crops
METHODS = ("zero-shot CLIP", "CoOp", "CoOp + IPL")
MEASURES = {"base": "base", "novel": "novel", "hm": "HM"}


def demo(
    folder: Path = typer.Option(
        Path("ipl-demo"), "--out", help="The folder to write everything to."
    ),
    device: str = DEVICE,
    quiet: bool = QUIET,
    as_json: bool = JSON,
) -> None:
    """Draw images, learn prompts with and without words, and show the results."""
    from ipl.datasets.scenes import scenes_dataset
    from ipl.saving.format import check_target
    from ipl.support.files import write_json
    from ipl.support.progress import Reporter
    from ipl.words.selection import words_table
    from ipl_scenes import CLASSES

    started = time.perf_counter()
    reporter = Reporter(quiet=quiet)
    kept = {"what": f"nothing; {folder} may contain some of the drawn images."}
    with on_interrupt(lambda: f"kept: {kept['what']}"):
        check_target(folder / "run", overwrite=True)
        with reporter.task("Drawing images", 2 * PER_CLASS * len(CLASSES)) as advance:
            dataset = scenes_dataset(folder / "scenes", PER_CLASS, PER_CLASS, progress=advance)
        kept["what"] = f"the images in {folder / 'scenes'}."
        reporter.say(f"Drew {len(dataset.train) + len(dataset.test)} images of 20 classes.")
        outcomes, classifier = _run_plan(dataset, folder, device, reporter)
        run = folder / "run"
        classifier.save_pretrained(run, overwrite=True)
        assert classifier.selection_ is not None
        summary = _summary(outcomes)
        report: dict[str, Any] = {
            "summary": summary,
            "outcomes": outcomes,
            "words": classifier.words_,
            "prompt": classifier.prompt_,
            "selection": classifier.selection_.as_dict(),
            "saved": {name: str(folder / name) for name in ("scenes", "run", "results.json")},
            "seconds": time.perf_counter() - started,
        }
        write_json(folder / "results.json", report)
    if as_json:
        print_json(report)
        return
    terminal = console()
    image = dataset.test[12 * PER_CLASS].path
    title = (
        f"Accuracy in %, mean ± standard deviation over seeds {', '.join(map(str, SEEDS))}\n"
        f"(drawn scenes, PocketCLIP, 16 shots, {SHORT['epochs']} epochs)"
    )
    terminal.print(title, soft_wrap=True)
    terminal.print(_table(summary).to_terminal())
    weight = classifier.selection_.lambda_
    terminal.print(f"\nThe words of seed {SEEDS[0]}: gain = utility - {weight} * redundancy")
    terminal.print(words_table(classifier.selection_).to_terminal())
    terminal.print(
        "\nThe prompt: [V] is a trained vector, *word* a chosen word, {cls} the class name\n"
        f"  {classifier.prompt_}\n\n"
        f"Saved\n"
        f"  the images          {folder / 'scenes'}\n"
        f"  this prompt         {run}\n"
        f"  every number above  {folder / 'results.json'}\n\n"
        f"Next\n"
        f"  {command_line('predict', run, str(image), '--classes', 'castle,bridge,windmill')}\n"
        f"  {command_line('report', run, '--data', folder / 'scenes')}\n"
        f"  {command_line('fit', folder / 'scenes')}\n"
        f"  {command_line('fit', 'YOUR_FOLDER_OF_CLASS_FOLDERS')}\n\n"
        f"{report['seconds']:.0f} s in all.",
        markup=False,
        soft_wrap=True,
    )


def _run_plan(
    dataset: Dataset, folder: Path, device: str, reporter: Reporter
) -> tuple[list[dict[str, Any]], PromptClassifier]:
    """Returns an outcome for each seed and method, and the classifier with words of a seed."""
    from ipl.bench.plan import ZERO_SHOT, Plan
    from ipl.bench.run import expand
    from ipl.bench.runner import RunEnvironment, Runner
    from ipl.config import FitConfig
    from ipl.support.errors import IplError

    plan = Plan(
        "base-to-novel",
        ("scenes",),
        learners=(ZERO_SHOT, "coop"),
        words=(0, WORDS),
        seeds=SEEDS,
        config=FitConfig.from_dict({**SHORT, "words": 0}),
    )
    runner = Runner(RunEnvironment(str(folder), device), reporter, {"scenes": dataset})
    outcomes: list[dict[str, Any]] = []
    best: PromptClassifier | None = None
    for run in expand(plan):
        record, classifier = runner.fit(run)
        if record["error"]:
            raise IplError(record["error"])
        if best is None and classifier is not None and run.words:
            base = record["accuracy"]["base"], record["data"]["test_images"]["base"]
            best = _with_held_out(classifier, *base)
        # Zero-shot draws nothing: its one run is the outcome of every seed.
        for seed in SEEDS if run.learner == ZERO_SHOT else (run.seed,):
            outcomes.append(_outcome(run, record, seed))
            _say(outcomes[-1], reporter)
    assert best is not None
    order = [(seed, method) for seed in SEEDS for method in METHODS]
    outcomes.sort(key=lambda outcome: order.index((outcome["seed"], outcome["method"])))
    return outcomes, best


def _with_held_out(classifier: PromptClassifier, accuracy: float, images: int) -> PromptClassifier:
    """Returns the classifier with the test images of the base classes as its held-out images."""
    classifier.result_ = replace(
        classifier.result_, held_out_accuracy=accuracy, held_out_images=images
    )
    return classifier


def _outcome(run: Run, record: dict[str, Any], seed: int) -> dict[str, Any]:
    """Returns a run's accuracies from 0 to 1 as plain values."""
    from ipl.bench.plan import ZERO_SHOT
    from ipl.metrics import harmonic_mean

    base, novel = record["accuracy"]["base"], record["accuracy"]["novel"]
    zero_shot, plain, with_words = METHODS
    method = zero_shot if run.learner == ZERO_SHOT else with_words if run.words else plain
    return {
        "method": method,
        "seed": seed,
        "base": base,
        "novel": novel,
        "words": record["chosen"],
        "hm": harmonic_mean(base, novel),
    }


def _say(outcome: dict[str, Any], reporter: Reporter) -> None:
    words = f" ({', '.join(outcome['words'])})" if outcome["words"] else ""
    reporter.say(
        f"  seed {outcome['seed']}: {outcome['method']}{words}: "
        f"base {100 * outcome['base']:.1f}, novel {100 * outcome['novel']:.1f}"
    )


def _summary(outcomes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the mean and the standard deviation of each measure by method, in %."""
    rows = []
    for method in METHODS:
        group = [outcome for outcome in outcomes if outcome["method"] == method]
        row: dict[str, Any] = {"method": method, "seeds": [o["seed"] for o in group]}
        for measure in MEASURES:
            values = [100 * outcome[measure] for outcome in group]
            spread = stdev(values) if len(values) > 1 else 0.0
            row[measure] = {"mean": mean(values), "spread": spread}
        rows.append(row)
    return rows


def _table(summary: list[dict[str, Any]]) -> Table:
    """Returns a table of the summary: mean and standard deviation in %."""
    rows = []
    for row in summary:
        cells = [f"{row[m]['mean']:.1f} ± {row[m]['spread']:.1f}" for m in MEASURES]
        rows.append([row["method"], *cells])
    headings = list(MEASURES.values())
    return Table(["method", *headings], rows, numbers=headings)
