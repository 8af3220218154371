"""FitResult: the result of a fit, the same for a new fit, a saved run and the reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from ipl._version import __version__
from ipl.backbone.backbone import Backbone
from ipl.backbone.linear_probe import LinearProbe
from ipl.backbone.preprocessing import Preprocessing
from ipl.config import CHOSEN, GIVEN, RANDOM, FitConfig
from ipl.display.formatting import several
from ipl.learners.hyperparameters import Hyperparameters
from ipl.learners.learner import Learner
from ipl.prompts.layout import PromptLayout
from ipl.support.errors import ConfigError
from ipl.support.plain_values import Share, from_plain
from ipl.training.comparison import WITHOUT_WORDS, Comparison
from ipl.training.history import TrainingHistory
from ipl.training.schedule import limit_effort
from ipl.training.words_matter import LossChange, words_statement
from ipl.words.selection import Selection

MOST_CLASSES = 50_000  # of a saved run; of ImageNet-21k there are 21,843
NONE_EARNED = "No word earned its place, so the prompt has none."
BACKBONE = ("name", "weights_sha256", "precision")  # what identifies one
HEAD_NUMBERS = ("alpha", "names_alpha", "c", "folds")
HEAD_TENSORS = ("head/weight", "head/bias")  # no parameter of a learner has such a name


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
    threads : int
        The number of threads that computed it, on which the last bits depend.
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
    head : LinearProbe or None
        The linear head for `trained_classes`, whose offset is the logits of the prompt; None if
        there is none.
    replaced_words : LossChange or None
        How random words in place of its own change its held-out loss; None if that was not tried.
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
    threads: int
    comparison: Comparison | None = None
    replaced_words: LossChange | None = None
    alike: bool = False
    notes: tuple[str, ...] = ()
    ipl_version: str = __version__
    tensors: dict[str, Tensor] = field(default_factory=dict, compare=False, repr=False)
    head: LinearProbe | None = field(default=None, compare=False, repr=False)
    learner: Learner | None = field(default=None, compare=False, repr=False)
    checkpoints: tuple[str, ...] = field(default=(), compare=False, repr=False)

    @property
    def layout(self) -> PromptLayout:
        """The layout that the line of text describes."""
        return PromptLayout.parse(self.prompt)[0]

    @property
    def held_out_accuracy(self) -> float | None:
        """The accuracy on the held-out images; None if there were none."""
        return self.comparison.accuracy() if self.comparison else None

    @property
    def held_out_images(self) -> int:
        """How many images were held out."""
        return self.comparison.total if self.comparison else 0

    def head_for(self, classes: Sequence[str]) -> LinearProbe | None:
        """The linear head for these classes; None if one of them was not trained.

        For some of the classes of the training it is the head with their rows: the probabilities
        are renormalised over them.
        """
        head, trained = self.head, self.trained_classes
        if head is None or tuple(classes) == trained:
            return head
        known = len(set(trained)) == len(trained) and set(classes) <= set(trained)
        return head.only([trained.index(name) for name in classes]) if known else None

    @property
    def words_from(self) -> str:
        """Where the words come from, or why there are none."""
        none_earned = not self.words and self.config.arm == CHOSEN
        return NONE_EARNED if none_earned else self.config.about_words

    @property
    def about_words(self) -> str:
        """What the words of the prompt are worth on held-out images."""
        if not self.words:
            return self.words_from
        comparison, without = self.comparison, None
        if comparison is not None and (method := comparison.of(WITHOUT_WORDS)) is not None:
            without = comparison.difference(method)
        return words_statement(self.replaced_words, without)

    def as_dict(self) -> dict[str, Any]:
        """The content of config.json, as plain values."""
        head = self.head
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
            "head": head and {name: getattr(head, name) for name in HEAD_NUMBERS},
            "selection": self.selection.as_dict() if self.selection else None,
            "ipl_version": self.ipl_version,
        }

    @property
    def training_settings(self) -> dict[str, Any]:
        """How it was trained: what means something to it, without classes, images and epochs."""
        others = {"classes", "history", "image_hashes"}
        if not self.layout.slots:
            others.add("interval")
        if self.hyperparameters.average_mean is None:
            others.add("average_std")
        return {key: value for key, value in self.training.items() if key not in others}

    @property
    def training(self) -> dict[str, Any]:
        """How it was trained, with all hyperparameters, as plain values."""
        return {
            "data": self.data,
            "classes": list(self.trained_classes),
            "shots": self.config.shots,
            "images": self.images,
            "seed": self.config.seed,
            "threads": self.threads,
            "views": limit_effort(self.config, [len(each) for each in self.image_hashes]).views,
            **vars(self.hyperparameters),
            "class_template": self.config.class_template,
            "history": self.history.as_dict(),
            "image_hashes": [" ".join(hashes) for hashes in self.image_hashes],
        }

    @property
    def results(self) -> dict[str, Any]:
        """The accuracies as plain values."""
        return {
            "train_accuracy": self.train_accuracy,
            "words_tried": [asdict(trial) for trial in self.trials],
            "held_out_accuracy": self.held_out_accuracy,
            "held_out_images": self.held_out_images,
            "comparison": self.comparison.as_dict() if self.comparison else None,
            "replaced_words": self.replaced_words and self.replaced_words._asdict(),
            "about_words": self.about_words,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], tensors: dict[str, Tensor]) -> FitResult:
        """The result that `as_dict` gave, without a learner; every value is checked."""

        def read(place: str, kind: Any) -> Any:
            found: Any = values
            for name in place.split("."):
                if not isinstance(found, Mapping) or name not in found:
                    raise ConfigError(f"{place} is missing.")
                found = found[name]
            return from_plain(kind, found, place)

        texts = tuple[str, ...]
        trained_classes = read("training.classes", texts)
        comparison = read("results.comparison", dict[str, Any] | None)
        result = cls(
            config=FitConfig.from_dict(read("config", dict[str, Any])),
            hyperparameters=read("training", Hyperparameters),
            prompt=read("prompt", str),
            words=read("words", texts),
            backbone={name: read(f"backbone.{name}", str) for name in BACKBONE},
            preprocessing=read("preprocessing", Preprocessing).as_dict(),
            classes=read("classes", texts),
            trained_classes=trained_classes,
            data=read("training.data", str),
            images=read("training.images", int),
            threads=read("training.threads", int),
            train_accuracy=read("results.train_accuracy", Share),
            comparison=None
            if comparison is None
            else Comparison.from_dict(comparison, trained_classes),
            replaced_words=read("results.replaced_words", LossChange | None),
            trials=read("results.words_tried", tuple[Trial, ...]),
            history=read("training.history", TrainingHistory),
            selection=read("selection", Selection | None),
            image_hashes=tuple(
                tuple(each.split()) for each in read("training.image_hashes", texts)
            ),
            alike=read("alike", bool),
            ipl_version=read("ipl_version", str),
            tensors=tensors,
        )
        if read("head", dict[str, Any] | None) is not None:
            head = LinearProbe(
                *_take_head(tensors, len(trained_classes)),
                c=read("head.c", float),
                folds=read("head.folds", int),
                alpha=read("head.alpha", Share),
                names_alpha=read("head.names_alpha", Share),
            )
            result = replace(result, head=head)
        result._check_together()
        return result

    def _check_together(self) -> None:
        """Raises ConfigError for values of a file that contradict each other."""
        if len(self.classes) > MOST_CLASSES:
            raise ConfigError(
                f"it has {len(self.classes):,} classes; at most {MOST_CLASSES:,} are allowed."
            )
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


def _take_head(tensors: dict[str, Tensor], classes: int) -> tuple[Tensor, Tensor]:
    """Weights and bias of the head, taken out of the tensors of a saved run."""
    weight, bias = (tensors.pop(name, torch.empty(0)) for name in HEAD_TENSORS)
    if weight.ndim != 2 or len(weight) != classes or bias.shape != (classes,):
        raise ConfigError(
            f"the head's tensors are {tuple(weight.shape)} and {tuple(bias.shape)}; it needs a row "
            f"of weights and a bias for each of {classes} classes."
        )
    return weight, bias


def identity_of(backbone: Backbone) -> dict[str, Any]:
    return {name: getattr(backbone, name) for name in BACKBONE}
