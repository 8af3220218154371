"""Class names and lists of (path, label): what a dataset accepts and how it is cut down."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipl.datasets.dataset import Dataset, Item, check_class_names, clean_class_name
from ipl.support.errors import DataError


def _items(*labels: int) -> tuple[Item, ...]:
    return tuple(Item(Path(f"{number}.png"), label) for number, label in enumerate(labels))


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("  tabby_ \t cat\n", "tabby cat"),
        ("__a__b__", "a b"),
        ("Boeing 747-200", "Boeing 747-200"),
        ("___", ""),
        ("gro\u0308ße", "größe"),  # as macOS writes it
    ],
)
def test_clean_class_name(raw: str, clean: str) -> None:
    assert clean_class_name(raw) == clean


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([], "no class names"),
        (["cat", "  "], "Class 2"),
        (["cat", "l\udcf6we"], "l.*we"),
        (["cat", "do\x07g"], "do.*g"),
        (["Größe", "gro\u0308ße"], "Größe"),
        (["Cat", "cat"], "'Cat' and 'cat'"),
        (["tabby_cat", "tabby  cat"], "'tabby_cat' and 'tabby  cat'"),
    ],
)
def test_names_that_cannot_be(names: list[str], said: str) -> None:
    check_class_names(["Größe", "grosse", "猫", "кошка"])
    with pytest.raises(DataError, match=said):
        check_class_names(names)


def test_one_class_and_labels_without_a_name_are_refused() -> None:
    with pytest.raises(DataError, match="pets.*cat"):
        Dataset("pets", ("cat",), _items(0))
    for train, test in ((_items(0, -1), ()), (_items(0, 1), _items(0, 2))):
        with pytest.raises(DataError, match=r"1\.png has label"):
            Dataset("pets", ("cat", "dog"), train, test)


def test_only_relabels_in_the_given_order() -> None:
    dataset = Dataset("pets", ("a", "b", "c"), _items(0, 1, 2, 1), _items(2, 0))
    part = dataset.only([2, 1], "some")
    assert (part.name, part.class_names) == ("some", ("c", "b"))
    assert part.train == tuple(
        Item(Path(f"{n}.png"), label) for n, label in ((1, 1), (2, 0), (3, 1))
    )
    assert part.test == (Item(Path("0.png"), 0),)
