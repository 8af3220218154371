"""Readers of the published datasets by name, in the folder layout of CoOp."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from ipl.datasets.benchmarks import BENCHMARKS, SPLITS_HOME, Benchmark
from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.images import is_image_name
from ipl.datasets.readers import read_folder
from ipl.datasets.scenes import cached_scenes
from ipl.datasets.split_files import prompt_name, read_split, read_split_set
from ipl.support.errors import ConfigError, DataError, did_you_mean
from ipl.support.files import read_lines

CLASSNAMES = "classnames.txt"  # of ImageNet: a WordNet id and a name in each line
AIRCRAFT_VARIANTS = "variants.txt"
AIRCRAFT_LISTS = ("images_variant_train.txt", "images_variant_test.txt")


def read_benchmark(name: str, root: str | Path) -> Dataset:
    """Read a published dataset in the folder layout of CoOp; no image is opened.

    Parameters
    ----------
    name : str
        The name of a dataset such as `dtd`, a domain such as `pacs/photo`, or `scenes` for the
        drawn scenes of this package, which are unpacked into the cache's folder.
    root : str or Path
        The folder that contains the folders of the datasets.

    Returns
    -------
    Dataset
        The dataset with its published training and test parts.

    Raises
    ------
    ConfigError
        If no dataset has this name.
    DataError
        If the dataset's files are missing or damaged.
    """
    if name not in (*BENCHMARKS, "scenes") and not is_domain_name(name):
        hint = did_you_mean(name, [*BENCHMARKS, "scenes"])
        raise ConfigError(f"There is no dataset {name!r}; a domain is named pacs/photo.{hint}")
    root = Path(root)
    if name == "scenes":
        return cached_scenes()
    if not os.path.isdir(root):
        raise DataError(f"No such folder: {root}; it should contain the folders of the datasets.")
    return _read(BENCHMARKS[name], root) if name in BENCHMARKS else read_domain(root, name)


def _read(benchmark: Benchmark, root: Path) -> Dataset:
    folder = root / benchmark.folder
    if not os.path.isdir(folder):
        raise DataError(
            f"{benchmark.name}: no folder {folder}; the data is available from {benchmark.home}."
        )
    if benchmark.is_variant:
        return _read_variant(benchmark, folder, root)
    readers = {"aircraft": _read_aircraft, "imagenet": _read_imagenet, "split": read_split_set}
    return readers[benchmark.layout](benchmark, folder)


# -- FGVCAircraft: variants.txt and images_variant_{train,test}.txt -------------------------------


def _read_aircraft(benchmark: Benchmark, folder: Path) -> Dataset:
    """The dataset of the published lists; classes are in the order of variants.txt."""
    variants = [line for _, line in read_lines(folder / AIRCRAFT_VARIANTS)]
    parts = list[tuple[Item, ...]]()
    for name in AIRCRAFT_LISTS:
        items = []
        for number, line in read_lines(folder / name):
            image, _, variant = line.partition(" ")
            if variant.strip() not in variants:
                raise DataError(
                    f"{folder / name}, line {number}: {variant!r} is not in {AIRCRAFT_VARIANTS}; "
                    "each line must be an image and a variant."
                )
            path = folder / benchmark.images / f"{image}.jpg"
            items.append(Item(path, variants.index(variant.strip())))
        parts.append(tuple(items))
    train, test = parts
    return Dataset(benchmark.name, tuple(map(prompt_name, variants)), train, test)


# -- ImageNet and its variants: a folder per class, named by its WordNet id -----------------------


def _read_imagenet(benchmark: Benchmark, folder: Path) -> Dataset:
    """ImageNet with its validation images as test part, in sorted order."""
    names = _read_classnames(folder / CLASSNAMES)
    train, test = folder / benchmark.images / "train", folder / benchmark.images / "val"
    wnids = _class_folders(train, names, complete=False)
    _class_folders(test, wnids)
    return Dataset(
        name=benchmark.name,
        class_names=tuple(names[wnid] for wnid in wnids),
        train=_items(train, wnids),
        test=_items(test, wnids),
        alike=True,
    )


def _read_variant(benchmark: Benchmark, folder: Path, root: Path) -> Dataset:
    """A variant of ImageNet, which has test images only.

    A variant with 1,000 classes must have all of ImageNet's; the others have their own subset.
    """
    main, own = root / BENCHMARKS["imagenet"].folder / CLASSNAMES, folder / CLASSNAMES
    names = _read_classnames(main if main.is_file() or not own.is_file() else own)
    images = folder / benchmark.images
    if benchmark.layout == "by-number":
        wnids, folders = sorted(names), [str(number) for number in range(len(names))]
        _class_folders(images, folders)
    else:
        complete = benchmark.classes == BENCHMARKS["imagenet"].classes
        wnids = folders = _class_folders(images, names, complete)
    return Dataset(
        name=benchmark.name,
        class_names=tuple(names[wnid] for wnid in wnids),
        train=(),
        test=_items(images, folders),
        alike=True,
    )


def _read_classnames(file: Path) -> dict[str, str]:
    """Class names by WordNet id from a file of lines such as `n01440764 tench`."""
    names: dict[str, str] = {}
    for number, line in read_lines(file, f"it is linked from {SPLITS_HOME}"):
        wnid, _, name = line.partition(" ")
        if not name.strip() or wnid in names:
            raise DataError(
                f"{file}, line {number}: {line!r} has no name after the WordNet id, or is listed "
                "twice."
            )
        names[wnid] = prompt_name(name)
    if not names:
        raise DataError(f"{file} is empty; each line must be a WordNet id and a name.")
    return names


def _class_folders(folder: Path, classes: Collection[str], complete: bool = True) -> list[str]:
    """The sorted names of the folders of classes, which must be known and may have to be all."""
    found = sorted(p.name for p in folder.glob("[!.]*") if p.is_dir())
    if not found:
        raise DataError(
            f"{folder} has no class folders such as n01440764; sort its images into them."
        )
    if unknown := sorted({*found} - {*classes}):
        raise DataError(f"{folder / unknown[0]} is not a class of {CLASSNAMES}.")
    if complete and (missing := sorted({*classes} - {*found})):
        raise DataError(f"{folder} has no folder {missing[0]}, a class of {CLASSNAMES}.")
    return found


def _items(folder: Path, folders: Sequence[str]) -> tuple[Item, ...]:
    # Sorted, so that the same shots are drawn on every machine.
    return tuple(
        Item(folder / name / file, label)
        for label, name in enumerate(folders)
        for file in sorted(os.listdir(folder / name))
        if not file.startswith(".") and is_image_name(Path(file))
    )


# -- domain sets such as PACS: the same classes in several domains, folder/domain/class/image -----


def is_domain_name(name: str) -> bool:
    """Whether a domain may have this name, as in `pacs/photo`."""
    group, _, domain = name.partition("/")
    return not any(part in ("", ".", "..") or {*part} & {*"/\\"} for part in (group, domain))


def read_domain(root: Path, name: str) -> Dataset:
    """The dataset of one domain, named like `pacs/photo`.

    If there is a file `pacs/split_pacs.json`, it says which images are for training and which for
    testing; otherwise all images are for training, and those that are not drawn are held out.
    """
    group, _, domain = name.partition("/")
    folder = root / group
    if not os.path.isdir(folder):
        raise DataError(f"{name}: no folder {folder}.")
    split = folder / f"split_{group}.json"
    if split.is_file():
        return read_split(split, folder, name, domain)
    if not os.path.isdir(folder / domain):
        domains = ", ".join(list_domains(folder)) or "none"
        raise DataError(f"{name}: no folder {folder / domain}; available domains: {domains}.")
    return replace(read_folder(folder / domain), name=name)


def list_domains(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def check_same_classes(source: Dataset, target: Dataset) -> None:
    unknown = [name for name in target.class_names if name not in source.class_names]
    if unknown:
        raise DataError(
            f"{target.name} has the class {unknown[0]!r}, which {source.name} does not have; they "
            "are not domains of the same classes."
        )
