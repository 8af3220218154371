"""What `check_root` tells of a disk: found, incomplete or missing, by name and number."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ipl.datasets.benchmark_readers import read_benchmark
from ipl.datasets.benchmarks import BENCHMARKS, DOMAIN_SETS
from ipl.datasets.check import DatasetState, check_files, check_root, missing_files
from ipl.support.errors import ConfigError, DataError
from tests.helpers.split_files import imagenet, pets, touch


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the published sizes those of the small sets here."""
    sizes = {"oxford_pets": (2, 4), "imagenet": (3, 3), "imagenet_a": (2, 3)}
    for name, (classes, tested) in sizes.items():
        changed = replace(BENCHMARKS[name], classes=classes, test_images=tested)
        monkeypatch.setitem(BENCHMARKS, name, changed)
    group = replace(DOMAIN_SETS["pacs"], classes=2, images={"photo": 2, "sketch": 3})
    monkeypatch.setitem(DOMAIN_SETS, "pacs", group)


def _one(root: Path, name: str) -> DatasetState:
    (state,) = check_root(root, [name])
    return state


def test_an_empty_disk_has_nothing(tmp_path: Path) -> None:
    states = check_root(tmp_path)
    assert [s.name for s in states] == [*BENCHMARKS, "pacs"]
    assert {s.state for s in states} == {"missing"}
    assert states[1].folder == str(tmp_path / "caltech-101")
    assert states[1].problems == ("no such folder",)
    assert states[1].home == BENCHMARKS["caltech101"].home
    assert states[1].classes is states[1].test_images is None


@pytest.mark.usefixtures("small")
def test_a_complete_set_is_found(tmp_path: Path) -> None:
    state = _one(pets(tmp_path), "oxford_pets")
    assert state.state == "found"
    assert state.problems == ()
    assert (state.classes, state.train_images, state.test_images) == (2, 6, 4)
    assert state.missing_images == {"train": 0, "test": 0}


@pytest.mark.usefixtures("small")
def test_missing_images_are_counted_and_the_first_named(tmp_path: Path) -> None:
    images = pets(tmp_path, train=4) / "oxford_pets/images"
    for name in ("Tabby_Cat/001.jpg", "Tabby_Cat/005.jpg"):
        (images / name).rename(tmp_path / name.replace("/", "-"))
    (images / "pug").rename(tmp_path / "elsewhere")
    state = _one(tmp_path, "oxford_pets")
    assert state.state == "incomplete"
    assert state.missing_images == {"train": 5, "test": 3}
    assert state.problems == (
        "5 of 8 training images are missing: images/Tabby_Cat/001.jpg, images/pug/000.jpg, "
        "images/pug/001.jpg, ...",
        "3 of 4 test images are missing: images/Tabby_Cat/005.jpg, images/pug/004.jpg, "
        "images/pug/005.jpg",
    )


@pytest.mark.usefixtures("small")
def test_a_file_that_is_missing_or_broken_is_named(tmp_path: Path) -> None:
    split = pets(tmp_path) / "oxford_pets/split_zhou_OxfordPets.json"
    split.write_text("no JSON")
    assert (
        "split_zhou_OxfordPets.json is not valid JSON" in _one(tmp_path, "oxford_pets").problems[0]
    )
    split.rename(tmp_path / "elsewhere")
    state = _one(tmp_path, "oxford_pets")
    assert state.state == "incomplete"
    assert state.problems[0].startswith(f"No such file: {split}; it is linked from https://")
    assert not state.problems[0].endswith(".")


@pytest.mark.usefixtures("small")
def test_imagenet_and_a_variant(tmp_path: Path) -> None:
    root = imagenet(tmp_path)
    touch(root / "imagenet-adversarial/imagenet-a", "n01/a.jpg", "n03/a.jpg")
    first, second = check_root(root, ["imagenet", "imagenet_a"])
    assert first.state == "found"
    assert second.problems == ("2 test images instead of 3",)


@pytest.mark.usefixtures("small")
def test_domains(tmp_path: Path) -> None:
    touch(tmp_path / "pacs", *(f"photo/{c}/1.png" for c in "ab"))
    assert _one(tmp_path, "pacs").problems == (
        f"pacs/sketch: no folder {tmp_path / 'pacs/sketch'}; available domains: photo",
    )
    touch(tmp_path / "pacs", *(f"sketch/{c}/{n}.png" for c in "ac" for n in (1, 2)))
    assert (
        "pacs/sketch has the class 'c', which pacs/photo does not have"
        in (_one(tmp_path, "pacs").problems[0])
    )
    (tmp_path / "pacs/sketch/c").rename(tmp_path / "pacs/sketch/b")
    assert _one(tmp_path, "pacs").problems == ("4 images of sketch instead of 3",)
    (tmp_path / "pacs/sketch/b/1.png").rename(tmp_path / "elsewhere.png")
    state = _one(tmp_path, "pacs")
    assert (state.state, state.classes, state.test_images) == ("found", 2, 5)


def test_names_and_roots_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no dataset 'dtdd'. Did you mean 'dtd'"):
        check_root(tmp_path, ["dtd", "dtdd"])
    with pytest.raises(DataError, match="No such folder: .*nowhere"):
        check_root(tmp_path / "nowhere")


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
