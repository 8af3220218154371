"""Domain sets such as PACS, with and without a split file."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipl.datasets.benchmark_readers import read_benchmark
from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.domains import check_same_classes
from ipl.support.errors import DataError
from tests.helpers.split_files import rows, touch, write_split

FILES = [
    f"{d}/{c}/{n}.png" for d in ("photo", "sketch") for c in ("big_dog", "cat") for n in (2, 1)
]


def test_folders_of_domains(tmp_path: Path) -> None:
    root = touch(tmp_path / "pacs", *FILES)
    dataset = read_benchmark("pacs/photo", tmp_path)
    assert dataset.name == "pacs/photo"
    assert dataset.class_names == ("big dog", "cat")
    assert dataset.train[:2] == (
        Item(root / "photo/big_dog/1.png", 0),
        Item(root / "photo/big_dog/2.png", 0),
    )
    assert len(dataset.train) == 4
    assert dataset.test == ()


def test_a_split_file_goes_before_folders(tmp_path: Path) -> None:
    root = touch(tmp_path / "pacs", *FILES)
    parts = {"train": rows(["photo/cat", "photo/dog"], 2), "test": rows(["photo/cat"], 1, 5)}
    write_split(root / "split_pacs.json", photo=parts)
    dataset = read_benchmark("pacs/photo", tmp_path)
    assert dataset.train[0] == Item(root / "photo/cat/000.jpg", 0)
    assert dataset.test == (Item(root / "photo/cat/005.jpg", 0),)
    with pytest.raises(DataError, match=r"split_pacs\.json has no domain 'sketch'; it has photo"):
        read_benchmark("pacs/sketch", tmp_path)


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"pacs/photo: no folder .*pacs\."):
        read_benchmark("pacs/photo", tmp_path)
    touch(tmp_path / "pacs", *FILES)
    with pytest.raises(DataError, match="pacs/clipart: no folder .*; the domains there are photo"):
        read_benchmark("pacs/clipart", tmp_path)


def test_any_set_of_domains_is_read(tmp_path: Path) -> None:
    touch(tmp_path / "office", *FILES)
    assert read_benchmark("office/sketch", tmp_path).class_names == ("big dog", "cat")


def test_domains_of_other_classes_are_refused() -> None:
    def of(name: str, *classes: str) -> Dataset:
        return Dataset(name, classes, (Item(Path("1.png"), 0),))

    photo = of("pacs/photo", "cat", "dog", "horse")
    check_same_classes(photo, of("pacs/sketch", "cat", "dog", "horse"))
    check_same_classes(photo, of("imagenet_a", "dog", "cat"))  # over its own classes
    with pytest.raises(DataError, match="pacs/sketch has the class 'house', which pacs/photo has"):
        check_same_classes(photo, of("pacs/sketch", "cat", "house"))
