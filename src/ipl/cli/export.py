"""`ipl export RUN --to ...`: a saved prompt for the use of other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from ipl.cli import options as common
from ipl.cli.options import check_new, print_json, read_class_names, stopping
from ipl.support.errors import ConfigError

KINDS = ("classifier", "onnx", "transformers", "text")


def export(
    run: str = common.RUN,
    to: str = typer.Option(..., "--to", help="classifier, onnx, transformers or text."),
    save_to: Path | None = typer.Option(
        None, "--out", help="A new folder (default: ipl-exports/RUN-TO); text: a file."
    ),
    classes: str | None = common.CLASSES,
    check: Path | None = typer.Option(
        None, help="onnx: images in class folders, to measure accuracy (default: drawn ones)."
    ),
    overwrite: bool = typer.Option(False, "--overwrite", help="text: replace the file in --out."),
    backbone: str | None = common.MOVED_BACKBONE,
    any_backbone: bool = common.ANY_BACKBONE,
    quiet: bool = common.QUIET,
    as_json: bool = common.JSON,
) -> None:
    """Write a saved prompt as a matrix, as ONNX, as a transformers folder or as plain text."""
    from ipl import exports
    from ipl.classifier import PromptClassifier
    from ipl.datasets.readers import read_dataset
    from ipl.saving.format import read_run
    from ipl.saving.sharing import find_run
    from ipl.support.progress import Reporter

    if to not in KINDS:
        raise ConfigError(f"--to is {to!r}; allowed are {', '.join(KINDS)}.")
    if check is not None and to != "onnx":
        raise ConfigError("--check goes with --to onnx only.")
    if overwrite and to != "text":
        raise ConfigError("--overwrite goes with --to text only; other exports need a new folder.")
    folder = find_run(run)
    read_run(folder)
    target = save_to or Path("ipl-exports") / f"{Path(run).name}-{to}"
    if to != "text":
        exports.check_folder(target)
    elif save_to is not None:
        check_new(save_to, overwrite)
    names = read_class_names(classes) if classes is not None else None
    images = read_dataset(check) if check is not None else None
    with stopping(lambda: "nothing was written."):
        classifier = PromptClassifier.from_pretrained(
            folder, backbone, "cpu", precision="fp32", any_backbone=any_backbone
        )
        if names is not None:
            classifier = classifier.with_classes(names)
        if to != "text":
            Reporter(quiet=quiet).say(f"Writing {target} ...")
        if to == "text":
            told = exports.export_text(classifier, save_to)
        elif to == "classifier":
            told = exports.export_classifier(classifier, target)
        elif to == "onnx":
            told = exports.export_onnx(classifier, target, images)
        else:
            told = exports.export_transformers(classifier, target)
    shown = to == "text" and save_to is None
    if as_json:
        print_json({"out": None if shown else str(target), **told})
    elif shown:
        print(told["text"], end="")
    else:
        print("\n".join([*_lines(to, told), f"Saved:  {target}"]))


def _lines(to: str, told: dict[str, Any]) -> list[str]:
    """Returns what a person should know of an export."""
    if to == "classifier":
        rows, dim = told["shape"]
        return [f"{rows} classes x {dim} float32, logit scale {told['logit_scale']:.4g}"]
    if to == "transformers":
        return [
            f"hypothesis_template: {told['hypothesis_template']}",
            f"Text features differ from ours by {told['largest_difference']:.1e} at most.",
        ]
    if to == "text":
        return []
    checked = told["checked"]
    lines = [f"Compared with our own predictions on {checked['images']} {checked['of']}:"]
    for name in ("fp32", "int8"):
        one = checked[name]
        line = (
            f"{name}  {one['file']}, {one['bytes'] / 1e6:.1f} MB: same class for "
            f"{100 * one['agreement']:.1f} %, probabilities off by {one['largest_difference']:.1e}"
        )
        if "accuracy" in one:
            line += (
                f", accuracy {100 * one['accuracy']:.1f} % (ours {100 * checked['accuracy']:.1f} %)"
            )
        lines.append(line)
    return lines
