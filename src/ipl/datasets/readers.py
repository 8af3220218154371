"""Readers of a user's data: a folder with a sub-folder per class, or a CSV, TSV or JSONL table."""

from __future__ import annotations

import csv
import io
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ipl.datasets.benchmarks import BENCHMARKS
from ipl.datasets.dataset import (
    EMPTY_PART,
    NO_FIT,
    PART_NAMES,
    TEST,
    TRAIN,
    VAL,
    Dataset,
    Finding,
    Item,
    check_class_names,
    clean_class_name,
    held_out_findings,
    hint_at_other_part,
    make_finding,
    one_class_findings,
)
from ipl.datasets.images import is_image_name, is_litter
from ipl.datasets.other_libraries import read_object
from ipl.datasets.split_file import read_split_set
from ipl.support.errors import DataError
from ipl.support.files import check_exists, read_text

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
SAVED_BY_HUGGING_FACE = ("dataset_dict.json", "state.json")  # in a folder of save_to_disk
OF_HUGGING_FACE = "a dataset of Hugging Face; give fit in Python what is loaded from it with"
MAC_ARCHIVE = "__MACOSX"  # what macOS adds to an archive


def read_dataset(
    data: Any,
    strict: bool = False,
    held_out: str = TEST,
    shots: int = 16,
    lenient: bool = False,
    to_test: bool = False,
) -> Dataset:
    """Read a dataset; no image is opened.

    Parameters
    ----------
    data : str, Path, Dataset, or a dataset of Hugging Face or torchvision
        A folder with one sub-folder per class, or with `train` and `test` folders that have those;
        a folder with one of CoOp's split files; or a CSV, TSV or JSONL file with the columns path,
        label and, optionally, split.
    strict : bool, default=False
        Whether a file that is not an image is an error instead of a note.
    held_out : str, default="test"
        The part that is held out, test or val; the other one is not used.
    shots : int, default=16
        How many images of each class will be drawn. Only streams need it: the first twice as many
        of each class are kept, and of a test part about 2,000 images.
    lenient : bool, default=False
        Whether a folder or table is read although a fit cannot use it: a class may have no
        training image, there may be a single class, the held-out folder may have no image, or
        classes that `train` does not have. Findings say so; otherwise these are errors.
    to_test : bool, default=False
        Whether the images are only tested on: then a single class is enough, and training images
        are not needed, neither of all classes nor of one. A finding says that a fit cannot use a
        single class.

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
        return read_object(data, held_out, shots, to_test)
    if data == "":  # as a path it would be the current folder
        raise DataError("The name of the dataset is empty; give a folder or a table.")
    path = Path(data)
    if os.path.isdir(path):
        if any((path / name).is_file() for name in SAVED_BY_HUGGING_FACE):
            raise DataError(f"{path} is {OF_HUGGING_FACE} datasets.load_from_disk.")
        try:
            for benchmark in BENCHMARKS.values():
                if benchmark.split_file and (path / benchmark.split_file).is_file():
                    return replace(read_split_set(benchmark, path), source=str(path))
            _check_no_root(path)
            return read_folder(path, strict, held_out, lenient, to_test)
        except PermissionError as error:
            raise DataError(f"No permission to read {error.filename or path}.") from None
    check_exists(path)
    if path.suffix.lower() in TABLES:
        return read_table(path, held_out, lenient, to_test)
    if path.suffix.lower() == ".parquet":
        raise DataError(f"{path} is {OF_HUGGING_FACE} datasets.load_dataset.")
    raise DataError(f"{path} is not a dataset: {LAYOUT}.")


def _check_no_root(path: Path) -> None:
    """Raises DataError if the sub-folders are published datasets: they are no classes."""
    for benchmark in BENCHMARKS.values():
        folder = path / benchmark.folder
        if benchmark.split_file and (folder / benchmark.split_file).is_file():
            raise DataError(
                f"{path} has published datasets, not classes, as its sub-folders; give one of "
                f"them, such as {folder}."
            )


# -- folders --------------------------------------------------------------------------------------


@dataclass
class _Leftovers:
    """What the walk through the folders met beside images in class folders."""

    not_images: list[Path] = field(default_factory=list)
    broken_links: list[Path] = field(default_factory=list)
    linked_folders: list[Path] = field(default_factory=list)
    images_beside: list[Path] = field(default_factory=list)
    folders_beside: list[Path] = field(default_factory=list)
    merged: Counter[Path] = field(default_factory=Counter)  # images by sub-folder

    def findings(self) -> tuple[Finding, ...]:
        """Returns what is worth a note."""
        return (
            *make_finding(
                "not an image",
                self.not_images,
                "file is not an image and was skipped",
                "files are not images and were skipped",
            ),
            *make_finding(
                "broken link",
                self.broken_links,
                "link leads nowhere and was skipped",
                "links lead nowhere and were skipped",
            ),
            *make_finding(
                "linked folder",
                self.linked_folders,
                "link to a folder inside a class folder was not followed",
                "links to folders inside class folders were not followed",
            ),
            *make_finding(
                "image beside the class folders",
                self.images_beside,
                "image is beside the class folders, not in one, and was skipped",
                "images are beside the class folders, not in one, and were skipped",
            ),
            *make_finding(
                "folder beside train",
                self.folders_beside,
                "folder beside train was not read",
                "folders beside train were not read",
            ),
            *make_finding(
                "merged sub-folder",
                (f"{folder} ({count})" for folder, count in self.merged.items()),
                "folder inside a class folder was merged into its class",
                "folders inside class folders were merged into their classes",
            ),
        )


def read_folder(
    path: Path,
    strict: bool = False,
    held_out: str = TEST,
    lenient: bool = False,
    to_test: bool = False,
) -> Dataset:
    """Returns the dataset of a folder with one sub-folder per class.

    With a `train` folder that has sub-folders, and `test` or `val` beside it, the classes are the
    sub-folders of those. Data to test on needs no `train`, or no images of a class in it.
    """
    leftovers = _Leftovers()
    parts = _part_folders(path, leftovers, held_out if to_test else TRAIN)
    first = held_out if parts and TRAIN not in parts else TRAIN  # the part that has the classes
    root = parts.get(first, path)
    folders = _folders(root)
    if not folders:
        raise DataError(f"{root} has no sub-folders: {LAYOUT}.")
    class_folders = [folder.name for folder in folders]
    if to_test and held_out in parts:  # a class may have no training image
        class_folders = sorted({*class_folders, *(f.name for f in _folders(parts[held_out]))})
    check_class_names(class_folders)  # as written, so that a message shows what to rename
    items = {first: list(_items(root, class_folders, leftovers))}
    problems = one_class_findings(class_folders) if lenient or to_test else ()
    if held_out in parts.keys() - items.keys():
        folder = parts[held_out]
        unknown = [f for f in _folders(folder) if f.name not in class_folders]
        if unknown and not lenient:
            raise DataError(f"{unknown[0]} is not a class folder of {root}.")
        items[held_out] = list(_items(folder, class_folders, leftovers))
        if not items[held_out] and not lenient:
            raise DataError(f"{folder} contains no image in a class folder; add some or remove it.")
        problems += _held_out_problems(folder, unknown, not items[held_out])
    needed = (TRAIN, held_out) if to_test else (TRAIN,)  # a class must have an image in one of them
    labels = {item.label for part in needed for item in items.get(part, ())}
    for label, name in enumerate(class_folders):
        if label not in labels and not lenient:
            empty = next(f / name for f in (root, *parts.values()) if (f / name).is_dir())
            raise DataError(f"The class folder {empty} contains no image.")
    for part in parts.keys() - items.keys():  # only counted
        items[part] = list(_items(parts[part], class_folders, _Leftovers()))
    if strict and leftovers.not_images:
        count = len(leftovers.not_images)
        more = f" ({count} such files in all)" if count > 1 else ""
        raise DataError(f"{leftovers.not_images[0]} is not an image{more}.")
    sizes = {part: len(found) for part, found in items.items()}
    return Dataset(
        name=_readable(path.resolve().name) or "data",
        class_names=tuple(clean_class_name(name) for name in class_folders),
        train=tuple(items.get(TRAIN, ())),
        test=tuple(items.get(held_out, ())),
        findings=(*held_out_findings(sizes, held_out, path), *leftovers.findings(), *problems),
        source=_readable(str(path)),
    )


def _held_out_problems(folder: Path, unknown: list[Path], empty: bool) -> tuple[Finding, ...]:
    """Returns findings on classes of a held-out folder that are unknown, and on an empty one."""
    problems = make_finding(
        "held-out class without training images",
        unknown,
        "held-out class is not a class of the training images",
        "held-out classes are not classes of the training images",
        stops_fit=True,
    )
    if not empty:
        return problems
    note = f"{folder} contains no image of a class; add some or remove it: until then, {NO_FIT}."
    return (*problems, Finding(EMPTY_PART, note, (str(folder),), stops_fit=True))


def _part_folders(path: Path, leftovers: _Leftovers, needed: str) -> dict[str, Path]:
    """Returns the folders of train, val and test; none if `path` has class folders itself.

    Raises DataError if it has such folders, and neither train nor the part that is needed.
    """
    parts: dict[str, Path] = {}
    others = []
    for folder in _folders(path):
        part = PART_NAMES.get(folder.name.lower())
        if part is None:
            others.append(folder)
        elif part in parts:
            raise DataError(
                f"{path} has two folders of {part} images, {parts[part].name} and {folder.name}; "
                "keep one."
            )
        else:
            parts[part] = folder
    if TRAIN in parts and not _folders(parts[TRAIN]):
        return {}
    if TRAIN not in parts:
        if others or not any(map(_folders, parts.values())):
            return {}
        if needed not in parts:
            found = " and ".join(sorted(folder.name for folder in parts.values()))
            hint = hint_at_other_part(parts, needed)
            raise DataError(f"{path} has {found}, but no folder {needed} with class folders{hint}.")
    leftovers.folders_beside += others
    _look_beside(path, leftovers)
    return parts


def _items(root: Path, class_folders: list[str], leftovers: _Leftovers) -> Iterator[Item]:
    _look_beside(root, leftovers)
    for label, name in enumerate(class_folders):
        folder = root / name
        for file in sorted(folder.rglob("*")):
            if _is_hidden(file.relative_to(folder)):
                continue
            if file.is_file():
                if not is_image_name(file):
                    leftovers.not_images.append(file)
                    continue
                if file.parent != folder:
                    leftovers.merged[file.parent] += 1
                yield Item(file, label)
            elif file.is_symlink():  # rglob() does not follow links to folders
                followed = leftovers.linked_folders if file.exists() else leftovers.broken_links
                followed.append(file)


def _look_beside(root: Path, leftovers: _Leftovers) -> None:
    """Notes images and broken links that stand where class folders are expected."""
    for path in sorted(root.iterdir()):
        if _is_hidden(Path(path.name)):
            continue
        if path.is_file() and is_image_name(path):
            leftovers.images_beside.append(path)
        elif path.is_symlink() and not path.exists():
            leftovers.broken_links.append(path)


def _folders(path: Path) -> list[Path]:
    return sorted(p for p in path.iterdir() if p.is_dir() and not _is_hidden(Path(p.name)))


def _is_hidden(path: Path) -> bool:
    return is_litter(path) or MAC_ARCHIVE in path.parts


def _readable(name: str) -> str:
    # A file name may contain bytes that are not UTF-8; what is saved must be.
    return name.encode("utf-8", "replace").decode()


# -- tables ---------------------------------------------------------------------------------------


def read_table(
    path: Path, held_out: str = TEST, lenient: bool = False, to_test: bool = False
) -> Dataset:
    """Returns the dataset of a CSV, TSV or JSONL file with path, label and, optionally, split.

    Relative paths start at the file's own folder; a split is train, val or test.
    """
    is_json = path.suffix.lower() in (".jsonl", ".ndjson")
    rows = list(_jsonl_rows(path) if is_json else _csv_rows(path))
    if not rows:
        raise DataError(f"{path} is empty: it needs rows with path,label.")
    names: dict[str, str] = {}  # as written in the file to as a prompt says it
    parts: dict[str, list[tuple[Path, str]]] = {TRAIN: [], VAL: [], TEST: []}
    for line, row in rows:
        missing = [column for column in ("path", "label") if not row.get(column)]
        if missing:
            raise DataError(f"{path}, line {line}: no {missing[0]}; each row needs path and label.")
        split = row.get("split") or TRAIN
        part = PART_NAMES.get(split.lower())
        if part is None:
            raise DataError(
                f"{path}, line {line}: split is {split!r}; allowed are train, val and test."
            )
        if "\0" in row["path"]:
            raise DataError(f"{path}, line {line}: path has a null character.")
        if "://" in row["path"]:
            raise DataError(
                f"{path}, line {line}: {row['path']} is a URL; fetch the images first and give "
                "their paths."
            )
        names.setdefault(row["label"], clean_class_name(row["label"]))
        parts[part].append((_image_path(path.parent, row["path"]), row["label"]))
    written = sorted(names)
    check_class_names(written)  # as written, so that a message shows what to rename
    label_of = {name: label for label, name in enumerate(written)}
    items = {
        part: tuple(Item(image, label_of[label]) for image, label in rows)
        for part, rows in parts.items()
    }
    if to_test and not items[TRAIN] and not items[held_out]:
        hint = hint_at_other_part([part for part in parts if parts[part]], held_out)
        raise DataError(f"{path} has no row of the split {held_out}{hint}.")
    empty = set(range(len(written))) - {item.label for item in items[TRAIN]}
    if empty and not lenient and not to_test:
        raise DataError(f"{path}: class {written[min(empty)]!r} has no training row.")
    sizes = {part: len(found) for part, found in items.items()}
    return Dataset(
        name=_readable(path.stem),
        class_names=tuple(names[name] for name in written),
        train=items[TRAIN],
        test=items[held_out],
        findings=(
            *held_out_findings(sizes, held_out, path),
            *(one_class_findings(written) if lenient or to_test else ()),
        ),
        source=_readable(str(path)),
    )


def _image_path(folder: Path, text: str) -> Path:
    """Returns the path of an image; backslashes of Windows separate folders here as well."""
    path = folder / text
    if "\\" in text and not os.path.exists(path):
        return folder / text.replace("\\", "/")
    return path


def _csv_rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    text = _read_table_text(path)
    header, delimiter = _header(text)
    columns = _find_columns(path, header)
    if not {"path", "label"} <= columns.keys():
        has = f"has the columns {', '.join(header)}" if header else "has no columns"
        raise DataError(
            f"{path} {has}; the first line must name one of them path and one label "
            "(or filename and class), and may name a third split."
        )
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    reader.fieldnames = header
    try:
        next(reader.reader, None)
        for row in reader:
            yield (
                reader.line_num,
                {role: (row[name] or "").strip() for role, name in columns.items()},
            )
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {error}.") from None


def _header(text: str) -> tuple[list[str], str]:
    """Returns the names of the columns, and the delimiter that divides the first line into most."""
    lines = text.splitlines()
    headers = {
        delimiter: next(csv.reader(lines[:1], delimiter=delimiter), []) for delimiter in DELIMITERS
    }
    delimiter = max(headers, key=lambda each: len(headers[each]))
    return [name.strip() for name in headers[delimiter]], delimiter


def _find_columns(path: Path, names: Iterable[str]) -> dict[str, str]:
    """Returns which column is the path, the label and the split; raises if two could be."""
    known = {name.strip().lower().replace(" ", "_").replace("-", "_"): name for name in names}
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


def _jsonl_rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    for number, line in enumerate(_read_table_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
            raise DataError(f"{path}, line {number}: not valid JSON ({reason}).") from None
        if not isinstance(row, dict):
            raise DataError(f"{path}, line {number}: not an object with path and label.")
        cells = {}
        for role, name in _find_columns(path, row).items():
            if not isinstance(row[name], str | int | float | type(None)):
                raise DataError(f"{path}, line {number}: {name} must be a string or a number.")
            if row[name] is not None:
                cells[role] = str(row[name]).strip()
        yield number, cells


def _read_table_text(path: Path) -> str:
    try:
        return read_text(path)
    except DataError as error:
        if isinstance(error.__context__, UnicodeDecodeError):
            raise DataError(
                f"{path} cannot be read as UTF-8 text; save it as UTF-8 (in Excel: CSV UTF-8)."
            ) from None
        raise
