"""Which labelled images a prompt is measured on: not those that it was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.labelled_features import draw_shots
from ipl.datasets.dataset import Dataset, Item
from ipl.display.formatting import several
from ipl.learners.learner import Learner
from ipl.support.progress import SILENT, Reporter
from ipl.training.result import FitResult
from ipl.training.trained_images import find_trained, how_shots_differ

UNKNOWN = "all images; whether it was trained on some of them is not known"
NONE_TRAINED = "all images, none the same as one that it was trained on"


class ChosenImages(NamedTuple):
    """The images to measure on, and those that are left out as images of the training."""

    items: Sequence[Item]  # none if all are of the training
    images_from: str  # a phrase that says which they are
    notes: tuple[str, ...] = ()
    left_out: Sequence[Item] = ()
    known: bool = True  # whether it is known which of them it was trained on


def choose_images(
    result: FitResult,
    learner: Learner,
    dataset: Dataset,
    held_out: str,
    store: FeatureStore,
    everything: bool = False,
    reporter: Reporter = SILENT,
) -> ChosenImages:
    """Choose the images of a dataset to measure a prompt on.

    These are all images of its held-out part, or all images if it has none, except those of the
    training.

    Parameters
    ----------
    result : FitResult
        The run, with the hashes of its training images.
    learner : Learner
        Its learner.
    dataset : Dataset
        The labelled images.
    held_out : str
        The name of the dataset's held-out part, test or val.
    store : FeatureStore
        Hashes and encodes images.
    everything : bool, default=False
        Whether to take all images of both parts, those of the training too.
    reporter : Reporter, optional
        Shows progress.

    Returns
    -------
    ChosenImages
        The images, and what they are called.
    """
    part = f"its {held_out} part"
    items = (*dataset.train, *dataset.test) if everything else dataset.test or dataset.train
    trained = find_trained(result, items, store, reporter)
    if everything:
        return ChosenImages(items, _name_all(trained))
    if trained:
        rest = [item for item in items if item not in trained]
        without = f"without the {several(len(trained), 'image')} that it was trained on"
        if len(trained) > result.images:
            without = f"without {len(trained)} images that it was trained on, or copies of them"
        note: tuple[str, ...] = ()
        if not dataset.test and dataset.name == result.data and len(trained) < result.images:
            note = (
                f"{len(trained)} of the {result.images} training images are in "
                f"{dataset.display_name} as they were; changed copies of the others may be among "
                "these images.",
            )
        left_out = tuple(item for item in dict.fromkeys(items) if item in trained)
        return ChosenImages(rest, f"{part}, {without}" if dataset.test else without, note, left_out)
    if dataset.test:
        return ChosenImages(dataset.test, part, known=trained is not None)
    name_of_all = UNKNOWN if trained is None else NONE_TRAINED
    return _choose_by_shots(result, learner, dataset, name_of_all, store, reporter)


def _name_all(trained: frozenset[Item] | None) -> str:
    """Returns what all images are called, of which some are of the training, if that is known."""
    if trained is None:
        return "all images, also those of the training, if any"
    return f"all images, {len(trained)} of which it was trained on" if trained else NONE_TRAINED


def _choose_by_shots(
    result: FitResult,
    learner: Learner,
    dataset: Dataset,
    name_of_all: str,
    store: FeatureStore,
    reporter: Reporter,
) -> ChosenImages:
    """Returns the images without those of the training, if drawing these again gives the same.

    That is for hashes of another kind, and for files that were written anew since. If they are not
    the same, returns all images, which are called `name_of_all`, and a note if need be.
    """
    known = name_of_all == NONE_TRAINED
    everything = ChosenImages(dataset.train, name_of_all, known=known)
    classes = result.trained_classes
    if dataset.class_names != classes or len({i.label for i in dataset.train}) < len(classes):
        return everything
    same_name = dataset.name == result.data
    if result.selection is None and not same_name:  # an accuracy may be the same by chance
        return everything
    if learner.prompts.class_names != classes:
        learner = learner.rebuilt(class_names=classes)
    shots, rest = draw_shots(
        dataset, result.config.shots, result.config.seed, store, False, reporter
    )
    if (reason := how_shots_differ(result, learner, shots, store)) is None:
        without = f"without the {len(shots.items)} images that it was trained on"
        return ChosenImages(rest, without, left_out=shots.items)
    # With comparable hashes, another loss shows that these are other images.
    if (known and result.selection is not None) or not same_name:
        return everything
    note = (
        f"{dataset.display_name} is not as it was when the prompt was trained ({reason}), so some "
        "of these images may have been used in training, and the accuracy may be too high."
    )
    return ChosenImages(dataset.train, UNKNOWN, (note,), known=False)
