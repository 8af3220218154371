"""The learner without words, to compare with: a saved run, or trained now in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ipl.backbone.shots import LabelledFeatures
from ipl.explain.loaded_run import LoadedRun, restore_trained, trained_classes
from ipl.learners.learner import Learner
from ipl.learners.recipe import Recipe
from ipl.saving.format import read_run
from ipl.saving.restore import find_backbone
from ipl.saving.sharing import find_run
from ipl.support.errors import ConfigError
from ipl.support.progress import SILENT, Reporter
from ipl.training.fitting import fit_learner

TRAIN = "train"  # in place of a folder
FIELDS = ("epochs", "interval", "batch", "lr", "m", "depth", "average_mean", "average_std")


@dataclass(frozen=True)
class Baseline:
    """A learner without words, and how it came about."""

    learner: Learner
    training: Mapping[str, Any]
    how: str


def read_baseline(subject: LoadedRun, folder: Path) -> Baseline:
    """Returns a saved run without words, which must be of the same classes and backbone."""
    saved = read_run(find_run(folder))
    if saved.words:
        raise ConfigError(
            f"The run {folder} has words ({', '.join(saved.words)}); the plain learner has none."
        )
    if trained_classes(saved) != subject.classes:
        raise ConfigError(f"The run {folder} is of other classes than {subject.folder}.")
    precision = subject.learner.backbone.precision
    backbone = find_backbone(folder, saved, subject.learner.backbone, "auto", precision)
    learner = restore_trained(saved, backbone)
    return Baseline(learner, saved.training, f"{saved.learner} without words, the run {folder}")


def train_baseline(
    subject: LoadedRun, shots: LabelledFeatures, reporter: Reporter = SILENT
) -> Baseline:
    """Returns the run's learner trained without words, on the same shots with the same seed.

    What the run set other than its published numbers is set so again; the rest is what is
    published for the learner without words.
    """
    saved, kind = subject.saved, type(subject.learner)
    recipe = baseline_recipe(kind, len(saved.words), saved.training)
    seed, views = int(saved.training.get("seed", 1)), saved.training.get("views", 8)
    template = str(saved.training.get("class_template", subject.learner.class_template))
    names = subject.learner.prompts.class_names

    def make(k: int) -> Learner:
        layout = kind.layout_for(k, recipe.m)
        how = (seed, saved.placeholder, recipe.depth, template)
        return kind(subject.learner.backbone, layout, names, *how)

    cache = subject.store.cache
    fitted = fit_learner(make, (0,), (), shots, views, recipe, seed, reporter, cache)
    training = {**vars(recipe), "seed": seed}
    return Baseline(
        fitted.learner,
        training,
        f"{kind.name} without words, trained for comparison: {recipe.epochs} epochs, seed {seed}, "
        "the same shots",
    )


def baseline_recipe(kind: type[Learner], words: int, training: Mapping[str, Any]) -> Recipe:
    """Returns the recipe without words, with what a run with words had set by itself."""
    published = vars(kind.recipe(words))
    own = {f: training[f] for f in FIELDS if f in training and training[f] != published[f]}
    return kind.recipe(0).override(**own)
