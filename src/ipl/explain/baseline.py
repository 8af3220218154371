"""The learner without words, to compare with: a saved run, or trained now in the same way."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ipl.backbone.labelled_features import LabelledFeatures
from ipl.config import FitConfig
from ipl.display.formatting import several
from ipl.explain.loaded_run import LoadedRun, restore_for_training_classes
from ipl.learners.learner import Learner
from ipl.saving.format import read_run
from ipl.saving.restore import find_backbone
from ipl.saving.run_folder import find_run
from ipl.support.errors import ConfigError
from ipl.support.progress import SILENT, Reporter
from ipl.training.checkpoint import remove_checkpoints
from ipl.training.fit import new_learner, train_best
from ipl.training.result import FitResult
from ipl.training.views import make_views

TRAIN = "train"  # instead of a folder: train the baseline now


@dataclass(frozen=True)
class Baseline:
    """A learner without words, its settings, and a sentence on how it was made."""

    learner: Learner
    config: FitConfig
    how: str


def read_baseline_result(folder: Path, run: FitResult, run_folder: Path) -> FitResult:
    """Returns the saved run without words at `folder`.

    Raises ConfigError if it has words, or other classes than the run it is compared with.
    """
    result = read_run(find_run(folder))
    if result.words:
        raise ConfigError(
            f"The run {folder} has words ({', '.join(result.words)}); the baseline must have none."
        )
    if result.trained_classes != run.trained_classes:
        raise ConfigError(f"The run {folder} has other classes than {run_folder}.")
    return result


def read_baseline(run: LoadedRun, folder: Path) -> Baseline:
    """Returns the saved run without words at `folder`, on the backbone of the other run."""
    result = read_baseline_result(folder, run.result, run.folder)
    precision = run.learner.backbone.precision
    backbone = find_backbone(folder, result, run.learner.backbone, "auto", precision)
    learner = restore_for_training_classes(result, backbone)
    slots = " (its slots for words are empty)" if learner.layout.slots else ""
    how = f"{result.config.learner} without words{slots}, the run {folder}"
    return Baseline(learner, result.config, how)


def train_baseline(
    run: LoadedRun, shots: LabelledFeatures, reporter: Reporter = SILENT
) -> Baseline:
    """Returns the run's learner trained without words, on these shots with the same seed.

    What the run was given is given here as well; the rest is published for the learner without
    words.
    """
    config, learner_name = run.result.config.without_words(), run.result.config.learner

    def start(words: int) -> Learner:
        return new_learner(config, run.learner.backbone, run.classes, words)

    views = make_views(
        config.views, type(run.learner), run.learner.backbone, shots, config.seed, reporter
    )
    learner, _, _, checkpoints = train_best(
        start,
        (0,),
        (),
        shots,
        views,
        config.views,
        config.hyperparameters,
        config.seed,
        reporter,
        run.store.cache,
    )
    remove_checkpoints(checkpoints, run.store.cache)  # a baseline is not saved
    return Baseline(
        learner,
        config,
        f"{learner_name} without words, trained for comparison: "
        f"{config.hyperparameters.epochs} epochs, seed {config.seed}, "
        f"{several(len(shots.items), 'training image')}",
    )
