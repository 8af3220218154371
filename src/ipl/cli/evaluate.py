"""`ipl evaluate RUN DATA`: how good a saved prompt is on labelled images."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import typer
from rich.console import Group
from rich.text import Text

from ipl.backbone.families import suggest_backbone
from ipl.backbone.features import FeatureStore
from ipl.cli import shared_options as common
from ipl.cli.output import check_output_file, console, echo, on_interrupt, print_json
from ipl.cli.saved_classifier import load_classifier
from ipl.datasets.readers import read_dataset
from ipl.display.formatting import first_few, several
from ipl.inference.evaluation import (
    Evaluation,
    class_rows,
    prediction_rows,
    score_table,
    threshold_table,
)
from ipl.inference.evaluation import evaluate as evaluate_on
from ipl.saving.format import read_run
from ipl.saving.run_folder import find_run
from ipl.support.cache import Cache
from ipl.support.files import write_text
from ipl.support.progress import Reporter


def evaluate(
    run: str = common.RUN,
    data: Path = common.DATA,
    classes: str | None = common.CLASSES,
    held_out: str | None = typer.Option(
        None, help="The part that is evaluated on, test or val (default: as the run was trained)."
    ),
    everything: bool = typer.Option(
        False, "--all", help="Use all images, also those that it was trained on."
    ),
    threshold: bool = typer.Option(
        False,
        "--threshold",
        help="Show coverage against accuracy, and suggest a threshold for none of these.",
    ),
    min_accuracy: float | None = typer.Option(
        None, min=0.0, max=1.0, help="Exit with code 1 if the accuracy is below this, from 0 to 1."
    ),
    csv: Path | None = typer.Option(None, "--csv", help="Write a row for each class to this file."),
    predictions: Path | None = typer.Option(
        None, "--predictions", help="Write a row for each image to this CSV file."
    ),
    overwrite: bool = common.OVERWRITE,
    backbone: str | None = common.MOVED_BACKBONE,
    any_backbone: bool = common.ANY_BACKBONE,
    device: str = common.DEVICE,
    no_cache: bool = common.NO_CACHE,
    quiet: bool = common.QUIET,
    as_json: bool = common.JSON,
) -> None:
    """Evaluate a saved prompt on labelled images: accuracy, every class, calibration."""
    reporter = Reporter(quiet=quiet)
    folder = find_run(run)
    config = read_run(folder).config  # reports a damaged RUN before the images are looked for
    if held_out is not None:
        config = replace(config, held_out=held_out)
    dataset = read_dataset(data, config.held_out, to_test=True)
    files = []
    for option, path, rows in (
        ("--csv", csv, class_rows),
        ("--predictions", predictions, prediction_rows),
    ):
        if path is not None:
            check_output_file(path, overwrite, option)
            files.append((path, rows))
    with on_interrupt(lambda: "nothing was written."):
        classifier = load_classifier(
            folder, classes, backbone, device, any_backbone, reporter=reporter
        ).set_params(held_out=config.held_out)
        cache = None if no_cache else Cache(reporter=reporter)
        store = FeatureStore(classifier.learner_.backbone, cache)
        evaluation = evaluate_on(classifier, dataset, everything, store, reporter)
        for path, rows in files:
            write_text(path, rows(evaluation).to_csv())
    passed = min_accuracy is None or evaluation.accuracy >= min_accuracy
    if as_json:
        gate = {} if min_accuracy is None else {"min_accuracy": min_accuracy, "passed": passed}
        print_json({"run": run, "data": str(data), **evaluation.as_dict(), **gate})
    else:
        console().print(evaluation_report(evaluation, threshold))
        if suggestion := suggest_backbone(classifier.config.backbone):
            console().print(Text(f"Note: {suggestion}", "yellow"))
        for path, _ in files:
            echo(f"Written: {path}")
    if not passed:
        print(
            f"failed: the accuracy is {evaluation.accuracy:.4f}, below --min-accuracy "
            f"{min_accuracy}.",
            file=sys.stderr,
        )
        raise typer.Exit(1)


def evaluation_report(evaluation: Evaluation, with_thresholds: bool = False) -> Group:
    """The numbers over all classes, those of each class, and the confusions."""
    comparison = evaluation.comparison
    parts: list[Group | Text] = [Text("\n".join(comparison.verdict), "bold"), Text("")]
    images = several(comparison.total, "image")
    parts += [comparison.table(f"On {images} ({evaluation.images_from})").to_terminal()]
    if evaluation.left_out:
        parts.append(Text(f"Left out as training images: {first_few(evaluation.left_out)}"))
    parts += [Text(f"Note: {note}", "yellow") for note in evaluation.notes]
    parts += [Text(""), score_table(evaluation).to_terminal(), Text(comparison.confusions)]
    if with_thresholds:
        parts += [Text(""), threshold_table(evaluation).to_terminal()]
    return Group(*parts)
