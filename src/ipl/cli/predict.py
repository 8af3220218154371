"""`ipl predict RUN IMAGES...`: what a saved prompt sees in pictures."""

from __future__ import annotations

from pathlib import Path

import typer

from ipl.cli.common import DEVICE, JSON, QUIET, out, print_json, stopping
from ipl.errors import DataError


def predict(
    run: Path = typer.Argument(metavar="RUN", help="A folder that `ipl fit` saved."),
    images: list[Path] = typer.Argument(metavar="IMAGES", help="Image files, or folders of them."),
    classes: str | None = typer.Option(
        None, help='Other classes: "a,b,c", or a file with a name per line.'
    ),
    top: int = typer.Option(5, min=1, help="Classes to show per image."),
    backbone: str | None = typer.Option(
        None, help="Where the backbone's weights are now (default: as saved)."
    ),
    device: str = DEVICE,
    strict: bool = typer.Option(False, "--strict", help="Fail on a file that is not an image."),
    quiet: bool = QUIET,
    as_json: bool = JSON,
) -> None:
    """Classify pictures with a saved prompt, into its classes or any others."""
    from ipl.classifier import PromptClassifier
    from ipl.progress import Reporter
    from ipl.reports import predictions_table
    from ipl.saving import read_run

    reporter = Reporter(quiet=quiet)
    read_run(run)  # before the pictures are looked for: RUN comes first
    names = _class_names(classes) if classes is not None else None
    paths = _image_files(images)
    with stopping(lambda: "nothing was written."):
        classifier = PromptClassifier.from_pretrained(run, backbone, device)
        if names is not None:
            classifier = classifier.with_classes(names)
        with reporter.task("Encoding images", len(paths)) as advance:
            seen = classifier.look(paths, advance)
    if seen.unreadable and (strict or not seen.kept):
        raise DataError(f"Unreadable image: {seen.unreadable[0]}.")
    for reason in seen.unreadable:
        reporter.warn(f"skipped {reason}")
    predictions = []
    for index, row in zip(seen.kept, classifier.probabilities(seen.features), strict=True):
        best = row.argsort(kind="stable")[::-1][:top]
        ranked = [{"name": classifier.classes_[i], "probability": float(row[i])} for i in best]
        predictions.append({"image": str(paths[index]), "classes": ranked})
    if as_json:
        skipped = list(seen.unreadable)
        head = {"run": str(run), "prompt": classifier.prompt_, "words": classifier.words_}
        print_json({**head, "predictions": predictions, "skipped": skipped})
    else:
        out().print(predictions_table(predictions))


def _image_files(given: list[Path]) -> list[Path]:
    from ipl.datasets.images import files_below, is_image_name
    from ipl.files import is_folder, is_there

    found: list[Path] = []
    for path in given:
        if is_folder(path):
            inside = [file for file in files_below(path) if is_image_name(file)]
            if not inside:
                raise DataError(f"The folder {path} holds no images.")
            found.extend(inside)
        elif is_there(path):
            found.append(path)
        else:
            raise DataError(f"No such file: {path}.")
    return found


def _class_names(text: str) -> list[str]:
    from ipl.files import is_there

    path = Path(text)
    if is_there(path) and path.is_file():
        try:
            lines = path.read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"The class list {path} cannot be read: {error}.") from None
        names = [line.strip() for line in lines if line.strip()]
        given = f"The class list {path}"
    else:
        names = [name.strip() for name in text.split(",")]
        given = f"--classes {text!r} is no file, and"
    if len(names) < 2:
        raise DataError(f"{given} gives {len(names)} class(es); at least two are needed.")
    return names
