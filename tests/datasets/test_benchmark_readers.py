"""Published datasets: the table, split files, ImageNet, aircraft, domains; what is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ipl.datasets.benchmark_readers import read_benchmark
from ipl.datasets.benchmarks import (
    BENCHMARKS,
    DOMAINS,
    Benchmark,
)
from ipl.datasets.completeness import DatasetState, check_files, check_root, missing_files
from ipl.datasets.dataset import Item
from ipl.datasets.readers import read_dataset
from ipl.datasets.split_files import read_split
from ipl.support.errors import ConfigError, DataError
from tests.helpers.split_files import imagenet, pets, rows, touch, write_split

V2 = "imagenetv2/imagenetv2-matched-frequency-format-val"


# -- split files ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "benchmark", [b for b in BENCHMARKS.values() if b.split_file], ids=lambda b: b.name
)
def test_every_split_file_is_read_from_its_place(benchmark: Benchmark, tmp_path: Path) -> None:
    folder = tmp_path / benchmark.folder
    train, test = rows(["a_b", "c"], 2), rows(["a_b", "c"], 1, 2)
    write_split(folder / benchmark.split_file, train=train, val="not looked at", test=test)
    dataset = read_benchmark(benchmark.name, tmp_path)
    assert dataset.name == benchmark.name
    assert dataset.class_names == ("a b", "c")
    images = folder / benchmark.images
    assert dataset.train == tuple(Item(images / path, label) for path, label, _ in train)
    assert dataset.test == (Item(images / "a_b/002.jpg", 0), Item(images / "c/002.jpg", 1))


def test_class_names_become_words(tmp_path: Path) -> None:
    raw = ["AnnualCrop", "crème_brûlée", "SeaLake"]
    split = {"train": rows(raw, 1), "test": rows(raw, 1, 1)}
    write_split(tmp_path / "eurosat/split_zhou_EuroSAT.json", **split)
    dataset = read_benchmark("eurosat", tmp_path)
    assert dataset.class_names == ("Annual Crop Land", "creme brulee", "Sea or Lake")
    assert dataset.train[1].path.parent.name == "crème_brûlée"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"train": [\n["a.jpg", 0, "a"],', "line 2"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "'train'"),
        ('{"train": [["a.jpg", 0, "a"]]}', "'test'"),
        ('{"train": []}', "'train'"),
        ('{"train": [["a.jpg", 0]]}', r"train\[0\]"),
    ],
)
def test_split_files_of_the_wrong_shape(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(DataError, match=said):
        read_split(tmp_path / "s.json", tmp_path, "some")


@pytest.mark.parametrize(
    ("train", "said"),
    [
        ([["a", 1, "a"], ["b", 2, "b"]], "0 to 1"),
        ([["a", 0, "a"], ["b", 0, "b"]], "label 0"),
        ([["a", 0, "a"], ["t", 1, "b"]], "t twice"),
        ([["a", 0, "a"], ["b", 1, "A"]], "read the same"),
    ],
)
def test_labels_and_paths_that_cannot_be(train: Any, said: str, tmp_path: Path) -> None:
    test = [["t", train[-1][1], train[-1][2]]]
    with pytest.raises(DataError, match=said):
        read_split(write_split(tmp_path / "s.json", train=train, test=test), tmp_path, "some")


def test_a_folder_with_a_split_file_is_read_by_that(tmp_path: Path) -> None:
    root = pets(tmp_path)
    assert read_dataset(root / "oxford_pets") == read_benchmark("oxford_pets", root)
    with pytest.raises(DataError, match="oxford_pets"):  # the root has no classes
        read_dataset(root)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    for name in ("oxford_pet", "pacs/..", ""):
        with pytest.raises(ConfigError, match=f"'{name}'"):
            read_benchmark(name, tmp_path)
    with pytest.raises(DataError, match="nowhere"):
        read_benchmark("dtd", tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"https://www\.robots"):
        read_benchmark("dtd", tmp_path)
    (tmp_path / "dtd").mkdir()
    with pytest.raises(DataError, match=r"DescribableTextures\.json; .*CoOp"):
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
    assert dataset.train == tuple(Item(images / f"0{n}.jpg", n % 3) for n in (1, 2, 3))
    assert dataset.test == (Item(images / "04.jpg", 2),)
    with pytest.raises(DataError, match="train.txt, line 1: 'A319'"):
        read_benchmark("fgvc_aircraft", _aircraft(tmp_path, images_variant_train="01 A319\n"))


# -- ImageNet and its variants --------------------------------------------------------------------


def test_imagenet_is_read_in_sorted_order(tmp_path: Path) -> None:
    root = imagenet(tmp_path)
    touch(root / "imagenet/images/train", "n01/.hidden.JPEG", "n01/notes.txt", "README.txt")
    dataset = read_benchmark("imagenet", root)
    images = root / "imagenet/images"
    assert dataset.class_names == ("tench", "missile", "missile")  # as in the published list
    assert dataset.train == tuple(
        Item(images / f"train/{wnid}/{file}.JPEG", label)
        for label, wnid in enumerate(["n01", "n02", "n03"])
        for file in "ab"
    )
    assert [(Path(str(i.path)).name, i.label) for i in dataset.test] == [
        ("c.JPEG", n) for n in range(3)
    ]
    (images / "val/n02").rename(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="n02"):
        read_benchmark("imagenet", root)


@pytest.mark.parametrize("text", ["", "n01\n", "n01 a\n\nn01 b\n", "n01 a\nn02 b\n"])
def test_broken_class_names(text: str, tmp_path: Path) -> None:
    root = imagenet(tmp_path)
    (root / "imagenet/classnames.txt").write_text(text)
    with pytest.raises(DataError, match=r"classnames\.txt"):
        read_benchmark("imagenet", root)


def test_v2_has_numbered_folders_in_the_order_of_imagenet(tmp_path: Path) -> None:
    wnids = [f"n{number:02d}" for number in range(12)]
    touch(tmp_path / "imagenet", "classnames.txt")
    (tmp_path / "imagenet/classnames.txt").write_text("".join(f"{w} c{w}\n" for w in wnids[::-1]))
    touch(tmp_path / V2, *(f"{n}/x.jpeg" for n in range(12)))
    dataset = read_benchmark("imagenetv2", tmp_path)
    assert dataset.train == ()
    assert dataset.test == tuple(Item(tmp_path / V2 / f"{n}/x.jpeg", n) for n in range(12))
    assert dataset.class_names[11] == "cn11"
    touch(tmp_path / V2, "12/x.jpeg")
    with pytest.raises(DataError, match="format-val/12"):
        read_benchmark("imagenetv2", tmp_path)


def test_sketch_has_the_classes_of_imagenet(tmp_path: Path) -> None:
    root = imagenet(tmp_path)
    touch(root / "imagenet-sketch/images", "n01/x.JPEG", "n03/x.JPEG")
    with pytest.raises(DataError, match="n02"):
        read_benchmark("imagenet_sketch", root)
    touch(root / "imagenet-sketch/images", "n02/x.JPEG")
    assert len(read_benchmark("imagenet_sketch", root).test) == 3


@pytest.mark.parametrize("has_imagenet", [True, False])
def test_others_are_over_their_own_classes(has_imagenet: bool, tmp_path: Path) -> None:
    folder = touch(
        tmp_path / "imagenet-rendition", "imagenet-r/n03/b.jpg", "imagenet-r/n03/a.jpg",
        "imagenet-r/n01/a.jpg", "imagenet-r/README.txt",
    )  # fmt: skip
    with pytest.raises(DataError, match=r"classnames\.txt"):
        read_benchmark("imagenet_r", tmp_path)
    if has_imagenet:
        imagenet(tmp_path)
    else:
        (folder / "classnames.txt").write_text("n01 tench\nn02 x\nn03 missile\n")
    dataset = read_benchmark("imagenet_r", tmp_path)
    assert dataset.class_names == ("tench", "missile")
    names = [(str(i.path.relative_to(folder)), i.label) for i in dataset.test]  # type: ignore[union-attr]
    files = ("n01/a.jpg", "n03/a.jpg", "n03/b.jpg")
    assert names == [(f"imagenet-r/{name}", label) for name, label in zip(files, (0, 1, 1))]  # noqa: B905


# -- domains --------------------------------------------------------------------------------------


def test_domains_by_folders_or_a_split_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="pacs"):
        read_benchmark("pacs/photo", tmp_path)
    names = [
        f"{d}/{c}/{n}.png" for d in ("photo", "sketch") for c in ("big_dog", "cat") for n in "21"
    ]
    root = touch(tmp_path / "pacs", *names)
    dataset = read_benchmark("pacs/photo", tmp_path)
    assert (dataset.name, dataset.class_names) == ("pacs/photo", ("big dog", "cat"))
    assert dataset.train[:2] == tuple(Item(root / f"photo/big_dog/{n}.png", 0) for n in "12")
    assert (len(dataset.train), dataset.test) == (4, ())
    with pytest.raises(DataError, match="photo, sketch"):
        read_benchmark("pacs/clipart", tmp_path)
    parts = {"train": rows(["photo/cat", "photo/dog"], 2), "test": rows(["photo/cat"], 1, 5)}
    write_split(root / "split_pacs.json", photo=parts)
    dataset = read_benchmark("pacs/photo", tmp_path)
    assert dataset.test == (Item(root / "photo/cat/005.jpg", 0),)
    with pytest.raises(DataError, match="'sketch'"):
        read_benchmark("pacs/sketch", tmp_path)


# -- what is missing ------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the published sizes those of the small sets here."""
    sizes = {"oxford_pets": (2, 4), "imagenet": (3, 3), "imagenet_a": (2, 3)}
    for name, (classes, tested) in sizes.items():
        changed = replace(BENCHMARKS[name], classes=classes, test_images=tested)
        monkeypatch.setitem(BENCHMARKS, name, changed)
    for name, images in (("pacs/photo", 2), ("pacs/sketch", 3)):
        changed = replace(DOMAINS[name], classes=2, test_images=images)
        monkeypatch.setitem(DOMAINS, name, changed)


def _state(root: Path, name: str) -> DatasetState:
    (state,) = check_root(root, [name])
    return state


@pytest.mark.usefixtures("small")
def test_a_set_is_complete_or_its_missing_images_are_named(tmp_path: Path) -> None:
    state = _state(pets(tmp_path, train=4), "oxford_pets")
    assert (state.state, state.problems) == ("found", [])
    dataset = read_benchmark("oxford_pets", tmp_path)
    images = tmp_path / "oxford_pets/images"
    for name in ("Tabby_Cat/001.jpg", "Tabby_Cat/005.jpg"):
        (images / name).unlink()
    (images / "pug").rename(tmp_path / "elsewhere")
    state = _state(tmp_path, "oxford_pets")
    assert state.state == "incomplete"
    (problem,) = state.problems
    assert "8 of 12" in problem
    assert "images/Tabby_Cat/001.jpg" in problem
    assert read_benchmark("oxford_pets", tmp_path) == dataset  # reading needs no image
    assert len(missing_files(dataset.train)) == 5
    with pytest.raises(DataError, match=r"5 of 8.*Tabby_Cat/001\.jpg"):
        check_files("oxford_pets", dataset.train)
    (tmp_path / "oxford_pets/split_zhou_OxfordPets.json").write_text("no JSON")
    assert "not valid JSON" in _state(tmp_path, "oxford_pets").problems[0]


@pytest.mark.usefixtures("small")
def test_the_state_of_domains(tmp_path: Path) -> None:
    touch(tmp_path / "pacs", *(f"photo/{c}/1.png" for c in "ab"))
    assert _state(tmp_path, "pacs/photo").state == "found"
    (problem,) = _state(tmp_path, "pacs/sketch").problems
    assert "pacs/sketch" in problem
    touch(tmp_path / "pacs", *(f"sketch/{c}/{n}.png" for c in "ab" for n in (1, 2)))
    assert _state(tmp_path, "pacs/sketch").problems == ["4 test images instead of 3"]
