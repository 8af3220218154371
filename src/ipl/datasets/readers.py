"""Readers of a user's data: a folder with a sub-folder per class, or a CSV or JSONL table."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ipl.datasets.benchmarks import BENCHMARKS
from ipl.datasets.dataset import Dataset, Item, check_class_names, clean_class_name
from ipl.datasets.images import files_below, is_image_name
from ipl.datasets.other_libraries import read_object
from ipl.datasets.split_file import read_split_set
from ipl.support.errors import DataError
from ipl.support.files import is_folder, path_exists, read_text

LAYOUT = "expected one sub-folder of images per class, or a .csv or .jsonl file with path,label"


def read_dataset(data: Any, strict: bool = False) -> Dataset:
    """Read a dataset; no image is opened.

    Parameters
    ----------
    data : str, Path, Dataset, or a dataset of Hugging Face or torchvision
        A folder with one sub-folder per class, or with `train` and `test` (or `val`) folders that
        have those; a folder with one of CoOp's split files; or a CSV or JSONL file with the
        columns path, label and, optionally, split.
    strict : bool, default=False
        Whether a file that is not an image is an error instead of a note.

    Returns
    -------
    Dataset
        The dataset; a `Dataset` is returned as it is.

    Raises
    ------
    DataError
        If there is no such file or folder, or its content is not a dataset.
    """
    if isinstance(data, Dataset):
        return data
    if not isinstance(data, str | os.PathLike):
        return read_object(data)
    path = Path(data)
    if is_folder(path):
        try:
            for benchmark in BENCHMARKS.values():
                if benchmark.split_file and (path / benchmark.split_file).is_file():
                    return read_split_set(benchmark, path)
            return read_folder(path, strict=strict)
        except PermissionError as error:
            raise DataError(f"No permission to read {error.filename or path}.") from None
    if not path_exists(path):
        raise DataError(f"No such file or folder: {path}.")
    if path.suffix.lower() in {".csv", ".jsonl", ".ndjson"}:
        return read_table(path)
    raise DataError(f"{path} is not a dataset: {LAYOUT}.")


def read_folder(path: Path, strict: bool = False) -> Dataset:
    """Returns the dataset of a folder with one sub-folder per class.

    With `train` and `test` (or `val`) folders inside, the classes are the sub-folders of those.
    """
    train, test = path, None
    if (path / "train").is_dir() and _folders(path / "train"):
        train = path / "train"
        test = next((path / p for p in ("test", "val") if (path / p).is_dir()), None)
    folders = _folders(train)
    if not folders:
        raise DataError(f"{train} has no sub-folders: {LAYOUT}.")
    class_folders = [folder.name for folder in folders]
    check_class_names(class_folders)  # as written, so that a message shows what to rename
    skipped: list[Path] = []
    train_items = list(_items(train, class_folders, skipped))
    labels = {item.label for item in train_items}
    for label, name in enumerate(class_folders):
        if label not in labels:
            raise DataError(f"The class folder {train / name} contains no image.")
    test_items: list[Item] = []
    if test is not None:
        unknown = [f.name for f in _folders(test) if f.name not in class_folders]
        if unknown:
            raise DataError(f"{test / unknown[0]} is not a class folder of {train}.")
        test_items = list(_items(test, class_folders, skipped))
    return Dataset(
        name=_readable(path.resolve().name) or "data",
        class_names=tuple(clean_class_name(name) for name in class_folders),
        train=tuple(train_items),
        test=tuple(test_items),
        notes=_note_skipped(skipped, strict),
    )


def read_table(path: Path) -> Dataset:
    """Returns the dataset of a CSV or JSONL file with path, label and, optionally, split.

    Relative paths start at the file's own folder; a split is train, test or val.
    """
    rows = list(_csv_rows(path) if path.suffix.lower() == ".csv" else _jsonl_rows(path))
    if not rows:
        raise DataError(f"{path} is empty: it needs rows with path,label.")
    names: dict[str, str] = {}  # as written in the file to as a prompt says it
    parts: dict[str, list[tuple[Path, str]]] = {"train": [], "test": []}
    for line, row in rows:
        missing = [column for column in ("path", "label") if not row.get(column)]
        if missing:
            raise DataError(f"{path}, line {line}: no {missing[0]}; each row needs path and label.")
        split = row.get("split") or "train"
        if split not in ("train", "test", "val"):
            raise DataError(
                f"{path}, line {line}: split is {split!r}; allowed are train, val and test."
            )
        if "\0" in row["path"]:
            raise DataError(f"{path}, line {line}: path has a null character.")
        names.setdefault(row["label"], clean_class_name(row["label"]))
        parts["train" if split == "train" else "test"].append(
            (path.parent / row["path"], row["label"])
        )
    written = sorted(names)
    check_class_names(written)  # as written, so that a message shows what to rename
    label_of = {name: label for label, name in enumerate(written)}
    train = tuple(Item(image, label_of[label]) for image, label in parts["train"])
    empty = set(range(len(written))) - {item.label for item in train}
    if empty:
        raise DataError(f"{path}: class {written[min(empty)]!r} has no training row.")
    return Dataset(
        name=_readable(path.stem),
        class_names=tuple(names[name] for name in written),
        train=train,
        test=tuple(Item(image, label_of[label]) for image, label in parts["test"]),
    )


def _readable(name: str) -> str:
    # A file name may contain bytes that are not UTF-8; what is saved must be.
    return name.encode("utf-8", "replace").decode()


def _folders(path: Path) -> list[Path]:
    return sorted(p for p in path.iterdir() if p.is_dir() and not p.name.startswith("."))


def _items(root: Path, class_folders: list[str], skipped: list[Path]) -> Iterator[Item]:
    for label, name in enumerate(class_folders):
        for file in files_below(root / name):
            if is_image_name(file):
                yield Item(file, label)
            else:
                skipped.append(file)


def _note_skipped(skipped: list[Path], strict: bool) -> tuple[str, ...]:
    if not skipped:
        return ()
    if strict:
        raise DataError(f"{skipped[0]} is not an image ({len(skipped)} such files in all).")
    examples = ", ".join(str(file) for file in skipped[:3]) + (", ..." if len(skipped) > 3 else "")
    return (f"{len(skipped)} file(s) that are not images were skipped: {examples}.",)


def _csv_rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""))
    columns = [(name or "").strip() for name in reader.fieldnames or []]
    if not {"path", "label"} <= set(columns):
        raise DataError(
            f"{path} has the columns {', '.join(columns) or 'none'}; it needs path,label[,split]."
        )
    reader.fieldnames = columns
    try:
        for row in reader:
            cells = {k: (v or "").strip() for k, v in row.items() if isinstance(k, str)}
            yield reader.line_num, cells
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {error}.") from None


def _jsonl_rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
            raise DataError(f"{path}, line {number}: not valid JSON ({reason}).") from None
        if not isinstance(row, dict):
            raise DataError(f"{path}, line {number}: not an object with path and label.")
        for key in ("path", "label", "split"):
            if not isinstance(row.get(key), str | int | float | type(None)):
                raise DataError(f"{path}, line {number}: {key} must be a string or a number.")
        yield number, {key: str(value) for key, value in row.items() if value is not None}
