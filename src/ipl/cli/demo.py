"""`ipl demo`: what `ipl fit` does, shown on images that come with the package."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from ipl.classifier import PromptClassifier
from ipl.cli.fit import fit_report
from ipl.cli.output import command_line, console, echo, on_interrupt, print_json
from ipl.cli.shared_options import DEVICE, JSON, QUIET
from ipl.datasets.scenes import CLASSES, PER_CLASS, scenes_dataset
from ipl.display.formatting import first_few, percent
from ipl.display.table import Table
from ipl.inference.evaluation import Evaluation, ImageResult, evaluate
from ipl.saving.run_folder import check_target
from ipl.support.errors import ConfigError
from ipl.support.files import write_json
from ipl.support.progress import Reporter

LEARNT, NEW = CLASSES[:10], CLASSES[10:]  # landscapes; landmarks and skies
SCENES, NEW_SCENES, RUN, RESULTS = "scenes", "new-scenes", "run", "results.json"
SHOTS = 4  # of each class, from which the demo learns
MISTAKES = 5  # that are shown


def demo(
    folder: Path = typer.Option(
        Path("ipl-demo"), "--out", help="The folder to write everything to."
    ),
    quick: bool = typer.Option(
        False, "--quick", help="A few images, a short training: does everything work?"
    ),
    device: str = DEVICE,
    quiet: bool = QUIET,
    as_json: bool = JSON,
) -> None:
    """Learn a prompt for drawn scenes; show how good it is, its mistakes and its words."""
    started = time.perf_counter()
    images = 4 if quick else PER_CLASS  # to test on
    settings: dict[str, Any] = {"words": 1, "epochs": 10, "interval": 5} if quick else {}
    reporter = Reporter(quiet=quiet)
    with on_interrupt(lambda: f"{folder} contains some of the images, and nothing else."):
        _check_folder(folder)
        check_target(folder / RUN, overwrite=True)
        learnt = scenes_dataset(folder / SCENES, SHOTS, images, LEARNT)
        new = scenes_dataset(folder / NEW_SCENES, 0, images, NEW)
        reporter.say(
            f"{len(LEARNT)} kinds of landscape, {SHOTS} drawn images of each to learn from and "
            f"{images} to test on."
        )
        classifier = PromptClassifier(device=device, reporter=reporter, **settings)
        classifier.fit(learnt, compare=True)
        classifier.save_pretrained(folder / RUN, overwrite=True)
        on_learnt = evaluate(classifier, learnt)
        on_new = evaluate(classifier.with_classes(NEW), new)
        mistakes = _surest_mistakes(on_learnt)
        report: dict[str, Any] = {
            "fit": classifier.as_dict(),
            "new_classes": on_new.as_dict(),
            "mistakes": [vars(mistake) for mistake in mistakes],
            "saved": {name: str(folder / name) for name in (SCENES, NEW_SCENES, RUN, RESULTS)},
            "seconds": time.perf_counter() - started,
        }
        write_json(folder / RESULTS, report)
    if as_json:
        print_json(report)
        return
    terminal = console()
    terminal.print(fit_report(classifier.result_))
    terminal.print(Text(""), _mistake_table(mistakes).to_terminal(), Text(""))
    caption = f"Classes that it was not trained on ({first_few(NEW)}), where the head is not used"
    terminal.print(on_new.comparison.table(caption).to_terminal())
    run, scenes, picture = folder / RUN, folder / SCENES, str(new.test[0].path)
    echo(
        f"\nSaved\n"
        f"  the images          {scenes}, {folder / NEW_SCENES}\n"
        f"  the prompt          {run}\n"
        f"  every number above  {folder / RESULTS}\n\n"
        f"Next\n"
        f"  {command_line('predict', run, picture, '--classes', 'castle,skyline')}\n"
        f"  {command_line('report', run, '--data', scenes)}\n"
        f"  {command_line('fit', 'YOUR_FOLDER_OF_CLASS_FOLDERS')}\n\n"
        f"{report['seconds']:.0f} s in all."
    )


def _check_folder(folder: Path) -> None:
    """Raises ConfigError if a folder has anything but what an earlier demo wrote."""
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    strange = names - {SCENES, NEW_SCENES, RUN, RESULTS}
    if strange := {name for name in strange if not name.startswith(".")}:
        raise ConfigError(
            f"{folder} contains {first_few(sorted(strange))}, which no demo wrote; give an empty "
            "folder or a new one with --out."
        )


def _surest_mistakes(evaluation: Evaluation) -> list[ImageResult]:
    wrong = [image for image in evaluation.predictions if not image.correct]
    return sorted(wrong, key=lambda image: -image.probability)[:MISTAKES]


def _mistake_table(mistakes: Sequence[ImageResult]) -> Table:
    rows = [
        [f"{each.label}/{Path(each.image).name}", each.predicted, percent(each.probability)]
        for each in mistakes
    ]
    columns = ["image", "taken for", "probability"]
    return Table(columns, rows, caption="Its surest mistakes", numbers=["probability"])
