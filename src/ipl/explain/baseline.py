"""The learner without words, to compare with: a saved run, or trained now in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ipl.backbone.shots import LabelledFeatures
from ipl.explain.loaded_run import LoadedRun, restore_for_training_classes, trained_classes
from ipl.learners.learner import Learner
from ipl.learners.recipe import Recipe
from ipl.saving.format import read_run
from ipl.saving.restore import find_backbone
from ipl.saving.sharing import find_run
from ipl.support.errors import ConfigError
from ipl.support.progress import SILENT, Reporter
from ipl.training.fitting import fit_learner

TRAIN = "train"  # instead of a folder: train the baseline now
RECIPE_FIELDS = ("epochs", "interval", "batch", "lr", "m", "depth", "average_mean", "average_std")


@dataclass(frozen=True)
class Baseline:
    """A learner without words, its training settings, and a sentence on how it was made."""

    learner: Learner
    training: Mapping[str, Any]
    how: str


def read_baseline(run: LoadedRun, folder: Path) -> Baseline:
    """Returns the saved run without words at `folder`.

    Raises ConfigError if it has words, or other classes than the run it is compared with.
    """
    saved = read_run(find_run(folder))
    if saved.words:
        raise ConfigError(
            f"The run {folder} has words ({', '.join(saved.words)}); the baseline must have none."
        )
    if trained_classes(saved) != run.classes:
        raise ConfigError(f"The run {folder} has other classes than {run.folder}.")
    precision = run.learner.backbone.precision
    backbone = find_backbone(folder, saved, run.learner.backbone, "auto", precision)
    learner = restore_for_training_classes(saved, backbone)
    return Baseline(learner, saved.training, f"{saved.learner} without words, the run {folder}")


def train_baseline(
    run: LoadedRun, shots: LabelledFeatures, reporter: Reporter = SILENT
) -> Baseline:
    """Returns the run's learner trained without words, on the same shots with the same seed.

    Settings that differ from the published ones in the run differ here as well; the others are
    those published for the learner without words.
    """
    saved, learner_type = run.saved, type(run.learner)
    recipe = baseline_recipe(learner_type, len(saved.words), saved.training)
    seed, views = int(saved.training.get("seed", 1)), saved.training.get("views", 8)
    template = str(saved.training.get("class_template", run.learner.class_template))

    def start(words: int) -> Learner:
        return learner_type.from_recipe(
            run.learner.backbone,
            run.classes,
            words,
            recipe,
            seed=seed,
            placeholder=saved.placeholder,
            class_template=template,
        )

    fitted = fit_learner(start, (0,), (), shots, views, recipe, seed, reporter, run.store.cache)
    return Baseline(
        fitted.learner,
        {**vars(recipe), "seed": seed},
        f"{learner_type.name} without words, trained for comparison: {recipe.epochs} epochs, "
        f"seed {seed}, the same shots",
    )


def baseline_recipe(learner_type: type[Learner], words: int, training: Mapping[str, Any]) -> Recipe:
    """Returns the recipe without words, changed where a run with words changed its recipe."""
    published = vars(learner_type.recipe(words))
    changed = {
        field: training[field]
        for field in RECIPE_FIELDS
        if field in training and training[field] != published[field]
    }
    return learner_type.recipe(0).override(**changed)
