"""From a dataset to a trained learner: shots, words, vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.shots import LabelledFeatures, draw_shots
from ipl.datasets.dataset import Dataset, Item
from ipl.learners.learner import Learner
from ipl.learners.registry import learner_class
from ipl.support.cache import Cache
from ipl.training.fitting import Fitted, fit_learner, numbers_to_try
from ipl.training.settings import FitSettings
from ipl.words.selection import Selection


@dataclass(frozen=True)
class Learnt:
    """A trained learner, and all that it came from."""

    settings: FitSettings
    fitted: Fitted
    selection: Selection | None
    shots: LabelledFeatures
    rest: tuple[Item, ...]  # training images that were not drawn
    store: FeatureStore
    notes: tuple[str, ...]


def learn(
    dataset: Dataset,
    backbone: Backbone,
    params: Mapping[str, Any],
    features: FeatureStore | None = None,
) -> Learnt:
    """Returns what is learnt from a dataset with a classifier's parameters."""
    settings = FitSettings.of(params)
    recipe, choice, reporter = settings.recipe, settings.choice, params["reporter"]
    disk = Cache(reporter=reporter) if params["cache"] else None
    store = features or FeatureStore(backbone, disk)
    kind, seed, names = learner_class(params["learner"]), params["seed"], dataset.class_names

    def make(k: int) -> Learner:
        how = (seed, params["placeholder"], recipe.depth, params["class_template"])
        return kind(backbone, kind.layout_for(k, recipe.m), names, *how)

    def check(k: int) -> None:  # what cannot be is said before anything is computed
        make(k)
        choice.check(backbone, names, k)

    numbers, limits = numbers_to_try(params["words"], recipe, check)
    shots, rest = draw_shots(dataset, params["shots"], seed, store, params["strict"], reporter)
    notes = (*dataset.notes, *shots.notes, *limits)
    layers = (len(backbone.text_layers), len(backbone.image_layers))
    published = kind.recipe(1, params["protocol"]).depth  # cut without a word, as ever
    if (params["depth"] or 0) > max(*layers, published):
        notes += (
            f"depth is {params['depth']}; the towers have {layers[0]} (text) and {layers[1]} "
            "(image) layers, and all of them get vectors.",
        )
    selection = None
    if k := numbers[-1]:
        selection = choice.choose(backbone, names, shots, k, disk, features, reporter)
    words = selection.words if selection else ()
    fitted = fit_learner(make, numbers, words, shots, params["views"], recipe, seed, reporter, disk)
    if selection is not None:
        selection = selection.first(len(fitted.learner.words))
        notes += selection.notes
    return Learnt(settings, fitted, selection, shots, rest, store, notes)
