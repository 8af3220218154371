"""Copies of images, classes that are not tested, odd names: what is found, and what is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from ipl.datasets import inspection
from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.images import ImageSource
from ipl.datasets.inspection import find_unreadable, inspect_dataset
from ipl.datasets.readers import read_dataset


def _dataset(root: Path, train: dict[str, bytes], test: dict[str, bytes] | None = None) -> Dataset:
    """Returns a dataset of files with these contents; the first letter of a name is its class."""
    parts = []
    for files in (train, test or {}):
        for name, content in files.items():
            (root / name).write_bytes(content)
        parts.append(tuple(Item(root / name, "ab".index(name[0])) for name in files))
    return Dataset("letters", ("a", "b"), *parts)


def _kinds(dataset: Dataset) -> list[str]:
    return [finding.kind for finding in dataset.findings]


def test_nothing_unusual(tmp_path: Path) -> None:
    same_start = b"x" * inspection.HEAD
    train = {"a1": b"1", "a2": b"2", "b1": same_start + b"1", "b2": same_start + b"2"}
    assert inspect_dataset(_dataset(tmp_path, train), shots=1).findings == ()


def test_copies_in_two_classes(tmp_path: Path) -> None:
    train = {"a1": b"same", "a2": b"x", "b1": b"same", "b2": b"y"}
    (finding,) = inspect_dataset(_dataset(tmp_path, train)).findings
    assert finding.kind == "copy in two classes"
    assert finding.names == (f"{tmp_path / 'a1'} = {tmp_path / 'b1'} (a, b)",)
    assert finding.note.startswith("1 image is in more than one class: ")


def test_copies_in_training_and_held_out_images(tmp_path: Path) -> None:
    train = {"a1": b"same", "a2": b"x", "b1": b"y"}
    test = {"a8": b"same", "a9": b"z", "b8": b"u", "b9": b"v"}
    (finding,) = inspect_dataset(_dataset(tmp_path, train, test)).findings
    assert finding.kind == "copy in training and held-out images"
    assert finding.names == (f"{tmp_path / 'a1'} = {tmp_path / 'a8'}",)


def test_a_row_that_is_listed_twice_is_a_copy(tmp_path: Path) -> None:
    dataset = _dataset(tmp_path, {"a1": b"1", "b1": b"2"})
    twice = Dataset("twice", ("a", "b"), (*dataset.train, dataset.train[0]))
    (finding,) = inspect_dataset(twice).findings
    assert (finding.kind, finding.names) == ("copy in a class", (str(tmp_path / "a1"),))


def test_what_cannot_be_compared_is_passed_over(tmp_path: Path) -> None:
    dataset = _dataset(tmp_path, {"a1": b"", "b1": b""})
    image = ImageSource("x[0]", lambda: Image.new("RGB", (2, 2)))
    missing = [Item(tmp_path / "a-none", 0), Item(tmp_path / "b-none", 1), Item(image, 1)]
    devices = [Item(Path("/dev/zero"), 0), Item(Path("/dev/zero"), 1)]
    odd = Dataset("odd", ("a", "b"), (*dataset.train, *missing, *devices))
    assert inspect_dataset(odd).findings == ()


def test_many_images_are_not_compared_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "MAX_COMPARED", 2)
    train = {"a1": b"same", "a2": b"same", "b1": b"x"}
    (note,) = inspect_dataset(_dataset(tmp_path, train)).notes
    assert note.startswith("The 3 images were not searched for copies")


def test_classes_without_held_out_images(tmp_path: Path) -> None:
    train = {"a1": b"1", "a2": b"2", "b1": b"3", "b2": b"4", "b3": b"5"}
    dataset = _dataset(tmp_path, train)
    assert _kinds(inspect_dataset(dataset)) == []  # how many are drawn is not known
    assert _kinds(inspect_dataset(dataset, shots=1)) == []
    (finding,) = inspect_dataset(dataset, shots=2).findings
    assert finding.names == ("a",)
    assert finding.note.startswith("1 class has no held-out image: a; ")
    (nothing,) = inspect_dataset(dataset, shots=3).findings
    assert (nothing.kind, nothing.names) == ("no held-out images", ("a", "b"))
    assert "3 of each class are drawn to train on, and no class has more" in nothing.note
    tested = _dataset(tmp_path, train, {"b9": b"9"})
    assert inspect_dataset(tested, shots=1).findings == (finding,)


@pytest.mark.parametrize(
    ("names", "kind", "named"),
    [
        (("0", "1", "10"), "numbers as class names", ("0", "1", "10")),
        (("cat", "Größe", "猫"), "class name beyond ASCII", ("Größe", "猫")),
    ],
)
def test_odd_class_names(names: tuple[str, ...], kind: str, named: tuple[str, ...]) -> None:
    (finding,) = inspect_dataset(Dataset("odd", names, ())).findings
    assert (finding.kind, finding.names) == (kind, named)


def test_unreadable_images_are_named_with_the_reason(tmp_path: Path) -> None:
    dataset = _dataset(tmp_path, {"a1": b"no image", "b1": b""}, {"b2": b""})
    Image.new("RGB", (2, 2)).save(tmp_path / "b2", "PNG")
    *_, finding, unusable = inspect_dataset(dataset, 1, find_unreadable(dataset)).findings
    assert finding.names[0].startswith(f"{tmp_path / 'a1'}: ")
    assert len(finding.names) == 2
    assert finding.note.startswith("2 images cannot be read: ")
    assert (unusable.stops_fit, unusable.names) == (True, ("a", "b"))  # b2 is a held-out image


def test_unreadable_images_are_not_left_to_measure_on(tmp_path: Path) -> None:
    dataset = _dataset(tmp_path, dict.fromkeys(("a1", "a2", "b1", "b2"), b"x"), {"a9": b"no"})
    for number, name in enumerate(("a1", "b1", "b2")):
        Image.new("RGB", (2, 2), (number, 0, 0)).save(tmp_path / name, "PNG")
    broken = find_unreadable(dataset)
    assert [item.path.name for item in broken] == ["a2", "a9"]
    finding = inspect_dataset(dataset, 1, broken).findings[0]
    assert finding.note == (
        "No image is left to measure the accuracy on: no held-out image can be read."
    )
    untested = replace(dataset, test=())
    assert _kinds(inspect_dataset(untested, 1)) == []
    finding, *_ = inspect_dataset(untested, 1, find_unreadable(untested)).findings
    assert (finding.kind, finding.names) == ("class without held-out images", ("a",))


def test_parts_that_are_read_as_classes_are_pointed_out(tmp_path: Path) -> None:
    for name in ("cat", "dog", "test"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (4, 4), (len(name), 0, 0)).save(tmp_path / name / "0.png")
    findings = inspect_dataset(read_dataset(tmp_path)).findings
    (found,) = [finding for finding in findings if finding.kind == "part as a class"]
    assert found.note.startswith("'test' is read as a class like the others")
    assert not found.stops_fit
