"""The published datasets: their folders, sizes and hand-written prompts, read from a table."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

PHOTO = "a photo of a {}."
# Where CoOp links its split files and ImageNet's classnames.txt.
SPLITS_HOME = "https://github.com/KaiyangZhou/CoOp/blob/main/DATASETS.md"


@dataclass(frozen=True)
class Benchmark:
    """One published dataset in CoOp's folder layout, a row of `published.csv`."""

    name: str
    title: str
    folder: str  # below the root of all datasets
    images: str  # below `folder`; "" is the folder itself
    classes: int
    test_images: int  # of a domain: all images
    layout: str  # split, aircraft, imagenet, by-wnid, by-number or domain
    split_file: str  # below `folder`; "" if there is none
    template: str  # the hand-written prompt
    teacher_template: str  # the prompt that KgCoOp is kept close to
    home: str  # where the images can be downloaded

    @property
    def has_lists(self) -> bool:
        """Whether files may list the images; otherwise class folders contain them."""
        return self.layout in ("split", "aircraft", "domain")

    @property
    def is_variant(self) -> bool:
        """Whether this is a variant of ImageNet, with test images only."""
        return self.layout in ("by-wnid", "by-number")


def _read_table() -> dict[str, Benchmark]:
    text = (files("ipl.datasets") / "published.csv").read_text(encoding="utf-8")
    benchmarks = {}
    for cells in csv.DictReader(text.splitlines()):
        row: dict[str, Any] = dict(cells)
        sizes = {name: int(row[name]) for name in ("classes", "test_images")}
        teacher = row["teacher_template"] or row["template"]
        benchmarks[row["name"]] = Benchmark(**{**row, **sizes, "teacher_template": teacher})
    return benchmarks


_PUBLISHED = _read_table()
BENCHMARKS = {name: one for name, one in _PUBLISHED.items() if one.layout != "domain"}
DOMAINS = {name: one for name, one in _PUBLISHED.items() if one.layout == "domain"}


def template_of(name: str) -> str:
    """A dataset's hand-written prompt with {} for the class, "a photo of a {}." if none."""
    return BENCHMARKS[name].template if name in BENCHMARKS else PHOTO


def teacher_template_of(name: str) -> str:
    """The hand-written prompt that a learner is kept close to on this dataset."""
    return BENCHMARKS[name].teacher_template if name in BENCHMARKS else PHOTO
