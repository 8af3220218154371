"""Images of the training are recognised by their hashes, and not measured on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ipl.backbone.backbone import Backbone
from ipl.backbone.features import FeatureStore
from ipl.backbone.labelled_features import draw_shots
from ipl.datasets.dataset import Dataset, Item
from ipl.saving.format import read_run
from ipl.training.chosen_images import UNKNOWN, choose_images, find_shots, find_trained
from ipl.training.result import FitResult


@pytest.fixture(scope="module")
def two_shots(make_run: Callable[..., Path]) -> FitResult:
    """Returns a prompt of four scenes without words, trained on two images of each."""
    return read_run(make_run("coop", 0, 2))


@pytest.fixture(scope="module")
def four(scenes: Dataset) -> Dataset:
    return scenes.only(range(4), "four scenes")


@pytest.fixture(scope="module")
def store(pocket: Backbone) -> FeatureStore:
    return FeatureStore(pocket)


def test_images_of_the_training_are_found_with_their_copies(
    two_shots: FitResult, four: Dataset, store: FeatureStore, tmp_path: Path
) -> None:
    shots = draw_shots(four, 2, 1, store)
    rest = tuple(item for item in four.train if item not in shots.items)
    copy = Item(tmp_path / "copy", shots.items[0].label)
    copy.path.write_bytes(shots.items[0].path.read_bytes())
    gone = Item(tmp_path / "gone", 0)
    found = find_trained(two_shots, (*rest, *shots.items, copy, gone), store)
    assert found == {*shots.items, copy}
    assert find_trained(two_shots, rest, store) == set()


def test_shots_are_found_among_more_images(
    two_shots: FitResult, four: Dataset, store: FeatureStore
) -> None:
    shots = draw_shots(four, 2, 1, store)
    assert find_shots(two_shots, (*four.test, *four.train), store) == shots.items
    assert find_shots(two_shots, shots.items[1:], store) is None
    moved = [shots.items[0]._replace(label=1), *shots.items[1:]]
    assert find_shots(two_shots, moved, store) is None  # it has another class now
    assert find_shots(replace(two_shots, image_hashes=()), four.train, store) is None


def test_training_images_are_left_out_if_they_are_known(
    make_run: Callable[..., Path], four: Dataset, store: FeatureStore
) -> None:
    mixed = replace(four, name="others", train=(*four.test, *four.train), test=())
    result = read_run(make_run("coop", 0))
    chosen = choose_images(result, mixed, "test", store)
    assert (tuple(chosen.items), chosen.left_out) == (four.test, four.train)
    none = choose_images(result, replace(four, test=()), "test", store)
    assert (list(none.items), none.left_out) == ([], four.train)
    every = choose_images(result, four, "test", store, everything=True)
    assert tuple(every.items) == (*four.train, *four.test)
    of_pixels = tuple(tuple(f"p{each}" for each in hashes) for hashes in result.image_hashes)
    other = replace(result, image_hashes=of_pixels)  # which those of files cannot be compared with
    for data in (four, mixed):
        chosen = choose_images(other, data, "test", store)
        assert chosen.items == (data.test or data.train)
    assert chosen.images_from == UNKNOWN


def test_changed_training_images_are_noted(
    two_shots: FitResult, four: Dataset, store: FeatureStore
) -> None:
    shots = draw_shots(four, 2, 1, store)
    rest = tuple(item for item in four.train if item not in shots.items)
    data = replace(four, train=(*rest, *shots.items[1:]), test=())
    chosen = choose_images(two_shots, data, "test", store)
    assert (tuple(chosen.items), chosen.left_out) == (rest, shots.items[1:])
    assert chosen.notes[0].startswith("7 of the 8 training images")
    chosen = choose_images(two_shots, replace(data, train=rest), "test", store)
    assert (chosen.items, len(chosen.notes)) == (rest, 1)
