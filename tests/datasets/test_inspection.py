"""Copies of images, classes that are not tested, odd names: what is found, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.images import ImageSource
from ipl.datasets.inspection import find_unreadable, inspect_dataset


def _dataset(root: Path, train: dict[str, bytes], test: dict[str, bytes] | None = None) -> Dataset:
    """Returns a dataset of files with these contents; the first letter of a name is its class."""
    parts = []
    for files in (train, test or {}):
        for name, content in files.items():
            (root / name).write_bytes(content)
        parts.append(tuple(Item(root / name, "ab".index(name[0])) for name in files))
    return Dataset("letters", ("a", "b"), *parts)


def test_nothing_unusual(tmp_path: Path) -> None:
    train = {"a1": b"1", "a2": b"2", "b1": b"x1", "b2": b"x2"}
    assert inspect_dataset(_dataset(tmp_path, train)).findings == ()


def test_copies(tmp_path: Path) -> None:
    train = {"a1": b"same", "a2": b"twice", "a3": b"twice", "b1": b"same", "b2": b"x"}
    test = {"a8": b"x", "a9": b"z", "b8": b"u"}
    found = inspect_dataset(_dataset(tmp_path, train, test)).findings
    paths = {name: str(tmp_path / name) for name in (*train, *test)}
    assert [(finding.kind, finding.names) for finding in found] == [
        (
            "copy in two classes",
            (f"{paths['a1']} = {paths['b1']} (a, b)", f"{paths['b2']} = {paths['a8']} (a, b)"),
        ),
        ("copy in training and held-out images", (f"{paths['b2']} = {paths['a8']}",)),
        ("copy in a class", (f"{paths['a2']} = {paths['a3']}",)),
    ]


def test_what_cannot_be_compared_is_passed_over(tmp_path: Path) -> None:
    dataset = _dataset(tmp_path, {"a1": b"", "b1": b""})
    image = ImageSource("x[0]", lambda: Image.new("RGB", (2, 2)))
    missing = [Item(tmp_path / "a-none", 0), Item(tmp_path / "b-none", 1), Item(image, 1)]
    devices = [Item(Path("/dev/zero"), 0), Item(Path("/dev/zero"), 1)]
    odd = Dataset("odd", ("a", "b"), (*dataset.train, *missing, *devices))
    assert inspect_dataset(odd).findings == ()


def test_classes_without_held_out_images(tmp_path: Path) -> None:
    train = {"a1": b"1", "b1": b"3"}
    assert inspect_dataset(_dataset(tmp_path, train)).findings == ()
    (finding,) = inspect_dataset(_dataset(tmp_path, train, {"b9": b"9"})).findings
    assert (finding.kind, finding.names) == ("class without held-out images", ("a",))


@pytest.mark.parametrize(
    ("names", "kind", "named"),
    [
        (("0", "1", "10"), "numbers as class names", ("0", "1", "10")),
        (("cat", "Größe", "猫"), "class name beyond ASCII", ("Größe", "猫")),
        (("cat", "dog", "test"), "part as a class", ("test",)),
    ],
)
def test_odd_class_names(names: tuple[str, ...], kind: str, named: tuple[str, ...]) -> None:
    (finding,) = inspect_dataset(Dataset("odd", names, ())).findings
    assert (finding.kind, finding.names) == (kind, named)
    assert not finding.stops_fit


def test_unreadable_images_are_named_and_not_left_to_measure_on(tmp_path: Path) -> None:
    train = {"a1": b"no image", "b1": b"", "b2": b"x"}
    dataset = _dataset(tmp_path, train, {"a9": b"no", "b9": b"x"})
    for number, name in enumerate(("b2", "b9")):
        Image.new("RGB", (2, 2), (number, 0, 0)).save(tmp_path / name, "PNG")
    unreadable = find_unreadable(dataset)
    assert [item.path.name for item in unreadable] == ["a1", "b1", "a9"]
    untested, broken, unusable = inspect_dataset(dataset, unreadable).findings
    assert (untested.kind, untested.names) == ("class without held-out images", ("a",))
    assert broken.names[0].startswith(f"{tmp_path / 'a1'}: ")
    assert (unusable.stops_fit, unusable.names) == (True, ("a",))
