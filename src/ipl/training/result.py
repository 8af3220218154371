"""FitResult: the result of a fit, the same for a new fit, a saved run and the reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from torch import Tensor

from ipl._version import __version__
from ipl.backbone.backbone import Backbone
from ipl.config import PAPER, FitConfig
from ipl.learners.hyperparameters import Hyperparameters
from ipl.learners.learner import Learner
from ipl.learners.registry import learner_spec
from ipl.prompts.layout import PromptLayout
from ipl.training.baseline_names import WITHOUT_WORDS
from ipl.training.baselines import BaselineComparison
from ipl.training.history import TrainingHistory
from ipl.training.schedule import images_per_epoch
from ipl.words.selection import Selection


@dataclass(frozen=True)
class Trial:
    """The accuracy and loss on the training images with a number of words."""

    words: int
    accuracy: float
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
    held_out_accuracy : float or None
        Accuracy on images that were held out; None if there were none.
    held_out_images : int
        How many images were held out.
    comparison : BaselineComparison or None
        The prompt beside its baselines on the held-out images; None if there were none, or in a
        run saved by a version that did not compare.
    trials : tuple of Trial
        The result of every number of words that was tried.
    history : TrainingHistory or None
        The epochs; None in a run saved by a version that did not record them.
    selection : Selection or None
        How the words were chosen; None if no search chose them.
    image_hashes : tuple of tuples of str
        Short hashes of the training images of each of `trained_classes`, by which they are
        recognised again; empty in a run saved by a version that did not hash them.
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
    held_out_accuracy: float | None
    held_out_images: int
    trials: tuple[Trial, ...]
    history: TrainingHistory | None
    selection: Selection | None
    comparison: BaselineComparison | None = None
    image_hashes: tuple[tuple[str, ...], ...] = ()
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
    def seconds_to_compare(self) -> float | None:
        """Returns how long it would take to train it without words too, None if nothing would."""
        compared = self.comparison is not None and not self.comparison.of(WITHOUT_WORDS)
        return self.history.seconds if compared and self.words and self.history else None

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
        values: dict[str, Any] = {
            "learner": self.config.learner,
            "prompt": self.prompt,
            "words": list(self.words),
            "placeholder": self.config.placeholder,
            "backbone": self.backbone,
            "preprocessing": self.preprocessing,
            "classes": list(self.classes),
            "config": self.config.as_dict(),
            "training": self.training,
            "results": self.results,
            "selection": self.selection.as_dict() if self.selection else None,
            "ipl_version": self.ipl_version,
        }
        if self.alike:
            values["alike"] = True
        return values

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
        hashes = self.image_hashes
        return {
            "data": self.data,
            "classes": list(self.trained_classes),
            "shots": self.config.shots,
            "images": self.images,
            "seed": self.config.seed,
            "views": self.config.views,
            **vars(self.hyperparameters),
            "class_template": self.config.class_template,
            **({"history": self.history.as_dict()} if self.history else {}),
            **({"image_hashes": [" ".join(h) for h in hashes]} if hashes else {}),
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
        """Returns the result that `as_dict` gave, or that version 0.1.0 wrote.

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
            If the settings contradict each other.
        """
        training, results = values["training"], values["results"]
        selection = Selection.from_dict(values["selection"]) if values["selection"] else None
        history, comparison = training.get("history"), results.get("comparison")
        trained_classes = tuple(training.get("classes") or values["classes"])
        return cls(
            config=FitConfig.from_dict(values.get("config") or _config_of_0_1(values), False),
            hyperparameters=Hyperparameters(**_field_values(Hyperparameters, training)),
            prompt=values["prompt"],
            words=tuple(values["words"]),
            backbone=dict(values["backbone"]),
            preprocessing=dict(values["preprocessing"]),
            classes=tuple(values["classes"]),
            trained_classes=trained_classes,
            data=training["data"],
            images=training["images"],
            train_accuracy=results["train_accuracy"],
            held_out_accuracy=results["held_out_accuracy"],
            held_out_images=results["held_out_images"],
            comparison=BaselineComparison.from_dict(comparison, trained_classes)
            if comparison
            else None,
            trials=tuple(Trial(**trial) for trial in results.get("words_tried", ())),
            history=TrainingHistory.from_dict(history) if history else None,
            selection=selection,
            image_hashes=tuple(tuple(each.split()) for each in training.get("image_hashes", ())),
            alike=values.get("alike", False),
            ipl_version=values["ipl_version"],
            tensors=tensors,
        )


def identity_of(backbone: Backbone) -> dict[str, Any]:
    """Returns the name, the hash of the weights and the precision of a backbone."""
    return {
        "name": backbone.name,
        "weights_sha256": backbone.weights_sha256,
        "precision": backbone.precision,
    }


def _config_of_0_1(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the config of a run that version 0.1.0 saved, which had no `config` block."""
    training, words = values["training"], len(values["words"])
    found = len(values["results"].get("words_tried", ())) > 1
    published = vars(learner_spec(values["learner"]).hyperparameters(1 if found else words))
    given = _field_values(FitConfig, training)
    return {
        **_field_values(FitConfig, values["selection"] or {}),
        **{name: value for name, value in given.items() if value != published.get(name)},
        "learner": values["learner"],
        "words": PAPER if found else words,
        "placeholder": values["placeholder"],
        "backbone": values["backbone"]["name"],
        "precision": values["backbone"].get("precision", "fp32"),
    }


def _field_values(
    kind: type[Hyperparameters | FitConfig], values: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the values that are fields of a dataclass and not None."""
    return {f.name: values[f.name] for f in fields(kind) if values.get(f.name) is not None}
