"""Which images are left to measure on; tests/inference/test_evaluation.py has the other cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.datasets.dataset import Dataset
from ipl.saving.format import read_run
from ipl.saving.restore import restore
from ipl.training.chosen_images import UNKNOWN, choose_images


def test_training_images_are_left_out_if_they_are_known(
    pocket: Backbone, make_run: Callable[..., Path], scenes: Dataset
) -> None:
    four = scenes.only(range(4), "others")
    mixed = replace(four, train=(*four.test, *four.train), test=())
    result, store = read_run(make_run("coop", 0)), FeatureStore(pocket)
    learner = restore(result, pocket)
    chosen = choose_images(result, learner, mixed, "test", store)
    assert (tuple(chosen.items), chosen.left_out, chosen.known) == (four.test, four.train, True)
    none = choose_images(result, learner, replace(four, test=()), "test", store)
    assert (list(none.items), none.left_out) == ([], four.train)
    of_pixels = tuple(tuple(f"p{each}" for each in hashes) for hashes in result.image_hashes)
    other = replace(result, image_hashes=of_pixels)  # which those of files cannot be compared with
    for data in (four, mixed):
        chosen = choose_images(other, learner, data, "test", store)
        assert (chosen.items, chosen.known) == (data.test or data.train, False)
    assert chosen.images_from == UNKNOWN
    # A dataset may have classes of the run without an image.
    one_class = tuple(item for item in mixed.train if item.label == 1)
    chosen = choose_images(
        other, learner, replace(mixed, name="four scenes", train=one_class), "test", store
    )
    assert chosen.items == one_class
