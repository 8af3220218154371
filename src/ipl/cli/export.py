"""`ipl export RUN --to ...`: a saved prompt for other programs and other people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from ipl.cli import shared_options as common
from ipl.cli.output import check_output_file, command_line, echo, on_interrupt, print_json
from ipl.cli.saved_classifier import load_classifier
from ipl.datasets.readers import read_dataset
from ipl.display.formatting import several
from ipl.inference.exports.classifier import export_classifier
from ipl.inference.exports.common import check_export_folder
from ipl.inference.exports.onnx import check_packages, export_onnx
from ipl.inference.exports.text import export_text
from ipl.inference.exports.transformers import HEAD, export_transformers
from ipl.saving.format import read_run
from ipl.saving.run_folder import find_run
from ipl.saving.sharing import push_run
from ipl.support.errors import ConfigError, closest
from ipl.support.progress import Reporter
from ipl.training.result import FitResult

TARGETS = ("classifier", "onnx", "transformers", "text", "hub")


def export(
    run: str = common.RUN,
    to: str = typer.Option(..., "--to", help="classifier, onnx, transformers, text or hub."),
    save_to: Path | None = typer.Option(
        None,
        "--out",
        help="A new folder (default: ipl-exports/RUN-TO); text: a file; hub: OWNER/NAME.",
    ),
    classes: str | None = common.CLASSES,
    check: Path | None = typer.Option(
        None,
        help="onnx: images in class folders, to measure accuracy on those that it was not trained "
        "on (default: drawn ones).",
    ),
    private: bool = typer.Option(
        False, "--private", help="hub: visible only to you, if the name is new."
    ),
    overwrite: bool = typer.Option(False, "--overwrite", help="text: replace the file in --out."),
    backbone: str | None = common.MOVED_BACKBONE,
    any_backbone: bool = common.ANY_BACKBONE,
    quiet: bool = common.QUIET,
    as_json: bool = common.JSON,
) -> None:
    """Write a saved prompt as a linear layer, ONNX, a transformers folder or text, or share it."""
    if to not in TARGETS:
        raise ConfigError(
            f"--to is {to!r}; allowed are {', '.join(TARGETS)}.{closest(to, TARGETS)}"
        )
    if check is not None and to != "onnx":
        raise ConfigError("--check works with --to onnx only.")
    if overwrite and to != "text":
        raise ConfigError("--overwrite works with --to text only; other exports need a new folder.")
    if private and to != "hub":
        raise ConfigError("--private works with --to hub only.")
    if to == "onnx":
        check_packages()
    folder = find_run(run)
    result = read_run(folder)  # reports a damaged RUN before the images are looked for
    if to == "hub":
        _share(result, save_to, private, classes, as_json)
        return

    target = save_to or Path("ipl-exports") / f"{Path(run).name}-{to}"
    if to != "text":
        check_export_folder(target)
    elif save_to is not None:
        check_output_file(save_to, overwrite)
    images = read_dataset(check, to_test=True) if check is not None else None
    with on_interrupt(lambda: "nothing was written."):
        classifier = load_classifier(folder, classes, backbone, "cpu", any_backbone, "fp32")
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
        echo(content["text"], end="")
    else:
        echo("\n".join([*_summary(to, content), f"Saved:  {target}"]))


def _share(
    result: FitResult, name: Path | None, private: bool, classes: str | None, as_json: bool
) -> None:
    """Uploads the three small files of a run, and nothing else."""
    if name is None:
        raise ConfigError("--to hub needs the name of the prompt there: --out OWNER/NAME.")
    if classes is not None:
        raise ConfigError("--classes does not work with --to hub, which shares a run as it is.")
    address = push_run(result, str(name), private)
    if as_json:
        print_json({"name": str(name), "address": address})
        return
    echo(f"Shared: {address}\nNext:   {command_line('predict', name)} IMAGE...")


def _summary(to: str, content: dict[str, Any]) -> list[str]:
    """The lines that describe an export."""
    with_head = ", with the head" if content["head"] else ""
    if to == "classifier":
        rows, dim = content["shape"]
        scale = f"logit scale {content['logit_scale']:.4g}"
        return [f"{rows} classes x {dim} float32, {scale}{with_head}"]
    if to == "transformers":
        head = [f"The head for these classes is in {HEAD} (README.md)."] if content["head"] else []
        return [
            f"hypothesis_template: {content['hypothesis_template']}",
            f"Text features differ from ours by {content['largest_difference']:.1e} at most.",
            *head,
        ]
    if to == "text":
        return []
    checked = content["checked"]
    lines = [
        f"Compared with our own predictions{with_head} on "
        f"{several(checked['images'], 'image')} ({checked['of']}):"
    ]
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
    return lines
