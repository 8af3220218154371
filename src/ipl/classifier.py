"""PromptClassifier: learns a readable prompt from images, and classifies images with it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.encode_images import BATCH
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.labelled_features import encode_items, note_unreadable
from ipl.backbone.loading import load_backbone
from ipl.config import FitConfig, names, settings
from ipl.config_fields import takes_settings
from ipl.datasets.dataset import (
    Dataset,
    check_class_names,
    clean_class_name,
    quote_classes,
    read_alike,
)
from ipl.datasets.hugging_face import LabelledStream, read_stream
from ipl.datasets.in_memory import (
    check_pairs,
    read_data,
    read_labels,
    read_names,
    read_sources,
    sorted_labels,
)
from ipl.datasets.inspection import inspect_dataset
from ipl.display.formatting import several
from ipl.display.page import notebook_html
from ipl.display.table import Table
from ipl.learners.learner import Learner
from ipl.loggers import LogTo, log_run
from ipl.saving.format import config_of, read_run, write_run
from ipl.saving.restore import find_backbone, restore
from ipl.saving.run_folder import find_run
from ipl.saving.sharing import push_run
from ipl.support.errors import (
    DataError,
    IplError,
    SavedRunError,
    did_you_mean,
)
from ipl.support.extras import make_frame
from ipl.support.progress import SILENT, Reporter
from ipl.training.checkpoint import remove_checkpoints
from ipl.training.fit import accuracy, fit
from ipl.training.result import FitResult, identity_of
from ipl.words.pool import Pool
from ipl.words.selection import Selection

if TYPE_CHECKING:
    import pandas

Images = Sequence[str | Path | Image.Image]
SHOWN_CLASSES = 20  # in a notebook


@takes_settings(settings())
class PromptClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """An image classifier: a frozen CLIP with a prompt learnt from a few images per class.

    It is an estimator of scikit-learn, so that `get_params`, `set_params`, `clone` and `fit(X, y)`
    work as there. `fit` checks the parameters before it computes anything.

    Parameters
    ----------
    backbone : str or Backbone, default "pocket"
        pocket (bundled), a Hugging Face name, a model folder, or a loaded backbone.
    learner : str, default "coop"
        The prompt learner: coop, cocoop, kgcoop, maple, promptsrc, or one of your own.
    words : int or str, default 3
        How many real words the prompt gets: 0 is the plain learner; "auto" stops before the first
        word whose gain may be chance; "paper" is the number from 1 to 6 that trains best.
    pool : Pool or None, default None
        The words to choose from. Default: those that `words_file` and `no_names` give.
    reporter : Reporter
        Gets the progress and the warnings of a fit. Default: only warnings are displayed.
    **settings

    Attributes
    ----------
    classes_ : list of str
        The class names; after `fit(X, y)` an array of the labels, as in scikit-learn.
    result_ : FitResult
        The result of the fit: accuracies, words, history and hyperparameters.
    words_ : list of str
        The words in the prompt, in order.
    prompt_ : str
        The prompt as a line of text.
    selection_ : Selection or None
        How the words were chosen; None if no search chose them.
    learner_ : Learner
        The trained learner on its backbone.
    notes_ : list of str
        Warnings, such as images that were skipped.

    Examples
    --------
    >>> classifier = PromptClassifier(words=2).fit("images/")  # doctest: +SKIP
    >>> classifier.prompt_  # doctest: +SKIP
    '[V V] *furry* [V V] *adopt* [V V] {cls}.'
    """

    classes_: list[str] | np.ndarray[Any, Any]
    result_: FitResult
    notes_: list[str]

    def __init__(
        self,
        backbone: str | Backbone = "pocket",
        learner: str = "coop",
        words: int | str = 3,
        *,
        pool: Pool | None = None,
        reporter: Reporter = SILENT,
        **settings: Any,
    ) -> None:
        self.backbone, self.learner, self.words = backbone, learner, words
        self.pool, self.reporter = pool, reporter
        for name in names():
            if name not in ("backbone", "learner", "words"):
                setattr(self, name, settings.pop(name, getattr(FitConfig, name)))
        for name in settings:
            raise TypeError(
                f"{type(self).__name__} has no parameter {name!r}.{did_you_mean(name, names())}"
            )

    @property
    def config(self) -> FitConfig:
        """Returns the parameters as a FitConfig, checked."""
        values = {name: getattr(self, name) for name in names()}
        if isinstance(self.backbone, Backbone):
            values |= {"backbone": self.backbone.name, "precision": self.backbone.precision}
        return FitConfig(**values)

    # -- learning -------------------------------------------------------------------------------

    def fit(
        self,
        data: Any,
        y: Any = None,
        features: FeatureStore | None = None,
        compare: bool = False,
        log_to: LogTo = (),
    ) -> PromptClassifier:
        """Learns a prompt from up to `shots` images of each class.

        The test images of the data are held out and scored (with `held_out="val"`, its validation
        images) or, if it has none, the training images that were not drawn. With `cache`, the
        training stays in the cache until it is saved, for 30 days at most; the same fit again takes
        it from there.

        Parameters
        ----------
        data : str, Path, Dataset, list or object
            A folder, a CSV or JSONL file, a Dataset, a dataset of Hugging Face or torchvision; or a
            list of paths or images, with their class names as `y`.
        y : list of str or int, optional
            The class name of each image, if `data` is a list; numbers are names, too.
        features : FeatureStore, optional
            Keeps the features of images and texts, so that several fits can share them.
        compare : bool
            Whether the same prompt is trained without words as well, for `result_.comparison`;
            zero-shot and a linear probe are always in it.
        log_to : str, RunLogger or list of these
            Where words, losses and accuracies are logged as they come: `tensorboard:DIR`,
            `wandb:PROJECT`, or a logger of your own.

        Returns
        -------
        PromptClassifier
            Itself.

        Raises
        ------
        DataError
            If the data cannot be used.
        ConfigError
            If the parameters are not possible with the data or the backbone.
        """
        config, backbone = self.config, self.backbone
        labels = None if y is None else read_labels(y)
        dataset = read_data(data, labels, config.strict, config.held_out, config.shots)
        if not isinstance(data, Dataset):
            dataset = inspect_dataset(dataset, config.shots)
        if not isinstance(backbone, Backbone):
            backbone = load_backbone(config.backbone, config.device, config.precision)
        name = f"{dataset.name}-{config.learner}-seed{config.seed}"
        with log_run(log_to, name, config.as_dict(), self.reporter) as log:
            result = fit(
                config,
                dataset,
                backbone,
                pool=self.pool,
                features=features,
                compare=compare,
                reporter=log,
            )
        self.result_ = result
        self.notes_ = [*result.notes, *_note_chance(result)]
        self.classes_ = list(result.classes)
        if labels is not None:  # an array of the labels as given, as scikit-learn expects
            self.classes_ = np.array(sorted_labels(labels))
        for note in self.notes_:
            self.reporter.warn(note)
        return self

    # -- using ----------------------------------------------------------------------------------

    def predict_proba(self, images: Images) -> np.ndarray[Any, Any]:
        """Returns the probability of each class for each image.

        Parameters
        ----------
        images : list of str, Path or PIL.Image.Image
            The images; or a dataset of Hugging Face, which needs no labels.

        Returns
        -------
        ndarray of shape (images, classes)
            The probabilities.

        Raises
        ------
        DataError
            If an image cannot be read.
        """
        return self.probabilities(self.encode(images))

    def predict(self, images: Images) -> list[Any]:
        """Returns the most probable class of each image.

        Parameters
        ----------
        images : list of str, Path or PIL.Image.Image
            The images; or a dataset of Hugging Face, which needs no labels.

        Returns
        -------
        list of str
            A class name for each image; a number, if `fit` was given numbers.

        Raises
        ------
        DataError
            If an image cannot be read.
        """
        best = self.predict_proba(images).argmax(1)
        return list(np.asarray(self.classes_)[best].tolist())

    def predict_frame(self, images: Images) -> pandas.DataFrame:
        """Returns the probabilities as a frame of pandas.

        Parameters
        ----------
        images : list of str, Path or PIL.Image.Image
            The images; or a dataset of Hugging Face, which needs no labels.

        Returns
        -------
        pandas.DataFrame
            A row for each image, named by its path, and a column for each class;
            `frame.idxmax(axis=1)` are the predicted classes.

        Raises
        ------
        ConfigError
            If pandas is not installed.
        DataError
            If an image cannot be read.
        """
        names = [str(source) for source in read_sources(images, "images")]
        frame = make_frame(self.predict_proba(images), list(self.classes_), names)
        return frame.rename_axis(index="image", columns="class")

    def encode(self, images: Images) -> Tensor:
        """Returns image features (images, dim); raises DataError if an image cannot be read."""
        encoded = self.learner_.encode_images(read_sources(images, "images"))
        if encoded.unreadable:
            raise DataError(f"Unreadable image: {encoded.unreadable[0]}.")
        return encoded.features

    @torch.no_grad()
    def probabilities(self, features: Tensor) -> np.ndarray[Any, Any]:
        """Returns probabilities (images, classes) of image features (images, dim)."""
        logits = self.learner_.logits(features.to(self.learner_.backbone.device))
        values: np.ndarray[Any, Any] = logits.softmax(1).cpu().numpy()
        return values

    def score(self, data: Any, y: Any = None, features: FeatureStore | None = None) -> float:
        """Returns the accuracy on the test images of a dataset, or on all images if it has none.

        Images that it was trained on count like the others, and make it look better than it is;
        `ipl.inference.evaluation.evaluate` leaves them out.

        Parameters
        ----------
        data : str, Path, Dataset, list or object
            What `fit` takes, also with a single class or without training images; or a list of
            paths or images, with their class names as `y`.
        y : list of str or int, optional
            The class name of each image, if `data` is a list.
        features : FeatureStore, optional
            Keeps the features of images, so that several calls can share them.

        Returns
        -------
        float
            The share of images that are classified correctly, from 0 to 1.

        Raises
        ------
        DataError
            If the data has unknown classes, or no readable image.
        """
        if y is not None:
            return self._score_pairs(data, read_labels(y))
        strict = self.strict
        if (stream := read_stream(data, self.held_out)) is not None:
            return self._score_stream(stream, strict)
        dataset = read_data(data, strict=strict, held_out=self.held_out, to_test=True)
        learner, classes = self.learner_, list(self.learner_.prompts.class_names)
        self._check_known(dataset.class_names, dataset.display_name)
        store = features or FeatureStore(learner.backbone)
        items = dataset.test or dataset.train
        images = encode_items(items, "test", store, strict, self.reporter)
        self.notes_ = [*dataset.test_notes, *images.notes]
        for note in self.notes_:
            self.reporter.warn(note)
        if not images.items:
            raise DataError(f"{dataset.display_name} has no readable image to score.")
        if list(dataset.class_names) == classes:  # a published list may have a name twice
            return accuracy(learner, images, store=store)
        index = torch.tensor([classes.index(name) for name in dataset.class_names])
        return accuracy(learner, images, index[images.labels], store)

    @torch.no_grad()
    def _score_stream(self, stream: LabelledStream, strict: bool) -> float:
        """Returns the accuracy on all images of a stream, of which a batch is held at a time."""
        self._check_known(stream.class_names, stream.name)
        learner, remaining = self.learner_, iter(stream)
        columns = [learner.prompts.class_names.index(name) for name in stream.class_names]
        logits, right, total, unreadable = learner.head(), 0, 0, list[str]()
        while batch := list(islice(remaining, BATCH)):
            images = learner.encode_images([item.path for item in batch])
            guesses = logits(images.features.to(learner.backbone.device)).argmax(1).tolist()
            labels = [columns[batch[index].label] for index in images.indices]
            right += sum(guess == label for guess, label in zip(guesses, labels, strict=True))
            total += len(labels)
            unreadable += images.unreadable
        self.notes_ = list(note_unreadable(unreadable, "test", strict))
        for note in self.notes_:
            self.reporter.warn(note)
        if not total:
            raise DataError(f"{stream.name} has no readable image to score.")
        return right / total

    def _score_pairs(self, images: Images, labels: Sequence[str | int]) -> float:
        check_pairs(len(images), labels)
        names = [clean_class_name(str(label)) for label in labels]
        self._check_known(names, "y")
        classes = self.learner_.prompts.class_names
        predicted = self.predict_proba(images).argmax(1)
        return float(np.mean([classes[i] == n for i, n in zip(predicted, names, strict=True)]))

    def _check_known(self, names: Sequence[str], source: str) -> None:
        """Raises DataError if one of the names is not that of a class."""
        classes = self.learner_.prompts.class_names
        unknown = list(dict.fromkeys(name for name in names if name not in classes))
        if unknown:
            raise DataError(
                f"{source} has {quote_classes(unknown)}, which this classifier does not have; use "
                "with_classes([...]) first."
            )

    def with_classes(self, classes: Sequence[str] | Dataset) -> PromptClassifier:
        """Returns a classifier with the same words and vectors for other classes.

        Parameters
        ----------
        classes : list of str or Dataset
            The class names, or a dataset that has them.

        Returns
        -------
        PromptClassifier
            A copy; this one stays as it is.

        Raises
        ------
        DataError
            If there are fewer than two classes, or two have the same name.
        """
        if isinstance(classes, Dataset):
            class_names, alike = list(classes.class_names), classes.alike
        else:
            class_names, alike = read_names(classes, "classes"), False
        if len(class_names) < 2:
            given = several(len(class_names), "class", "classes")
            raise DataError(f"{given} given; at least two are needed.")
        check_class_names(class_names, alike)
        learner, other = self.learner_.rebuilt(class_names=class_names), copy.copy(self)
        other.result_ = replace(self.result_, learner=learner)
        other.classes_ = list(learner.prompts.class_names)
        return other

    def _repr_html_(self) -> str:
        if not hasattr(self, "result_"):
            return notebook_html(repr(self), [])
        learner, comparison = self.learner_, self.result_.comparison
        classes = learner.prompts.class_names
        rows = [
            ("learner", learner.name),
            ("backbone", learner.backbone.name),
            ("words", ", ".join(self.words_) or "none"),
            (several(len(classes), "class", "classes"), ", ".join(classes[:SHOWN_CLASSES])),
        ]
        if len(classes) > SHOWN_CLASSES:
            rows[-1] = (rows[-1][0], f"{rows[-1][1]}, ...")
        parts: list[str | Table] = [Table(["PromptClassifier", ""], rows, numbers=())]
        if comparison is not None and comparison.classes == tuple(classes):
            parts += [comparison.table(), *comparison.verdict]
        return notebook_html(self.prompt_, parts)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        # Notebooks would otherwise display scikit-learn's diagram.
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    @property
    def words_(self) -> list[str]:
        """Returns the words in the prompt, in order."""
        return list(self.learner_.words)

    @property
    def prompt_(self) -> str:
        """Returns the prompt as a line of text."""
        return self.learner_.layout.readable(self.words_)

    @property
    def selection_(self) -> Selection | None:
        """Returns how the words were chosen; None if no search chose them."""
        return self.result_.selection

    @property
    def learner_(self) -> Learner:
        """Returns the trained learner on its backbone."""
        check_is_fitted(self)
        assert self.result_.learner is not None
        return self.result_.learner

    # -- saving ---------------------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        """Returns the content of config.json, as plain values."""
        return config_of(self._current_result())

    def save_pretrained(self, folder: str | Path, overwrite: bool = False) -> None:
        """Writes config.json, prompt.safetensors and README.md into a folder.

        Parameters
        ----------
        folder : str or Path
            The folder; it appears with all three files, or not at all.
        overwrite : bool
            Whether a saved run in that folder may be replaced.

        Raises
        ------
        SavedRunError
            If the folder contains other files, or a run that may not be replaced.
        """
        write_run(Path(folder), self._current_result(), overwrite)
        remove_checkpoints(self.result_.checkpoints)

    def push_to_hub(self, name: str, private: bool = False, message: str | None = None) -> str:
        """Uploads the saved form to the Hugging Face hub.

        Parameters
        ----------
        name : str
            `owner/name` on the hub; the owner must be logged in.
        private : bool
            Whether the repository is private, if it is new.
        message : str, optional
            The commit message.

        Returns
        -------
        str
            The address of the repository.

        Raises
        ------
        SavedRunError
            If the hub cannot be reached, or refuses the upload.
        """
        address = push_run(self._current_result(), name, private, message)
        remove_checkpoints(self.result_.checkpoints)
        return address

    def _current_result(self) -> FitResult:
        """Returns the result of the fit with the classes and backbone of this classifier."""
        class_names, backbone = self.learner_.prompts.class_names, self.learner_.backbone
        return replace(
            self.result_,
            classes=class_names,
            alike=read_alike(class_names),
            backbone=identity_of(backbone),
            preprocessing=backbone.preprocessing.as_dict(),
        )

    @classmethod
    def from_pretrained(
        cls,
        folder: str | Path,
        backbone: str | Backbone | None = None,
        device: str = "auto",
        precision: str | None = None,
        reporter: Reporter = SILENT,
        any_backbone: bool = False,
        revision: str | None = None,
    ) -> PromptClassifier:
        """Loads a classifier from a folder or from the hub.

        Its parameters are those that the run was trained with.

        Parameters
        ----------
        folder : str or Path
            The folder, or `owner/name` on the hub.
        backbone : str or Backbone, optional
            The location of the weights, if they have moved; they must be the same weights.
        device : str
            auto, cpu, cuda, cuda:1, mps.
        precision : str, optional
            The precision of the towers. Default: that of the training.
        reporter : Reporter
            Gets progress and warnings.
        any_backbone : bool
            Whether other weights and another preprocessing are allowed.
        revision : str, optional
            A revision on the hub.

        Returns
        -------
        PromptClassifier
            The fitted classifier.

        Raises
        ------
        SavedRunError
            If there is no saved run, or it is damaged.
        BackboneError
            If the backbone cannot be loaded, or has other weights.
        """
        folder = find_run(folder, revision)
        result = read_run(folder)
        precision = precision or str(result.backbone.get("precision", "fp32"))
        backbone = find_backbone(folder, result, backbone, device, precision, any_backbone)
        settings = result.config.as_dict()
        settings |= {"backbone": backbone, "device": device, "precision": precision}
        try:
            classifier = cls(**settings, reporter=reporter)
            classifier.result_ = replace(result, learner=restore(result, backbone))
        except IplError as error:
            raise SavedRunError(f"{folder} is damaged: {error}") from error
        classifier.notes_ = []  # of a fit; they are not saved
        classifier.classes_ = list(classifier.learner_.prompts.class_names)
        return classifier

    # -- the protocols of scikit-learn ----------------------------------------------------------

    def __sklearn_clone__(self) -> PromptClassifier:
        # A backbone is large and frozen, so that the copy can share it.
        return type(self)(**self.get_params(deep=False))

    def __sklearn_is_fitted__(self) -> bool:
        # Not by any name with an underscore at its end: lambda_ is a parameter.
        return hasattr(self, "result_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inputs = tags.input_tags
        inputs.one_d_array, inputs.two_d_array, inputs.string = True, False, True
        return tags


def _note_chance(result: FitResult) -> tuple[str, ...]:
    """Returns a note if the prompt does no better on held-out images than guessing would."""
    chance = 1 / len(result.classes)
    if result.held_out_accuracy is None or result.held_out_accuracy > chance:
        return ()
    return (
        f"The held-out accuracy, {100 * result.held_out_accuracy:.1f} %, is no better than "
        f"guessing among {len(result.classes)} classes ({100 * chance:.1f} %): the training was "
        "too short, the backbone cannot tell these classes apart, or the labels are wrong.",
    )
