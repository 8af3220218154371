"""Which images a run was trained on: by the hashes saved with it, or else by a loss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.labelled_features import (
    OF_PIXELS,
    LabelledFeatures,
    hash_by_class,
    short_hashes,
)
from ipl.datasets.dataset import Item
from ipl.learners.learner import Learner
from ipl.metrics import score
from ipl.support.progress import SILENT, Reporter
from ipl.training.fit import features_for
from ipl.training.result import FitResult
from ipl.words.scorer import SentenceScorer
from ipl.words.template import Template

SAME_LOSS = 1e-3  # two computations of one loss on different machines differ by far less


def find_trained(
    result: FitResult, items: Sequence[Item], store: FeatureStore, reporter: Reporter = SILENT
) -> frozenset[Item] | None:
    """Returns the items that are images of the training, copies included.

    None if that cannot be told: the hashes may have been taken out of the file, and that of a file
    cannot be compared with one of pixels.
    """
    if not _has_hashes_of(result, items):
        return None
    known = {digest for of_class in result.image_hashes for digest in of_class}
    hashes = short_hashes(items, store, reporter)
    return frozenset(item for item, digest in zip(items, hashes, strict=True) if digest in known)


def _has_hashes_of(result: FitResult, items: Sequence[Item]) -> bool:
    """Returns whether the saved hashes are of the same kind as those of the items."""
    known = (digest for of_class in result.image_hashes for digest in of_class)
    of_files = {not digest.startswith(OF_PIXELS) for digest in known}  # or of pixels
    return bool(of_files) and all(isinstance(item.path, Path) in of_files for item in items)


def find_shots(
    result: FitResult, items: Sequence[Item], store: FeatureStore
) -> tuple[Item, ...] | None:
    """Returns the images of the training, class by class; None if one is not among the items.

    The labels of the items are those of the training.
    """
    if not result.image_hashes:
        return None
    available: dict[tuple[int, str | None], list[Item]] = {}
    for item, digest in zip(items, short_hashes(items, store), strict=True):
        available.setdefault((item.label, digest), []).append(item)
    shots = []
    for label, of_class in enumerate(result.image_hashes):
        for digest in of_class:
            copies = available.get((label, digest))
            if not copies:
                return None
            shots.append(copies.pop(0))
    return tuple(shots)


def how_shots_differ(
    result: FitResult, learner: Learner, shots: LabelledFeatures, store: FeatureStore
) -> str | None:
    """Returns how these shots differ from those of the training, None if they are the same.

    They must have the hashes that were saved with the run. If none of them has, the files may have
    been written anew: then the shots must give the loss without words that was saved. Where no
    words were searched, there is only the training accuracy, which other images may have as well:
    it counts only if the hashes are of another kind. `learner` is the run's, for the classes it was
    trained on.
    """
    if result.images != len(shots.items):
        return f"{len(shots.items)} training images were drawn; the run had {result.images}"
    same = _count_same(result, shots, store)
    if same == result.images:
        return None
    if same:
        return f"{same} of the {result.images} training images that were drawn are the same"
    selection = result.selection
    if selection is not None:
        scorer = SentenceScorer(
            learner.backbone,
            learner.prompts.class_names,
            shots.features,
            shots.labels,
            Template(selection.template),
        )
        loss, saved_loss = scorer.loss([]), selection.loss_without_words
        if abs(loss - saved_loss) < SAME_LOSS:
            return None
        return f"the loss without words is {loss:.4f}; it was {saved_loss:.4f}"
    if _has_hashes_of(result, shots.items):
        return f"none of the {result.images} training images that were drawn is the same"
    log_probabilities = learner.log_probabilities(features_for(learner, shots))
    accuracy, saved = score(log_probabilities, shots.labels).accuracy, result.train_accuracy
    if abs(accuracy - saved) < 1.5 / len(shots.items):
        return None
    return f"the training accuracy is {100 * accuracy:.1f} %; it was {100 * saved:.1f} %"


def _count_same(result: FitResult, shots: LabelledFeatures, store: FeatureStore) -> int:
    """Returns how many shots are images of the training, in the same class."""
    if not result.image_hashes:
        return 0
    drawn = hash_by_class(shots.items, len(result.image_hashes), store)
    pairs = zip(drawn, result.image_hashes, strict=False)
    return sum((Counter(now) & Counter(then)).total() for now, then in pairs)
