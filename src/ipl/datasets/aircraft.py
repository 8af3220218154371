"""FGVCAircraft as published: variants.txt and images_variant_{train,val,test}.txt."""

from __future__ import annotations

from pathlib import Path

from ipl.datasets.benchmarks import Benchmark
from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.split_file import prompt_name
from ipl.datasets.text_files import read_lines
from ipl.support.errors import DataError

VARIANTS = "variants.txt"
LISTS = {"train": "images_variant_train.txt", "test": "images_variant_test.txt"}


def read_aircraft(benchmark: Benchmark, folder: Path) -> Dataset:
    """Returns the dataset of the published lists; classes are in the order of variants.txt."""
    variants = [line for _, line in read_lines(folder / VARIANTS)]
    if not variants:
        raise DataError(f"{folder / VARIANTS} is empty; it names a variant of aircraft per line.")
    label_of = {name: label for label, name in enumerate(variants)}
    images, seen = folder / benchmark.images, set[str]()

    def items(part: str) -> tuple[Item, ...]:
        file, found = folder / LISTS[part], list[Item]()
        for number, line in read_lines(file):
            image, _, variant = line.partition(" ")
            if variant.strip() not in label_of:
                raise DataError(
                    f"{file}, line {number}: {variant!r} is not in {VARIANTS}; each line is an "
                    "image and a variant."
                )
            if image in seen:
                raise DataError(f"{file}, line {number}: {image} stands in the lists twice.")
            seen.add(image)
            found.append(Item(images / f"{image}.jpg", label_of[variant.strip()]))
        return tuple(found)

    names = tuple(prompt_name(variant) for variant in variants)
    return Dataset(benchmark.name, names, items("train"), items("test"))
