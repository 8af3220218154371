"""Which labelled images a prompt is evaluated on: not those that it was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.labelled_features import draw_shots
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import UNUSED, Dataset, Item
from ipl.display.formatting import several
from ipl.learners.learner import Learner
from ipl.support.errors import DataError
from ipl.support.progress import Reporter
from ipl.training.trained_images import find_trained, how_shots_differ

UNKNOWN = "all images; whether it was trained on some of them is not known"
NONE_TRAINED = "all images, none the same as one that it was trained on"


class ChosenImages(NamedTuple):
    """The images to evaluate on, and those that are left out as images of the training."""

    items: Sequence[Item]
    images_from: str  # a phrase that says which they are
    notes: tuple[str, ...] = ()
    left_out: Sequence[Item] = ()


def choose_images(
    classifier: PromptClassifier,
    dataset: Dataset,
    everything: bool,
    store: FeatureStore,
    reporter: Reporter,
) -> ChosenImages:
    """Returns the images to evaluate on."""
    result, part = classifier.result_, f"its {classifier.config.held_out} part"
    items = (*dataset.train, *dataset.test) if everything else dataset.test or dataset.train
    trained = find_trained(result, items, store, reporter)
    if everything:
        return ChosenImages(items, _name_all(trained))
    if trained:
        rest = [item for item in items if item not in trained]
        if not rest:
            raise _nothing_new(dataset)
        without = f"without the {several(len(trained), 'image')} that it was trained on"
        if len(trained) > result.images:
            without = f"without {len(trained)} images that it was trained on, or copies of them"
        note: tuple[str, ...] = ()
        if not dataset.test and dataset.name == result.data and len(trained) < result.images:
            note = (
                f"{len(trained)} of the {result.images} training images are in {dataset.name} as "
                "they were; changed copies of the others may be among these images.",
            )
        left_out = tuple(item for item in dict.fromkeys(items) if item in trained)
        return ChosenImages(rest, f"{part}, {without}" if dataset.test else without, note, left_out)
    if dataset.test:
        return ChosenImages(dataset.test, part)
    return _choose_by_shots(
        classifier, dataset, UNKNOWN if trained is None else NONE_TRAINED, store, reporter
    )


def _name_all(trained: frozenset[Item] | None) -> str:
    """Returns what all images are called, of which some are of the training, if that is known."""
    if trained is None:
        return "all images, also those of the training, if any"
    return f"all images, {len(trained)} of which it was trained on" if trained else NONE_TRAINED


def _nothing_new(dataset: Dataset) -> DataError:
    unused = [part for found in dataset.findings if found.kind == UNUSED for part in found.names]
    where = f" (its {unused[0]} images are used with --held-out {unused[0]})" if unused else ""
    return DataError(
        f"All images of {dataset.name} were used in training{where}; give other images, or "
        "evaluate on them all the same with --all."
    )


def _choose_by_shots(
    classifier: PromptClassifier,
    dataset: Dataset,
    name_of_all: str,
    store: FeatureStore,
    reporter: Reporter,
) -> ChosenImages:
    """Returns the images without those of the training, if drawing these again gives the same.

    That is for runs without hashes, and for files that were written anew since. If they are not the
    same, returns all images, which are called `name_of_all`, and a note if need be.
    """
    result = classifier.result_
    if dataset.class_names != result.trained_classes:
        return ChosenImages(dataset.train, name_of_all)
    learner: Learner = classifier.learner_
    if learner.prompts.class_names != result.trained_classes:
        learner = learner.rebuilt(class_names=result.trained_classes)
    shots, rest = draw_shots(
        dataset, result.config.shots, result.config.seed, store, False, reporter
    )
    same_name = dataset.name == result.data
    if result.selection is None and not same_name:  # an accuracy may be the same by chance
        return ChosenImages(dataset.train, name_of_all)
    if (reason := how_shots_differ(result, learner, shots, store)) is not None:
        note = (
            f"{dataset.name} is not as it was when the prompt was trained ({reason}), so some of "
            "these images may have been used in training, and the accuracy may be too high."
        )
        # With hashes, another loss shows that these are other images.
        told = name_of_all == NONE_TRAINED and result.selection is not None
        if told or not same_name:
            return ChosenImages(dataset.train, name_of_all)
        return ChosenImages(dataset.train, UNKNOWN, (note,))
    if not rest:
        raise _nothing_new(dataset)
    without = f"without the {len(shots.items)} images that it was trained on"
    return ChosenImages(rest, without, left_out=shots.items)
