"""Stand-in for the readers of the benchmarks."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from ipl.datasets import Dataset, Item, clean_class_name, read_folder, scenes_dataset
from ipl.errors import DataError

SPLITS = {
    "caltech101": ("caltech-101", "101_ObjectCategories", "Caltech101"),
    "oxford_pets": ("oxford_pets", "images", "OxfordPets"),
    "oxford_flowers": ("oxford_flowers", "jpg", "OxfordFlowers"),
    "dtd": ("dtd", "images", "DescribableTextures"),
    "eurosat": ("eurosat", "2750", "EuroSAT"),
}
BENCHMARKS = SPLITS


def template_of(name: str) -> str:
    return {"dtd": "{} texture."}.get(name, "a photo of a {}.")


def teacher_template_of(name: str) -> str:
    return {"dtd": "a photo of a {}, a type of texture."}.get(name, template_of(name))


def missing_files(items: Iterable[Item]) -> list[Path]:
    return [item.path for item in items if not os.path.exists(item.path)]


def read_benchmark(name: str, root: str | Path) -> Dataset:
    root = Path(root)
    if name == "scenes":
        return scenes_dataset(root / "scenes")
    if name in SPLITS:
        folder, images, split = SPLITS[name]
        path = root / folder / f"split_zhou_{split}.json"
        if not path.is_file():
            raise DataError(f"{name}: {path} is missing.")
        parts = json.loads(path.read_text())
        names: dict[int, str] = {}
        for rows in parts.values():
            for _, label, title in rows:
                names[label] = clean_class_name(title)
        listed = {
            part: tuple(Item(root / folder / images / row[0], row[1]) for row in rows)
            for part, rows in parts.items()
        }
        ordered = tuple(names[label] for label in sorted(names))
        return Dataset(name, ordered, listed["train"], listed["test"])
    return read_folder(root / name)


def found_benchmarks(root: Path) -> tuple[str, ...]:
    return tuple(name for name, (folder, _, _) in SPLITS.items() if (root / folder).is_dir())
