"""The table of published sets: sizes, templates and folders as published."""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path

import pytest

from ipl.datasets.benchmark_readers import read_benchmark
from ipl.datasets.benchmarks import (
    BENCHMARKS,
    DOMAIN_SETS,
    Benchmark,
    teacher_template_of,
    template_of,
)
from ipl.datasets.dataset import Item
from ipl.datasets.fewshot import sample_shots
from ipl.datasets.presence import check_files, missing_files
from ipl.datasets.readers import read_dataset
from ipl.datasets.scenes import scenes_dataset
from ipl.support.errors import ConfigError, DataError
from tests.helpers.split_files import pets, rows, write_split

TEST_SIZES = {
    "imagenet": 50_000,
    "caltech101": 2_465,
    "oxford_pets": 3_669,
    "stanford_cars": 8_041,
    "oxford_flowers": 2_463,
    "food101": 30_300,
    "fgvc_aircraft": 3_333,
    "sun397": 19_850,
    "dtd": 1_692,
    "eurosat": 8_100,
    "ucf101": 3_783,
    "imagenetv2": 10_000,
    "imagenet_sketch": 50_889,
    "imagenet_a": 7_500,
    "imagenet_r": 30_000,
}


def test_all_fifteen_with_the_published_test_sizes() -> None:
    assert {name: b.test_images for name, b in BENCHMARKS.items()} == TEST_SIZES
    assert all(name == b.name and b.home.startswith("https://") for name, b in BENCHMARKS.items())
    assert [name for name, b in BENCHMARKS.items() if b.is_variant] == list(TEST_SIZES)[11:]


def test_class_counts() -> None:
    counts = [b.classes for b in BENCHMARKS.values()]
    assert counts == [1000, 100, 37, 196, 102, 101, 100, 397, 47, 10, 101, 1000, 1000, 200, 200]
    assert DOMAIN_SETS["pacs"].classes == 7
    assert sum(DOMAIN_SETS["pacs"].images.values()) == 9_991


def test_templates() -> None:
    own = {name: b.template for name, b in BENCHMARKS.items() if b.template != "a photo of a {}."}
    assert own == {
        "oxford_pets": "a photo of a {}, a type of pet.",
        "oxford_flowers": "a photo of a {}, a type of flower.",
        "fgvc_aircraft": "a photo of a {}, a type of aircraft.",
        "dtd": "{} texture.",
        "eurosat": "a centered satellite photo of {}.",
        "food101": "a photo of {}, a type of food.",
        "ucf101": "a photo of a person doing {}.",
    }
    assert template_of("pacs/photo") == template_of("no such set") == "a photo of a {}."
    other = [name for name in BENCHMARKS if teacher_template_of(name) != template_of(name)]
    assert other == ["dtd"]
    assert teacher_template_of("dtd") == "a photo of a {}, a type of texture."
    assert teacher_template_of("pacs/photo") == "a photo of a {}."


SPLIT_SETS = [b for b in BENCHMARKS.values() if b.split_file]


@pytest.mark.parametrize("benchmark", SPLIT_SETS, ids=lambda b: b.name)
def test_every_split_file_is_read_from_its_place(benchmark: Benchmark, tmp_path: Path) -> None:
    folder = tmp_path / benchmark.folder
    train, test = rows(["a_b", "c"], 2), rows(["a_b", "c"], 1, 2)
    write_split(folder / str(benchmark.split_file), train=train, val="not looked at", test=test)
    dataset = read_benchmark(benchmark.name, tmp_path)
    assert dataset.name == benchmark.name
    assert dataset.class_names == ("a b", "c")
    images = folder / benchmark.images
    assert dataset.train == tuple(Item(images / path, label) for path, label, _ in train)
    assert dataset.test == (Item(images / "a_b/002.jpg", 0), Item(images / "c/002.jpg", 1))


def test_where_the_images_are() -> None:
    assert {b.name: f"{b.folder}/{b.images}".rstrip("/") for b in BENCHMARKS.values()} == {
        "imagenet": "imagenet/images",
        "caltech101": "caltech-101/101_ObjectCategories",
        "oxford_pets": "oxford_pets/images",
        "stanford_cars": "stanford_cars",
        "oxford_flowers": "oxford_flowers/jpg",
        "food101": "food-101/images",
        "fgvc_aircraft": "fgvc_aircraft/images",
        "sun397": "sun397/SUN397",
        "dtd": "dtd/images",
        "eurosat": "eurosat/2750",
        "ucf101": "ucf101/UCF-101-midframes",
        "imagenetv2": "imagenetv2/imagenetv2-matched-frequency-format-val",
        "imagenet_sketch": "imagenet-sketch/images",
        "imagenet_a": "imagenet-adversarial/imagenet-a",
        "imagenet_r": "imagenet-rendition/imagenet-r",
    }


def test_eurosat_folder_names_become_words(tmp_path: Path) -> None:
    raw = ["AnnualCrop", "Forest", "SeaLake"]
    split = {"train": rows(raw, 1), "test": rows(raw, 1, 1)}
    write_split(tmp_path / "eurosat/split_zhou_EuroSAT.json", **split)
    names = read_benchmark("eurosat", tmp_path).class_names
    assert names == ("Annual Crop Land", "Forest", "Sea or Lake")


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_shots_are_those_of_the_published_algorithm(seed: int, tmp_path: Path) -> None:
    # Labels appear in another order than they count, one class is short of images.
    train = rows(["a", "b", "c"], 30)
    train = [r for r in train if r[1] == 2] + [r for r in train if r[1] == 0][:9] + train[30:60]
    split = {"train": train, "test": rows(["a", "b", "c"], 1, 40)}
    file = write_split(tmp_path / "dtd/split_zhou_DescribableTextures.json", **split)
    published, by_label = [], dict[int, list[str]]()
    for path, label, _ in json.loads(file.read_text())["train"]:
        by_label.setdefault(label, []).append(path)
    random.seed(seed)
    for label, paths in by_label.items():
        published += [(p, label) for p in (random.sample(paths, 16) if len(paths) >= 16 else paths)]
    drawn = sample_shots(read_benchmark("dtd", tmp_path).train, 16, seed)
    images = tmp_path / "dtd/images"
    assert [(i.path.relative_to(images).as_posix(), i.label) for i in drawn] == published
    assert len(drawn) == 16 + 9 + 16


# -- what is there, and what is not ---------------------------------------------------------------


def test_reading_needs_no_image_and_missing_ones_are_named(tmp_path: Path) -> None:
    dataset = read_benchmark("oxford_pets", pets(tmp_path))
    assert missing_files(dataset.train) == []
    check_files("oxford_pets", dataset.train)
    gone = [dataset.train[1].path, dataset.train[4].path]
    for path in gone:
        path.rename(path.with_name("elsewhere.jpg"))
    assert read_benchmark("oxford_pets", tmp_path) == dataset
    assert missing_files(dataset.train) == gone
    message = f"oxford_pets: 2 of 6 images are missing, first: {gone[0]}"
    with pytest.raises(DataError, match=message):
        check_files("oxford_pets", dataset.train)


def test_a_folder_with_a_split_file_is_read_by_that(tmp_path: Path) -> None:
    root = pets(tmp_path)
    assert read_dataset(root / "oxford_pets") == read_benchmark("oxford_pets", root)


def test_a_folder_that_is_missing_lacks_all_its_images(tmp_path: Path) -> None:
    items = [Item(tmp_path / "no/1.jpg", 0), Item(tmp_path / "no/2.jpg", 1)]
    assert missing_files(items) == [item.path for item in items]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("oxford_pet", "no dataset 'oxford_pet'.*Did you mean 'oxford_pets'"),
        ("qqq", "Known: imagenet, .*scenes"),
        ("pacs/", "'pacs/' is no dataset"),
        ("../pacs", "is no dataset"),
        ("pacs/..", "is no dataset"),
        ("pacs/photo/dog", "is no dataset"),
        ("", "no dataset ''"),
    ],
)
def test_names_that_are_not_known(name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        read_benchmark(name, tmp_path)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"No such folder: .*nowhere; it should hold the folders"):
        read_benchmark("dtd", tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"dtd: no folder .*dtd; .*https://www\.robots"):
        read_benchmark("dtd", tmp_path)
    (tmp_path / "dtd").mkdir()
    with pytest.raises(DataError, match=r"No such file: .*DescribableTextures\.json; .*CoOp"):
        read_benchmark("dtd", tmp_path)


def test_the_drawn_scenes_are_drawn_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = partial(scenes_dataset, train=1, test=1)
    monkeypatch.setattr("ipl.datasets.scenes.scenes_dataset", few)
    first = read_benchmark("scenes", tmp_path)
    assert first.name == "scenes"
    assert len(first.train) == len(first.test) == 20
    stamps = [i.path.stat().st_mtime_ns for i in first.train]
    first.test[3].path.unlink()
    assert read_benchmark("scenes", tmp_path) == first
    assert [i.path.stat().st_mtime_ns for i in first.train] == stamps
    assert missing_files(first.test) == []
