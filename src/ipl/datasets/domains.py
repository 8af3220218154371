"""Domain sets such as PACS: the same classes in several domains, folder/domain/class/image."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ipl.datasets.dataset import Dataset
from ipl.datasets.readers import read_folder
from ipl.datasets.split_file import read_split
from ipl.support.errors import DataError
from ipl.support.files import is_folder


def read_domain(root: Path, name: str) -> Dataset:
    """Returns the dataset of one domain, named like `pacs/photo`.

    Where there is a file `pacs/split_pacs.json` it says what is for training and what for testing;
    else all images are for training, and what is not drawn is held out.
    """
    group, _, domain = name.partition("/")
    folder = root / group
    if not is_folder(folder):
        raise DataError(f"{name}: no folder {folder}.")
    split = folder / f"split_{group}.json"
    if split.is_file():
        return read_split(split, folder, name, domain)
    if not is_folder(folder / domain):
        known = ", ".join(domains_in(folder)) or "none"
        raise DataError(f"{name}: no folder {folder / domain}; the domains there are {known}.")
    return replace(read_folder(folder / domain), name=name)


def domains_in(folder: Path) -> list[str]:
    """Returns the domains that a folder holds, by name."""
    return sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def check_same_classes(source: Dataset, target: Dataset) -> None:
    """Raises DataError with the first class of the target that the source has not."""
    strange = [name for name in target.class_names if name not in source.class_names]
    if strange:
        raise DataError(
            f"{target.name} has the class {strange[0]!r}, which {source.name} has not: the two "
            "are no domains of the same classes."
        )
