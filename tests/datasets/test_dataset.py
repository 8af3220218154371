"""Class names and lists of (path, label): what a dataset accepts and how it is cut down."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipl.datasets.dataset import Dataset, Finding, Item, check_class_names, clean_class_name
from ipl.support.errors import DataError


def _items(*labels: int) -> tuple[Item, ...]:
    return tuple(Item(Path(f"{number}.png"), label) for number, label in enumerate(labels))


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("cat", "cat"),
        ("tabby_cat", "tabby cat"),
        ("  tabby \t cat\n", "tabby cat"),
        ("__a__b__", "a b"),
        ("Boeing 747-200", "Boeing 747-200"),
        ("___", ""),
        ("Größe", "Größe"),
        ("gro\u0308ße", "größe"),
    ],
)
def test_clean_class_name(raw: str, clean: str) -> None:
    assert clean_class_name(raw) == clean


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([], "no class names"),
        (["cat", ""], "Class 2 has an empty name"),
        (["  ", "cat"], "Class 1 has an empty name"),
        (["cat", "l\udcf6we"], "bytes that are not UTF-8"),
        (["cat", "do\x07g"], "control character"),
        (["Größe", "gro\u0308ße"], "read the same"),  # as macOS writes the second
        (["cat", "dog", "cat"], "'cat' and 'cat'"),
        (["Cat", "cat"], "'Cat' and 'cat'"),
        (["tabby_cat", "tabby  cat"], "'tabby_cat' and 'tabby  cat'"),
    ],
)
def test_names_that_cannot_be(names: list[str], said: str) -> None:
    with pytest.raises(DataError, match=said):
        check_class_names(names)


def test_names_of_any_script_are_kept() -> None:
    check_class_names(["Größe", "grosse", "猫", "кошка", "crème brûlée"])


def test_one_class_is_refused_with_its_name() -> None:
    with pytest.raises(DataError, match="pets has only one class .'cat'"):
        Dataset("pets", ("cat",), _items(0))


@pytest.mark.parametrize(("label", "part"), [(-1, "train"), (2, "test")])
def test_a_label_without_a_name_is_refused(label: int, part: str) -> None:
    items = {"train": _items(0, 1), "test": _items(0, 1), part: _items(0, label)}
    with pytest.raises(DataError, match=f"1.png has label {label}; allowed are 0 to 1"):
        Dataset("pets", ("cat", "dog"), **items)


def test_only_relabels_in_the_given_order() -> None:
    dataset = Dataset(
        "pets", ("a", "b", "c"), _items(0, 1, 2, 1), _items(2, 0), (Finding("k", "n", ()),)
    )
    assert dataset.notes == ("n",)
    part = dataset.only([2, 1], "some")
    assert part.notes == ("n",)
    assert part.name == "some"
    assert part.class_names == ("c", "b")
    assert part.train == (
        Item(Path("1.png"), 1),
        Item(Path("2.png"), 0),
        Item(Path("3.png"), 1),
    )
    assert part.test == (Item(Path("0.png"), 0),)
    assert dataset.class_names == ("a", "b", "c")
