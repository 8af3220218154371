"""Readers of CoOp's split files: {"train", "val", "test"} to lists of [path, label, class name]."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ipl.datasets.benchmarks import SPLITS_HOME, Benchmark
from ipl.datasets.dataset import Dataset, Item, clean_class_name
from ipl.support.errors import DataError, brief
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
    return read_split(
        folder / str(benchmark.split_file),
        folder / benchmark.images,
        benchmark.name,
        repairs=REPAIRS.get(benchmark.name, {}),
        hint=f"it is linked from {SPLITS_HOME}",
    )


def read_split(
    file: Path,
    images: Path,
    name: str,
    domain: str | None = None,
    repairs: Mapping[str, str] = {},
    hint: str = "",
) -> Dataset:
    """The dataset of a split file, whose paths start at `images`; no image is opened.

    A file for several domains contains such an object for each. The validation part is not used.
    `repairs` maps class names of the file to those of a prompt.
    """
    text = read_text(file, hint)
    try:
        split = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file} is not valid JSON ({error}): {SHAPE}.") from None
    if domain is not None:
        if not isinstance(split, dict) or domain not in split:
            domains = ", ".join(split) if isinstance(split, dict) else "none"
            raise DataError(f"{file} has no domain {domain!r}; it has {domains}.")
        split = split[domain]
    train, test = (_rows(file, split, part) for part in ("train", "test"))
    return Dataset(
        name=name,
        class_names=tuple(prompt_name(repairs.get(n, n)) for n in _names(file, train + test)),
        train=tuple(Item(images / path, label) for path, label, _ in train),
        test=tuple(Item(images / path, label) for path, label, _ in test),
    )


def prompt_name(raw: str) -> str:
    """A published class name as a prompt says it: with blanks and without accents."""
    name = unicodedata.normalize("NFKD", raw)
    return clean_class_name("".join(c for c in name if not unicodedata.combining(c)))


def _rows(file: Path, split: Any, part: str) -> list[Row]:
    rows = split.get(part) if isinstance(split, dict) else None
    if not isinstance(rows, list) or not rows:
        raise DataError(f"{file} contains no list {part!r}: {SHAPE}.")
    for index, row in enumerate(rows):
        kinds = [type(cell) for cell in row] if isinstance(row, list) else []
        if kinds != [str, int, str] or not row[0]:
            raise DataError(f"{file}: {part}[{index}] is {brief(row)}: {SHAPE}.")
    return [(path, label, name) for path, label, name in rows]


def _names(file: Path, rows: list[Row]) -> list[str]:
    """The class names in the order of their labels, which must count up from 0."""
    names, paths = dict[int, str](), set[str]()
    for path, label, name in rows:
        if path in paths:
            raise DataError(f"{file} lists {path} twice; each image may occur once.")
        paths.add(path)
        if names.setdefault(label, name) != name:
            raise DataError(
                f"{file}: label {label} is {names[label]!r} but, for {path}, {name!r}; "
                "a label must have one name."
            )
    if sorted(names) != list(range(len(names))):
        raise DataError(
            f"{file}: the labels are {brief(sorted(names))}; {len(names)} classes need the labels "
            f"0 to {len(names) - 1}."
        )
    return [names[label] for label in range(len(names))]
