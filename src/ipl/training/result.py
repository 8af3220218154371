"""FitResult: the result of a fit, the same for a new fit, a saved run and the reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypedDict

from torch import Tensor

from ipl._version import __version__
from ipl.backbone.backbone import Backbone
from ipl.backbone.preprocessing import Preprocessing
from ipl.config import GIVEN, RANDOM, FitConfig
from ipl.display.formatting import several
from ipl.learners.hyperparameters import Hyperparameters
from ipl.learners.learner import Learner
from ipl.prompts.layout import PromptLayout
from ipl.support.errors import ConfigError
from ipl.support.plain_values import Share, from_plain
from ipl.training.comparison import WITHOUT_WORDS, Comparison
from ipl.training.history import TrainingHistory
from ipl.training.schedule import images_per_epoch
from ipl.words.selection import Selection


@dataclass(frozen=True)
class Trial:
    """The accuracy and loss on the training images with a number of words."""

    words: int
    accuracy: Share
    loss: float


@dataclass(frozen=True)
class FitResult:
    """The result of a fit, in plain values and tensors.

    `training.fit.fit` returns one, `saving` writes and reads one, and reports display one.

    Parameters
    ----------
    config : FitConfig
        The settings of the fit.
    hyperparameters : Hyperparameters
        The hyperparameters that it was trained with.
    prompt : str
        The layout with its words as a line of text, `[V V] *furry* [V V] {cls}.`.
    words : tuple of str
        The words in the prompt, in order.
    backbone : dict
        `name`, `weights_sha256` and `precision` of the backbone.
    preprocessing : dict
        The image transform of the backbone.
    classes : tuple of str
        The classes that it classifies; `PromptClassifier.with_classes` changes them.
    trained_classes : tuple of str
        The classes that it was trained on.
    data : str
        The name of the dataset.
    images : int
        How many images it was trained on.
    train_accuracy : float
        Accuracy on these images, from 0 to 1.
    comparison : Comparison or None
        The prompt beside its baselines on the held-out images; None if there were none.
    trials : tuple of Trial
        The result of every number of words that was tried.
    history : TrainingHistory
        The epochs.
    selection : Selection or None
        How the words were chosen; None if no search chose them.
    image_hashes : tuple of tuples of str
        Short hashes of the training images of each of `trained_classes`, by which they are
        recognised again; empty if somebody took them out of the file.
    alike : bool
        Whether two of `classes` have the same name, as in ImageNet's published list.
    notes : tuple of str
        Warnings, such as images that were skipped; not saved.
    ipl_version : str
        The version that trained it.
    tensors : dict
        The trained vectors by name.
    learner : Learner or None
        The trained learner on its backbone; None for a result that was read from a file.
    checkpoints : tuple of str
        The keys of its trainings in the cache, where they stay until the result is saved.
    """

    config: FitConfig
    hyperparameters: Hyperparameters
    prompt: str
    words: tuple[str, ...]
    backbone: dict[str, Any]
    preprocessing: dict[str, Any]
    classes: tuple[str, ...]
    trained_classes: tuple[str, ...]
    data: str
    images: int
    train_accuracy: float
    trials: tuple[Trial, ...]
    history: TrainingHistory
    image_hashes: tuple[tuple[str, ...], ...]
    selection: Selection | None
    comparison: Comparison | None = None
    alike: bool = False
    notes: tuple[str, ...] = ()
    ipl_version: str = __version__
    tensors: dict[str, Tensor] = field(default_factory=dict, compare=False, repr=False)
    learner: Learner | None = field(default=None, compare=False, repr=False)
    checkpoints: tuple[str, ...] = field(default=(), compare=False, repr=False)

    @property
    def layout(self) -> PromptLayout:
        """Returns the layout that the line of text describes."""
        return PromptLayout.parse(self.prompt)[0]

    @property
    def held_out_accuracy(self) -> float | None:
        """Returns the accuracy on images that were held out; None if there were none."""
        return self.comparison.accuracy() if self.comparison else None

    @property
    def held_out_images(self) -> int:
        """Returns how many images were held out."""
        return self.comparison.total if self.comparison else 0

    def offer_to_compare(self, how: str = "--compare does it") -> str:
        """Returns how to compare with the same prompt without words too, and for how long.

        Nothing if that was done, or cannot be done.
        """
        if not self.words or self.comparison is None or self.comparison.of(WITHOUT_WORDS):
            return ""
        seconds = self.history.seconds
        time = f"{max(1, round(seconds))} s" if seconds < 90 else f"{seconds / 60:.0f} min"
        return f"Whether the words matter was not tested: {how}, in about {time} more."

    @property
    def about_losses(self) -> str:
        """Returns why the loss goes up and down by chance from epoch to epoch, if it does."""
        batch = self.hyperparameters.batch
        trained = images_per_epoch(self.images, batch)
        reasons = []
        if trained < self.images:
            reasons.append(
                f"trains on {trained} of the {self.images} images, drawn anew (an incomplete batch "
                f"of {batch} is dropped, as published)"
            )
        if self.config.views not in (0, 1):
            reasons.append("sees other random crops of its images")
        if not reasons:
            return ""
        return (
            "The loss of an epoch is the mean over what it trained on. It goes up and down by "
            f"chance, because each epoch {' and '.join(reasons)}."
        )

    def as_dict(self) -> dict[str, Any]:
        """Returns the content of config.json, as plain values."""
        return {
            "learner": self.config.learner,
            "prompt": self.prompt,
            "words": list(self.words),
            "backbone": self.backbone,
            "preprocessing": self.preprocessing,
            "classes": list(self.classes),
            "alike": self.alike,
            "config": self.config.as_dict(),
            "training": self.training,
            "results": self.results,
            "selection": self.selection.as_dict() if self.selection else None,
            "ipl_version": self.ipl_version,
        }

    @property
    def training_settings(self) -> dict[str, Any]:
        """Returns how it was trained, without its classes, its images and its epochs.

        Settings that mean nothing to it are left out: the interval in a prompt without slots for
        words, and the width of an average over epochs where none is taken.
        """
        others = {"classes", "history", "image_hashes"}
        others |= set() if self.layout.slots else {"interval"}
        others |= {"average_std"} if self.hyperparameters.average_mean is None else set()
        return {key: value for key, value in self.training.items() if key not in others}

    @property
    def training(self) -> dict[str, Any]:
        """Returns how it was trained, with all hyperparameters, as plain values."""
        return {
            "data": self.data,
            "classes": list(self.trained_classes),
            "shots": self.config.shots,
            "images": self.images,
            "seed": self.config.seed,
            "views": self.config.views,
            **vars(self.hyperparameters),
            "class_template": self.config.class_template,
            "history": self.history.as_dict(),
            "image_hashes": [" ".join(hashes) for hashes in self.image_hashes],
        }

    @property
    def results(self) -> dict[str, Any]:
        """Returns the accuracies as plain values."""
        return {
            "train_accuracy": self.train_accuracy,
            "words_tried": [asdict(trial) for trial in self.trials],
            "held_out_accuracy": self.held_out_accuracy,
            "held_out_images": self.held_out_images,
            "comparison": self.comparison.as_dict() if self.comparison else None,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], tensors: dict[str, Tensor]) -> FitResult:
        """Returns the result that `as_dict` gave.

        Parameters
        ----------
        values : mapping
            The content of config.json.
        tensors : dict
            The trained vectors by name.

        Returns
        -------
        FitResult
            The result, without a learner.

        Raises
        ------
        ConfigError
            If a value is missing or not allowed, or values contradict each other.
        """
        saved: _Saved = from_plain(_Saved, values)
        training, results = saved["training"], saved["results"]
        trained_classes, comparison = training["classes"], results["comparison"]
        result = cls(
            config=FitConfig.from_dict(saved["config"]),
            hyperparameters=from_plain(Hyperparameters, values["training"], "training"),
            prompt=saved["prompt"],
            words=saved["words"],
            backbone=dict(saved["backbone"]),
            preprocessing=saved["preprocessing"].as_dict(),
            classes=saved["classes"],
            trained_classes=trained_classes,
            data=training["data"],
            images=training["images"],
            train_accuracy=results["train_accuracy"],
            comparison=None
            if comparison is None
            else Comparison.from_dict(comparison, trained_classes),
            trials=results["words_tried"],
            history=training["history"],
            selection=saved["selection"],
            image_hashes=tuple(tuple(each.split()) for each in training["image_hashes"]),
            alike=saved["alike"],
            ipl_version=saved["ipl_version"],
            tensors=tensors,
        )
        result._check_together()
        return result

    def _check_together(self) -> None:
        """Raises ConfigError for values of a file that contradict each other."""
        if PromptLayout.parse(self.prompt)[1] != self.words:
            raise ConfigError("the words differ from those in the prompt.")
        steps = len(self.selection.steps) if self.selection else 0
        unsearched = self.config.arm in (GIVEN, RANDOM)
        if steps != len(self.words) and not (unsearched and not steps):
            raise ConfigError(
                f"selection has {steps} steps for {len(self.words)} words; each word has one."
            )
        counts = [len(of_class) for of_class in self.image_hashes]
        if counts and (len(counts), sum(counts)) != (len(self.trained_classes), self.images):
            raise ConfigError(
                f"training.image_hashes has {several(sum(counts), 'image')} of "
                f"{several(len(counts), 'class', 'classes')}; the prompt was trained on "
                f"{self.images} of {len(self.trained_classes)}."
            )


# -- what is read of config.json ------------------------------------------------------------------


class _Backbone(TypedDict):
    name: str
    weights_sha256: str
    precision: str


class _Training(TypedDict):  # beside the hyperparameters
    data: str
    classes: tuple[str, ...]
    images: int
    history: TrainingHistory
    image_hashes: tuple[str, ...]


class _Results(TypedDict):
    train_accuracy: Share
    words_tried: tuple[Trial, ...]
    comparison: dict[str, Any] | None


class _Saved(TypedDict):
    prompt: str
    words: tuple[str, ...]
    backbone: _Backbone
    preprocessing: Preprocessing
    classes: tuple[str, ...]
    alike: bool
    config: dict[str, Any]
    training: _Training
    results: _Results
    selection: Selection | None
    ipl_version: str


def identity_of(backbone: Backbone) -> dict[str, Any]:
    """Returns the name, the hash of the weights and the precision of a backbone."""
    return {
        "name": backbone.name,
        "weights_sha256": backbone.weights_sha256,
        "precision": backbone.precision,
    }
