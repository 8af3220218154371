"""Readers of the published datasets by name; ImageNet and its variants are in `imagenet.py`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from ipl.datasets.benchmarks import BENCHMARKS, Benchmark
from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.imagenet import read_imagenet, read_variant
from ipl.datasets.readers import read_folder
from ipl.datasets.scenes import cached_scenes
from ipl.datasets.split_file import prompt_name, read_split, read_split_set
from ipl.support.errors import ConfigError, DataError, did_you_mean
from ipl.support.files import read_lines

AIRCRAFT_VARIANTS = "variants.txt"
AIRCRAFT_LISTS = {"train": "images_variant_train.txt", "test": "images_variant_test.txt"}


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
    check_benchmark_name(name)
    root = Path(root)
    if name == "scenes":
        return cached_scenes()
    if not os.path.isdir(root):
        raise DataError(f"No such folder: {root}; it should contain the folders of the datasets.")
    try:
        return _read(BENCHMARKS[name], root) if name in BENCHMARKS else read_domain(root, name)
    except PermissionError as error:
        raise DataError(f"No permission to read {error.filename or root}.") from None


def _read(benchmark: Benchmark, root: Path) -> Dataset:
    folder = root / benchmark.folder
    if not os.path.isdir(folder):
        raise DataError(
            f"{benchmark.name}: no folder {folder}; the data is available from {benchmark.home}."
        )
    if benchmark.layout == "aircraft":
        return read_aircraft(benchmark, folder)
    if benchmark.layout == "imagenet":
        return read_imagenet(benchmark, folder)
    if benchmark.is_variant:
        return read_variant(benchmark, folder, root)
    return read_split_set(benchmark, folder)


def check_benchmark_name(name: str) -> None:
    """Raises ConfigError unless this is the name of a dataset, or of a domain: `pacs/photo`."""
    if name in BENCHMARKS or name == "scenes":
        return
    if "/" not in name:
        hint = did_you_mean(name, [*BENCHMARKS, "scenes"])
        raise ConfigError(f"There is no dataset {name!r}; a domain is named pacs/photo.{hint}")
    if not is_domain_name(name):
        raise ConfigError(f"{name!r} is not a dataset; a domain is named like pacs/photo.")


def is_domain_name(name: str) -> bool:
    """Returns whether a domain may have this name, as in `pacs/photo`."""
    group, _, domain = name.partition("/")
    return not any(part in ("", ".", "..") or {*part} & {*"/\\"} for part in (group, domain))


# -- FGVCAircraft: variants.txt and images_variant_{train,val,test}.txt ---------------------------


def read_aircraft(benchmark: Benchmark, folder: Path) -> Dataset:
    """Returns the dataset of the published lists; classes are in the order of variants.txt."""
    variants = [line for _, line in read_lines(folder / AIRCRAFT_VARIANTS)]
    if not variants:
        raise DataError(
            f"{folder / AIRCRAFT_VARIANTS} is empty; each line must be a variant of aircraft."
        )
    label_of = {name: label for label, name in enumerate(variants)}
    image_folder, images = folder / benchmark.images, set[str]()

    def read_list(part: str) -> tuple[Item, ...]:
        file, items = folder / AIRCRAFT_LISTS[part], list[Item]()
        for number, line in read_lines(file):
            image, _, variant = line.partition(" ")
            if variant.strip() not in label_of:
                raise DataError(
                    f"{file}, line {number}: {variant!r} is not in {AIRCRAFT_VARIANTS}; each line "
                    "must be an image and a variant."
                )
            if image in images:
                raise DataError(f"{file}, line {number}: {image} is listed twice.")
            images.add(image)
            items.append(Item(image_folder / f"{image}.jpg", label_of[variant.strip()]))
        return tuple(items)

    names = tuple(prompt_name(variant) for variant in variants)
    return Dataset(benchmark.name, names, read_list("train"), read_list("test"))


# -- domain sets such as PACS: the same classes in several domains, folder/domain/class/image -----


def read_domain(root: Path, name: str) -> Dataset:
    """Returns the dataset of one domain, named like `pacs/photo`.

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
    """Returns the names of the domains in a folder, sorted."""
    return sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def check_same_classes(source: Dataset, target: Dataset) -> None:
    """Raises DataError with the first class of the target that the source does not have."""
    unknown = [name for name in target.class_names if name not in source.class_names]
    if unknown:
        raise DataError(
            f"{target.name} has the class {unknown[0]!r}, which {source.name} does not have; they "
            "are not domains of the same classes."
        )
