"""Published datasets by name: split files, FGVCAircraft's lists, domains such as PACS."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipl.datasets.benchmark_readers import read_benchmark
from ipl.datasets.benchmarks import BENCHMARKS, Benchmark
from ipl.datasets.dataset import Item
from ipl.datasets.readers import read_dataset
from ipl.support.errors import ConfigError, DataError
from tests.helpers.split_files import pets, rows, touch, write_split

SPLIT_SETS = [b for b in BENCHMARKS.values() if b.split_file]


# -- split files and names ------------------------------------------------------------------------


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


def test_eurosat_folder_names_become_words(tmp_path: Path) -> None:
    raw = ["AnnualCrop", "Forest", "SeaLake"]
    split = {"train": rows(raw, 1), "test": rows(raw, 1, 1)}
    write_split(tmp_path / "eurosat/split_zhou_EuroSAT.json", **split)
    names = read_benchmark("eurosat", tmp_path).class_names
    assert names == ("Annual Crop Land", "Forest", "Sea or Lake")


def test_a_folder_with_a_split_file_is_read_by_that(tmp_path: Path) -> None:
    root = pets(tmp_path)
    assert read_dataset(root / "oxford_pets") == read_benchmark("oxford_pets", root)
    with pytest.raises(DataError, match="has published datasets, not classes, .* such as .*pets"):
        read_dataset(root)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("oxford_pet", "no dataset 'oxford_pet'.*Did you mean 'oxford_pets'"),
        ("qqq", "Known: imagenet, .*scenes"),
        ("pacs/", "'pacs/' is not a dataset"),
        ("pacs/..", "is not a dataset"),
        ("", "no dataset ''"),
    ],
)
def test_names_that_are_not_known(name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        read_benchmark(name, tmp_path)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"No such folder: .*nowhere; it should contain"):
        read_benchmark("dtd", tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"dtd: no folder .*dtd; .*https://www\.robots"):
        read_benchmark("dtd", tmp_path)
    (tmp_path / "dtd").mkdir()
    with pytest.raises(DataError, match=r"No such file: .*DescribableTextures\.json; .*CoOp"):
        read_benchmark("dtd", tmp_path)


# -- FGVCAircraft ---------------------------------------------------------------------------------


def _aircraft(root: Path, **files: str) -> Path:
    parts = {
        "variants": "Yak-42\nA318\nF/A-18\n",
        "images_variant_train": "01 A318\n02 F/A-18\n03 Yak-42\n",
        "images_variant_test": "04 F/A-18\n",
    }
    for name, text in {**parts, **files}.items():
        (root / "fgvc_aircraft").mkdir(exist_ok=True)
        (root / f"fgvc_aircraft/{name}.txt").write_text(text)
    return root


def test_aircraft_keeps_the_order_of_its_variants(tmp_path: Path) -> None:
    dataset = read_benchmark("fgvc_aircraft", _aircraft(tmp_path))
    assert dataset.class_names == ("Yak-42", "A318", "F/A-18")
    images = tmp_path / "fgvc_aircraft/images"
    assert dataset.train == (
        Item(images / "01.jpg", 1),
        Item(images / "02.jpg", 2),
        Item(images / "03.jpg", 0),
    )
    assert dataset.test == (Item(images / "04.jpg", 2),)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"variants": ""}, r"variants\.txt is empty"),
        ({"images_variant_train": "01 A319\n"}, r"train\.txt, line 1: 'A319' is not in variants"),
        ({"images_variant_train": "01\n"}, r"line 1: '' is not in variants"),
        ({"images_variant_test": "01 A318\n"}, r"test\.txt, line 1: 01 is listed twice"),
    ],
)
def test_broken_lists(files: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=said):
        read_benchmark("fgvc_aircraft", _aircraft(tmp_path, **files))


# -- domains --------------------------------------------------------------------------------------


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
    with pytest.raises(DataError, match="pacs/clipart: no folder .*; available domains: photo"):
        read_benchmark("pacs/clipart", tmp_path)
