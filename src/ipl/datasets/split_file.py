"""Readers of CoOp's split files: {"train", "val", "test"} to lists of [path, label, class name]."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ipl.datasets.benchmarks import SPLITS_HOME, Benchmark
from ipl.datasets.dataset import Dataset, Item, clean_class_name
from ipl.support.errors import DataError
from ipl.support.files import read_text

SHAPE = "expected an object with train and test, each a list of [path, label, class name]"
Row = tuple[str, int, str]
# Folder names that a split file may have instead of class names.
REPAIRS = {
    "eurosat": {
        "AnnualCrop": "Annual Crop Land",
        "HerbaceousVegetation": "Herbaceous Vegetation Land",
        "Highway": "Highway or Road",
        "Industrial": "Industrial Buildings",
        "Pasture": "Pasture Land",
        "PermanentCrop": "Permanent Crop Land",
        "Residential": "Residential Buildings",
        "SeaLake": "Sea or Lake",
    }
}


def read_split_set(benchmark: Benchmark, folder: Path) -> Dataset:
    """Returns a published dataset that has a split file in its folder."""
    return read_split(
        folder / str(benchmark.split_file),
        folder / benchmark.images,
        benchmark.name,
        repairs=REPAIRS.get(benchmark.name),
        hint=f"it is linked from {SPLITS_HOME}",
    )


def read_split(
    file: Path,
    images: Path,
    name: str,
    domain: str | None = None,
    repairs: Mapping[str, str] | None = None,
    hint: str = "",
) -> Dataset:
    """Returns the dataset of a split file, whose paths start at `images`; no image is opened.

    A file for several domains contains such an object for each. The validation part is not used.
    `repairs` maps class names of the file to those of a prompt.
    """
    try:
        split = json.loads(read_text(file, hint))
    except (ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        reason = "nested too deeply"
        if isinstance(error, json.JSONDecodeError):
            reason = f"{error.msg}, line {error.lineno}"
        raise DataError(f"{file} is not valid JSON ({reason}): {SHAPE}.") from None
    if domain is not None:
        if not isinstance(split, dict) or domain not in split:
            domains = ", ".join(split) if isinstance(split, dict) else "none"
            raise DataError(f"{file} has no domain {domain!r}; it has {domains}.")
        split = split[domain]
    parts = {part: _rows(file, split, part) for part in ("train", "test")}
    _check_paths(file, parts)
    names = _names(file, [row for rows in parts.values() for row in rows])
    items = {
        part: tuple(Item(images / path, label) for path, label, _ in rows)
        for part, rows in parts.items()
    }
    return Dataset(
        name=name,
        class_names=tuple(prompt_name(n, repairs) for n in names),
        train=items["train"],
        test=items["test"],
    )


def prompt_name(raw: str, repairs: Mapping[str, str] | None = None) -> str:
    """Returns a published class name as a prompt says it: with blanks and without accents."""
    name = unicodedata.normalize("NFKD", (repairs or {}).get(raw, raw))
    plain = "".join(c for c in name if not unicodedata.combining(c))
    return clean_class_name(plain)


def _rows(file: Path, split: Any, part: str) -> list[Row]:
    if not isinstance(split, dict) or not isinstance(split.get(part), list):
        what = f"no list {part!r}" if isinstance(split, dict) else "no object"
        raise DataError(f"{file} contains {what}: {SHAPE}.")
    for index, row in enumerate(split[part]):
        if not _is_row(row):
            text = json.dumps(row)
            text = text if len(text) <= 80 else text[:80] + "..."
            raise DataError(f"{file}: {part}[{index}] is {text}: {SHAPE}.")
    if not split[part]:
        raise DataError(f"{file}: {part} is empty: {SHAPE}.")
    return [(path, label, name) for path, label, name in split[part]]


def _is_row(row: Any) -> bool:
    if not isinstance(row, list) or len(row) != 3:
        return False
    path, label, name = row
    return isinstance(path, str) and bool(path) and type(label) is int and isinstance(name, str)


def _check_paths(file: Path, parts: Mapping[str, list[Row]]) -> None:
    part_of: dict[str, str] = {}
    for part, rows in parts.items():
        for path, _, _ in rows:
            if path in part_of:
                both = part if part_of[path] == part else f"{part_of[path]} and {part}"
                raise DataError(f"{file} lists {path} twice ({both}); each image may occur once.")
            part_of[path] = part


def _names(file: Path, rows: list[Row]) -> list[str]:
    """Returns the class names in the order of their labels, which must count up from 0."""
    names: dict[int, str] = {}
    for path, label, name in rows:
        if names.setdefault(label, name) != name:
            raise DataError(
                f"{file}: label {label} is {names[label]!r} but, for {path}, {name!r}; "
                "a label must have one name."
            )
    labels = sorted(names)
    for expected, label in enumerate(labels):
        if label != expected:
            what = "start at" if expected == 0 else f"jump from {labels[expected - 1]} to"
            raise DataError(
                f"{file}: labels {what} {label}; {len(labels)} classes need the labels 0 to "
                f"{len(labels) - 1}."
            )
    return [names[label] for label in labels]
