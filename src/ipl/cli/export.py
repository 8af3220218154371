"""`ipl export RUN --to ...`: a saved prompt for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from ipl.classifier import PromptClassifier
from ipl.cli import shared_options as common
from ipl.cli.output import check_output_file, on_interrupt, print_json
from ipl.cli.shared_options import read_class_names
from ipl.datasets.readers import read_dataset
from ipl.display.formatting import several
from ipl.inference.exports.classifier import export_classifier
from ipl.inference.exports.common import check_export_folder
from ipl.inference.exports.onnx import check_packages, export_onnx
from ipl.inference.exports.text import export_text
from ipl.inference.exports.transformers import export_transformers
from ipl.saving.run_folder import find_run, read_config
from ipl.support.errors import ConfigError, closest
from ipl.support.progress import Reporter

TARGETS = ("classifier", "onnx", "transformers", "text")


def export(
    run: str = common.RUN,
    to: str = typer.Option(..., "--to", help="classifier, onnx, transformers or text."),
    save_to: Path | None = typer.Option(
        None, "--out", help="A new folder (default: ipl-exports/RUN-TO); text: a file."
    ),
    classes: str | None = common.CLASSES,
    check: Path | None = typer.Option(
        None,
        help="onnx: images in class folders, to measure accuracy on those that it was not trained "
        "on (default: drawn ones).",
    ),
    overwrite: bool = typer.Option(False, "--overwrite", help="text: replace the file in --out."),
    backbone: str | None = common.MOVED_BACKBONE,
    any_backbone: bool = common.ANY_BACKBONE,
    quiet: bool = common.QUIET,
    as_json: bool = common.JSON,
) -> None:
    """Write a saved prompt as a matrix, as ONNX, as a transformers folder or as plain text."""
    if to not in TARGETS:
        raise ConfigError(
            f"--to is {to!r}; allowed are {', '.join(TARGETS)}.{closest(to, TARGETS)}"
        )
    if check is not None and to != "onnx":
        raise ConfigError("--check works with --to onnx only.")
    if overwrite and to != "text":
        raise ConfigError("--overwrite works with --to text only; other exports need a new folder.")
    if to == "onnx":
        check_packages()
    folder = find_run(run)
    read_config(folder)

    target = save_to or Path("ipl-exports") / f"{Path(run).name}-{to}"
    if to != "text":
        check_export_folder(target)
    elif save_to is not None:
        check_output_file(save_to, overwrite)
    names = read_class_names(classes) if classes is not None else None
    images = read_dataset(check, to_test=True) if check is not None else None
    with on_interrupt(lambda: "nothing was written."):
        classifier = PromptClassifier.from_pretrained(
            folder, backbone, "cpu", precision="fp32", any_backbone=any_backbone
        )
        if names is not None:
            classifier = classifier.with_classes(names)
        if to != "text":
            Reporter(quiet=quiet).say(f"Writing {target} ...")
        if to == "text":
            content = export_text(classifier, save_to)
        elif to == "classifier":
            content = export_classifier(classifier, target)
        elif to == "onnx":
            content = export_onnx(classifier, target, images)
        else:
            content = export_transformers(classifier, target)
    to_stdout = to == "text" and save_to is None
    if as_json:
        print_json({"out": None if to_stdout else str(target), **content})
    elif to_stdout:
        print(content["text"], end="")
    else:
        print("\n".join([*_summary(to, content), f"Saved:  {target}"]))


def _images(checked: dict[str, Any]) -> str:
    """Returns how many images were compared, and where they are."""
    if "trained_on" not in checked:  # only labelled images have it
        return f"{checked['images']} {checked['of']}"
    return f"{several(checked['images'], 'image')} in {checked['of']!r}"


def _summary(to: str, content: dict[str, Any]) -> list[str]:
    """Returns the lines that describe an export."""
    if to == "classifier":
        rows, dim = content["shape"]
        return [f"{rows} classes x {dim} float32, logit scale {content['logit_scale']:.4g}"]
    if to == "transformers":
        return [
            f"hypothesis_template: {content['hypothesis_template']}",
            f"Text features differ from ours by {content['largest_difference']:.1e} at most.",
        ]
    if to == "text":
        return []
    checked = content["checked"]
    lines = [f"Compared with our own predictions on {_images(checked)}:"]
    for precision in ("fp32", "int8"):
        model = checked[precision]
        line = (
            f"{precision}  {model['file']}, {model['bytes'] / 1e6:.1f} MB: same class for "
            f"{100 * model['agreement']:.1f} %, probabilities off by "
            f"{model['largest_difference']:.1e}"
        )
        if "accuracy" in model:
            accuracy, ours = 100 * model["accuracy"], 100 * checked["accuracy"]
            line += f", accuracy {accuracy:.1f} % (ours {ours:.1f} %)"
        lines.append(line)
    return [*lines, *_about_accuracy(checked)]


def _about_accuracy(checked: dict[str, Any]) -> list[str]:
    """Returns a line on images that the prompt was trained on, if any were compared."""
    trained = checked.get("trained_on", 0)
    if trained is None:
        return ["Images that it was trained on count in the accuracy, if there are any."]
    if not trained:
        return []
    if "accuracy" not in checked:
        return ["All of these images were used in training, so no accuracy is given."]
    new = several(checked["accuracy_images"], "image")
    return [f"The accuracy is that on the {new} that it was not trained on."]
