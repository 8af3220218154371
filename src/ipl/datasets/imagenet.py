"""Readers of ImageNet and its four variants: one folder per class, named by its WordNet id."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ipl.datasets.benchmarks import BENCHMARKS, SPLITS_HOME, Benchmark
from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.images import EXTENSIONS
from ipl.datasets.split_file import prompt_name
from ipl.support.errors import DataError
from ipl.support.files import read_lines

CLASSNAMES = "classnames.txt"


def read_imagenet(benchmark: Benchmark, folder: Path) -> Dataset:
    """Returns ImageNet with its validation images as test part, in sorted order."""
    names = read_classnames(folder / CLASSNAMES)
    train, test = folder / benchmark.images / "train", folder / benchmark.images / "val"
    wnids = class_folders(train, names)
    _check_same(wnids, class_folders(test, names), train, test)
    return Dataset(
        name=benchmark.name,
        class_names=tuple(names[wnid] for wnid in wnids),
        train=tuple(_items(train, wnids)),
        test=tuple(_items(test, wnids)),
        alike=True,
    )


def read_variant(benchmark: Benchmark, folder: Path, root: Path) -> Dataset:
    """Returns a variant of ImageNet, which has test images only.

    A variant with 1,000 classes must have all of ImageNet's; the others have their own subset.
    """
    names = _variant_names(folder, root)
    images = folder / benchmark.images
    if benchmark.layout == "by-number":
        wnids = sorted(names)
        folders = [str(number) for number in range(len(wnids))]
        _check_same(folders, sorted(_folders(images), key=_as_number), root, images)
    else:
        wnids = folders = class_folders(images, names)
        if benchmark.classes == BENCHMARKS["imagenet"].classes:
            _check_same(sorted(names), wnids, Path(CLASSNAMES), images)
    return Dataset(
        name=benchmark.name,
        class_names=tuple(names[wnid] for wnid in wnids),
        train=(),
        test=tuple(_items(images, folders)),
        alike=True,
    )


def read_classnames(file: Path) -> dict[str, str]:
    """Returns class names by WordNet id from a file of lines such as `n01440764 tench`."""
    names: dict[str, str] = {}
    for number, line in read_lines(file, f"it is linked from {SPLITS_HOME}"):
        wnid, _, name = line.partition(" ")
        if not name.strip():
            raise DataError(f"{file}, line {number}: {line!r} has no name after the WordNet id.")
        if wnid in names:
            raise DataError(f"{file}, line {number}: {wnid} is listed twice.")
        names[wnid] = prompt_name(name)
    if not names:
        raise DataError(f"{file} is empty; each line must be a WordNet id and a name.")
    return names


def class_folders(folder: Path, names: dict[str, str]) -> list[str]:
    """Returns the sorted class folders; raises DataError if one of them has no class name."""
    wnids = sorted(_folders(folder))
    for wnid in wnids:
        if wnid not in names:
            raise DataError(f"{folder / wnid} has no name in {CLASSNAMES}.")
    return wnids


def _variant_names(folder: Path, root: Path) -> dict[str, str]:
    """Returns ImageNet's class names, from its own folder or from a copy in the variant's."""
    main, own = root / BENCHMARKS["imagenet"].folder / CLASSNAMES, folder / CLASSNAMES
    if not main.is_file():
        if own.is_file():
            return read_classnames(own)
        raise DataError(
            f"No file {CLASSNAMES} in {main.parent} or {folder}: class names are read from it; "
            f"it is linked from {SPLITS_HOME}."
        )
    names = read_classnames(main)
    if own.is_file() and (copy := read_classnames(own)) != names:
        wnid = min(w for w in {*names, *copy} if names.get(w) != copy.get(w))
        raise DataError(
            f"{own} differs from {main} at {wnid}: {copy.get(wnid)!r} and {names.get(wnid)!r}."
        )
    return names


def _check_same(
    expected: Sequence[str], folders: Sequence[str], source: Path, variant: Path
) -> None:
    """Raises DataError with the first class that only one of the two has."""
    if list(expected) == list(folders):
        return
    first = min({*expected} ^ {*folders}, key=_as_number)
    if first in expected:
        raise DataError(f"{variant} has no folder {first}, which is a class of {source}.")
    raise DataError(f"{variant / first} is not a class of {source}.")


def _as_number(name: str) -> tuple[int, str]:
    return (int(name) if name.isascii() and name.isdigit() else -1, name)


def _folders(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            visible = [entry for entry in entries if not entry.name.startswith(".")]
            folders = [entry.name for entry in visible if entry.is_dir()]
    except OSError as error:
        raise DataError(f"{folder} cannot be listed: {error.strerror}.") from None
    if not folders:
        hint = f"; sort its {len(visible):,} files into such folders" if visible else ""
        raise DataError(f"{folder} has no class folders such as n01440764{hint}.")
    return folders


def _items(folder: Path, folders: Sequence[str]) -> Iterator[Item]:
    # Sorted, so that the same shots are drawn on every machine.
    for label, name in enumerate(folders):
        class_folder = folder / name
        for file in sorted(os.listdir(class_folder)):
            if not file.startswith(".") and os.path.splitext(file)[1].lower() in EXTENSIONS:
                yield Item(class_folder / file, label)
