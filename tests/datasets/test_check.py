"""What `check_root` tells of a disk: found, incomplete or missing, by name and number."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ipl.datasets.benchmarks import BENCHMARKS, DOMAIN_SETS
from ipl.datasets.check import SetState, check_root
from ipl.support.errors import ConfigError, DataError
from tests.helpers.split_files import imagenet, pets, touch, write_split


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the published sizes those of the small sets here."""
    sizes = {"oxford_pets": (2, 4), "imagenet": (3, 3), "imagenet_a": (2, 3)}
    for name, (classes, tested) in sizes.items():
        changed = replace(BENCHMARKS[name], classes=classes, test_images=tested)
        monkeypatch.setitem(BENCHMARKS, name, changed)
    group = replace(DOMAIN_SETS["pacs"], classes=2, images={"photo": 2, "sketch": 3})
    monkeypatch.setitem(DOMAIN_SETS, "pacs", group)


def _one(root: Path, name: str) -> SetState:
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


def test_published_numbers_are_compared(tmp_path: Path) -> None:
    state = _one(pets(tmp_path), "oxford_pets")
    assert state.state == "incomplete"
    assert state.problems == (
        "2 classes, published are 37",
        "4 test images, published are 3,669",
    )
    assert (state.classes_published, state.test_images_published) == (37, 3_669)


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
    assert "split_zhou_OxfordPets.json is not JSON" in _one(tmp_path, "oxford_pets").problems[0]
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
    assert second.problems == ("2 test images, published are 3",)


@pytest.mark.usefixtures("small")
def test_domains(tmp_path: Path) -> None:
    touch(tmp_path / "pacs", *(f"photo/{c}/1.png" for c in "ab"))
    assert _one(tmp_path, "pacs").problems == (
        f"pacs/sketch: no folder {tmp_path / 'pacs/sketch'}; the domains there are photo",
    )
    touch(tmp_path / "pacs", *(f"sketch/{c}/{n}.png" for c in "ac" for n in (1, 2)))
    assert (
        "pacs/sketch has the class 'c', which pacs/photo has not"
        in (_one(tmp_path, "pacs").problems[0])
    )
    (tmp_path / "pacs/sketch/c").rename(tmp_path / "pacs/sketch/b")
    assert _one(tmp_path, "pacs").problems == ("4 images of sketch, published are 3",)
    (tmp_path / "pacs/sketch/b/1.png").rename(tmp_path / "elsewhere.png")
    state = _one(tmp_path, "pacs")
    assert (state.state, state.classes, state.test_images) == ("found", 2, 5)


@pytest.mark.usefixtures("small")
def test_missing_images_of_a_domain(tmp_path: Path) -> None:
    def part(domain: str, *numbers: int) -> list[list[object]]:
        return [[f"{domain}/{'ab'[n % 2]}/{n}.png", n % 2, "ab"[n % 2]] for n in numbers]

    split = {
        "photo": {"train": part("photo", 0), "test": part("photo", 1)},
        "sketch": {"train": part("sketch", 0, 1), "test": part("sketch", 2)},
    }
    write_split(tmp_path / "pacs/split_pacs.json", **split)
    touch(tmp_path / "pacs", "photo/a/0.png", "photo/b/1.png", "sketch/a/0.png")
    state = _one(tmp_path, "pacs")
    assert state.missing_images == {"train": 1, "test": 1}
    assert state.problems == (
        "1 of 2 training images are missing: sketch/b/1.png",
        "1 of 1 test images are missing: sketch/a/2.png",
    )


def test_names_and_roots_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no dataset 'dtdd'. Did you mean 'dtd'"):
        check_root(tmp_path, ["dtd", "dtdd"])
    with pytest.raises(DataError, match="No such folder: .*nowhere"):
        check_root(tmp_path / "nowhere")
