"""Loads the classifier of a saved run, for its own classes or those in `--classes`."""

from __future__ import annotations

import csv
import os
from pathlib import Path

from ipl.classifier import PromptClassifier
from ipl.display.formatting import several
from ipl.support.errors import DataError
from ipl.support.files import read_lines
from ipl.support.progress import SILENT, Reporter


def load_classifier(
    folder: Path | str,
    classes: str | None,
    backbone: str | None,
    device: str,
    any_backbone: bool,
    precision: str | None = None,
    reporter: Reporter = SILENT,
) -> PromptClassifier:
    """The classifier of a saved run, for the classes in `--classes` if they are given."""
    names = None if classes is None else read_class_names(classes)
    classifier = PromptClassifier.from_pretrained(
        folder, backbone, device, precision, reporter, any_backbone
    )
    return classifier if names is None else classifier.with_classes(names)


def read_class_names(text: str) -> list[str]:
    """The class names in a file, one per line, or in a text, separated by commas.

    Lines of a file that begin with # are comments. In a text, a name in quotes may contain a comma.
    """
    path = Path(text)
    if os.path.exists(path) and path.is_file():
        names = [name for _, name in read_lines(path) if not name.startswith("#")]
        source = f"The class list {path}"
    else:
        source = f"--classes {text!r} is not a file, and"
        try:
            rows = list(csv.reader(text.splitlines(), skipinitialspace=True, strict=True))
        except csv.Error as error:
            raise DataError(f"{source} cannot be read as names: {error}.") from None
        names = [name.strip() for row in rows for name in row]
    if len(names) < 2:
        given = several(len(names), "class", "classes")
        raise DataError(f"{source} gives {given}; at least two are needed.")
    return names
