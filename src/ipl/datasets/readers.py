"""Readers of a user's data: a folder with a sub-folder per class, or a CSV, TSV or JSONL table."""

from __future__ import annotations

import csv
import io
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from ipl.datasets.benchmarks import BENCHMARKS
from ipl.datasets.dataset import (
    PART_NAMES,
    SINGLE_CLASS,
    TEST,
    TRAIN,
    Dataset,
    Finding,
    Item,
    check_class_names,
    clean_class_name,
    findings_on,
    hint_at_other_part,
    one_class,
    unused_part,
)
from ipl.datasets.images import is_image_name, is_litter
from ipl.datasets.split_files import read_split_set
from ipl.support.errors import DataError
from ipl.support.files import check_exists, read_lines, read_text

LAYOUT = (
    "expected one sub-folder of images per class, or a .csv, .tsv or .jsonl file with path,label"
)
TABLES = frozenset({".csv", ".tsv", ".jsonl", ".ndjson"})
DELIMITERS = ",;\t|"
# What the columns of a table may be called; a column with the first name goes before others.
COLUMNS = {
    "path": ("path", "filename", "file_name", "file", "image", "image_path", "file_path", "img"),
    "label": ("label", "class", "category", "class_name"),
    "split": ("split", "subset", "set"),
}
NOT_AN_IMAGE = "not an image"
# What a walk through folders meets beside images in class folders, and what becomes of it.
MET = {
    NOT_AN_IMAGE: "skipped",
    "broken link": "skipped",
    "linked folder": "not followed",
    "image beside the class folders": "skipped",
    "folder beside train": "not read",
    "merged sub-folder": "its images belong to the class folder around it",
}
Met = dict[str, list[str]]  # paths by a kind of MET
MAC_ARCHIVE = "__MACOSX"  # what macOS adds to an archive


def read_dataset(
    data: Any,
    held_out: str = TEST,
    lenient: bool = False,
    to_test: bool = False,
) -> Dataset:
    """Read a dataset; no image is opened.

    Parameters
    ----------
    data : str, Path or Dataset
        A folder with one sub-folder per class, or with `train` and `test` folders that have those;
        a folder with one of CoOp's split files; or a CSV, TSV or JSONL file with the columns path,
        label and, optionally, split.
    held_out : str, default="test"
        The part that is held out, test or val; the other one is not used.
    lenient : bool, default=False
        Whether a folder or table is read although a fit cannot use it; findings then say why.
    to_test : bool, default=False
        Whether the images are only tested on: then a single class is enough, and training images
        are not needed, neither of all classes nor of one.

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
        raise DataError(
            f"{type(data).__name__} is not a dataset; give a folder, a table, or a list of images "
            "with its labels, as in fit(images, labels)."
        )
    dataset = _read_path(data, held_out, to_test)
    for finding in dataset.findings:
        if finding.stops_fit and not lenient and not (to_test and finding.kind == SINGLE_CLASS):
            raise DataError(f"{dataset.display_name}: {finding.note}")
    return dataset


def _read_path(data: str | os.PathLike[str], held_out: str, to_test: bool) -> Dataset:
    if data == "":  # as a path it would be the current folder
        raise DataError("The name of the dataset is empty; give a folder or a table.")
    path = Path(data)
    check_exists(path)
    if path.is_dir():
        return _read_any_folder(path, held_out, to_test)
    if path.suffix.lower() in TABLES:
        return read_table(path, held_out, to_test)
    raise DataError(f"{path} is not a dataset: {LAYOUT}.")


def _read_any_folder(path: Path, held_out: str, to_test: bool) -> Dataset:
    for benchmark in filter(lambda each: each.split_file, BENCHMARKS.values()):
        if (path / benchmark.split_file).is_file():
            return replace(read_split_set(benchmark, path), source=str(path))
        if (path / benchmark.folder / benchmark.split_file).is_file():
            raise DataError(
                f"{path} has published datasets, not classes, as its sub-folders; give one of "
                f"them, such as {path / benchmark.folder}."
            )
    return read_folder(path, held_out, to_test)


# -- folders --------------------------------------------------------------------------------------


def read_folder(path: Path, held_out: str = TEST, to_test: bool = False) -> Dataset:
    """The dataset of a folder with one sub-folder per class.

    With a `train` folder that has sub-folders, and `test` or `val` beside it, the classes are the
    sub-folders of those. Data to test on needs no `train`, or no images of a class in it. Findings
    say what a fit could not use.
    """
    met: Met = defaultdict(list)
    parts = _part_folders(path, met)
    needed = TRAIN if TRAIN in parts or not to_test else held_out  # the part with the classes
    if needed not in parts:
        found = " and ".join(sorted(folder.name for folder in parts.values()))
        hint = hint_at_other_part(parts, needed)
        raise DataError(f"{path} has {found}, but no folder {needed} with class folders{hint}.")
    used = {part: parts[part] for part in (TRAIN, held_out) if part in parts}
    classes = {part: _folders(folder) for part, folder in used.items()}
    # A class to test on may have no training image.
    names = sorted({*classes[needed], *(classes.get(held_out, ()) if to_test else ())})
    if not names:
        raise DataError(f"{used[needed]} has no sub-folders: {LAYOUT}.")
    check_class_names(names)  # as written, so that a message shows what to rename
    items = {part: _items(folder, names, met) for part, folder in used.items()}
    untrained = [str(used[p] / name) for p in used for name in classes[p] if name not in names]
    empty = [str(used[part]) for part in used if part != needed and not items[part]]
    findings = (
        *unused_part(parts, held_out, path),
        *(each for kind, then in MET.items() for each in findings_on(kind, met[kind], then)),
        *one_class(names),
        *findings_on("held-out class without training images", untrained, stops_fit=True),
        *findings_on("empty part", empty, "add images of its classes, or remove it", True),
        *_empty_classes(names, items, held_out, to_test),
    )
    return _dataset(path, path.resolve().name or "data", names, items, held_out, findings)


def _dataset(
    path: Path,
    name: str,
    names: Sequence[str],
    items: Mapping[str, Iterable[Item]],
    held_out: str,
    findings: Iterable[Finding],
) -> Dataset:
    def readable(text: str) -> str:
        # A file name may contain bytes that are not UTF-8; what is saved must be.
        return text.encode("utf-8", "replace").decode()

    return Dataset(
        name=readable(name),
        class_names=tuple(map(clean_class_name, names)),
        train=tuple(items.get(TRAIN, ())),
        test=tuple(items.get(held_out, ())),
        findings=tuple(findings),
        source=readable(str(path)),
    )


def _empty_classes(
    names: list[str], items: Mapping[str, Iterable[Item]], held_out: str, to_test: bool
) -> tuple[Finding, ...]:
    needed = (TRAIN, held_out) if to_test else (TRAIN,)
    labels = {item.label for part in needed for item in items.get(part, ())}
    what = "images" if to_test else "training images"
    empty = [name for label, name in enumerate(names) if label not in labels]
    return findings_on(f"class without {what}", empty, stops_fit=True)


def _part_folders(path: Path, met: Met) -> dict[str, Path]:
    """The folders of train, val and test; `path` is train if it has class folders itself."""
    parts: dict[str, Path] = {}
    others = []
    for name in _folders(path):
        part = PART_NAMES.get(name.lower())
        if part is None:
            others.append(str(path / name))
        elif part in parts:
            raise DataError(
                f"{path} has two folders of {part} images, {parts[part].name} and {name}; keep one."
            )
        else:
            parts[part] = path / name
    filled = [part for part, folder in parts.items() if _folders(folder)]
    if TRAIN not in filled and (TRAIN in parts or others or not filled):
        return {TRAIN: path}
    met["folder beside train"] += others
    _look_beside(path, met)
    return parts


def _items(root: Path, class_folders: list[str], met: Met) -> list[Item]:
    """The images of class folders in the order of their paths."""
    _look_beside(root, met)
    items, merged = list[Item](), Counter[str]()
    for label, name in enumerate(class_folders):
        files = list[Path]()
        for folder, inner, names in os.walk(root / name):
            here = Path(folder)
            inner[:] = [each for each in inner if not _is_hidden(each)]
            met["linked folder"] += [str(here / x) for x in inner if (here / x).is_symlink()]
            files += [here / each for each in names if not _is_hidden(each)]
        for file in sorted(files):
            if not file.is_file():
                met["broken link" if file.is_symlink() else NOT_AN_IMAGE].append(str(file))
            elif not is_image_name(file):
                met[NOT_AN_IMAGE].append(str(file))
            else:
                items.append(Item(file, label))
                merged[str(file.parent)] += file.parent != root / name
    met["merged sub-folder"] += [f"{folder} ({count})" for folder, count in merged.items() if count]
    return items


def _look_beside(root: Path, met: Met) -> None:
    """Notes images and broken links that stand where class folders are expected."""
    for path in sorted(each for each in root.iterdir() if not _is_hidden(each.name)):
        if path.is_file() and is_image_name(path):
            met["image beside the class folders"].append(str(path))
        elif path.is_symlink() and not path.exists():
            met["broken link"].append(str(path))


def _folders(path: Path) -> list[str]:
    return sorted(p.name for p in path.iterdir() if p.is_dir() and not _is_hidden(p.name))


def _is_hidden(name: str) -> bool:
    return is_litter(Path(name)) or name == MAC_ARCHIVE


# -- tables ---------------------------------------------------------------------------------------


def read_table(path: Path, held_out: str = TEST, to_test: bool = False) -> Dataset:
    """The dataset of a CSV, TSV or JSONL file with path, label and, optionally, split.

    Relative paths start at the file's own folder; a split is train, val or test. Findings say what
    a fit could not use.
    """
    parts: dict[str, list[tuple[Path, str]]] = defaultdict(list)
    for line, row in _rows(path):
        place = f"{path}, line {line}"
        cells = {role: row[name] for role, name in _find_columns(path, tuple(row)).items()}
        for role in ("path", "label"):
            if not isinstance(cells.get(role), str | int | float) or not str(cells[role]).strip():
                where = "" if role in cells else f" in {', '.join(map(str, row))}"
                raise DataError(f"{place}: no {role}{where}; each row needs path and label.")
        image, label = str(cells["path"]).strip(), str(cells["label"]).strip()
        split = str(cells.get("split") or TRAIN).strip()
        if split.lower() not in PART_NAMES:
            raise DataError(f"{place}: split is {split!r}; allowed are train, val and test.")
        if "://" in image:
            raise DataError(f"{place}: {image} is a URL; fetch the images first.")
        parts[PART_NAMES[split.lower()]].append((_image_path(path.parent, image), label))
    if not parts:
        raise DataError(f"{path} is empty: it needs a line with path,label, and rows below it.")
    if to_test and not {TRAIN, held_out} & parts.keys():
        hint = hint_at_other_part(parts, held_out)
        raise DataError(f"{path} has no row of the split {held_out}{hint}.")
    names = sorted({name for rows in parts.values() for _, name in rows})
    check_class_names(names)  # as written, so that a message shows what to rename
    labels = {name: label for label, name in enumerate(names)}
    items = {part: [Item(path, labels[name]) for path, name in parts[part]] for part in parts}
    findings = [*unused_part(parts, held_out, path), *one_class(names)]
    if not to_test:
        findings += _empty_classes(names, items, held_out, to_test)
    return _dataset(path, path.stem, names, items, held_out, findings)


def _image_path(folder: Path, text: str) -> Path:
    """The path of an image; backslashes of Windows separate folders here as well."""
    path = folder / text
    if "\\" in text and not os.path.exists(path):
        return folder / text.replace("\\", "/")
    return path


def _rows(path: Path) -> Iterator[tuple[int, dict[Any, Any]]]:
    """The number of each line and its cells by column."""
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        for number, line in read_lines(path):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{path}, line {number}: not valid JSON ({error}).") from None
            if not isinstance(row, dict):
                raise DataError(f"{path}, line {number}: not an object with path and label.")
            yield number, row
        return
    text = read_text(path)
    delimiter = max(DELIMITERS, key=text.partition("\n")[0].count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        for cells in reader:
            yield reader.line_num, cells
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {error}.") from None


@lru_cache
def _find_columns(path: Path, names: tuple[Any, ...]) -> dict[str, Any]:
    """Which column is the path, the label and the split; raises if two could be."""
    known = {str(n).strip().lower().replace(" ", "_").replace("-", "_"): n for n in names}
    columns = {}
    for role, aliases in COLUMNS.items():
        found = [known[alias] for alias in aliases if alias in known]
        if len(found) > 1 and role not in known:
            raise DataError(
                f"{path} has two columns that could be the {role}, {found[0]} and {found[1]}; "
                f"call the right one {role}."
            )
        if found:
            columns[role] = found[0]
    return columns
