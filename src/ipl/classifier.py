"""PromptClassifier: learns a readable prompt from images, and classifies images with it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.features import FeatureStore
from ipl.backbone.labelled_features import encode_items
from ipl.backbone.linear_probe import LinearProbe
from ipl.backbone.loading import load_backbone
from ipl.config import FitConfig, fit_settings, setting_names, takes_settings
from ipl.datasets.dataset import (
    Dataset,
    check_class_names,
    clean_class_name,
    quote_classes,
    read_alike,
)
from ipl.datasets.fewshot import HELD_OUT, hold_out
from ipl.datasets.in_memory import (
    check_pairs,
    read_data,
    read_labels,
    read_names,
    read_sources,
    sorted_labels,
)
from ipl.datasets.inspection import inspect_dataset
from ipl.display.formatting import first_few, several
from ipl.display.page import notebook_html
from ipl.display.table import Table
from ipl.learners.learner import Learner
from ipl.loggers import LogTo, log_run
from ipl.saving.format import config_of, read_run, write_run
from ipl.saving.restore import find_backbone, restore
from ipl.saving.run_folder import find_run
from ipl.saving.sharing import push_run
from ipl.support.errors import DataError, IplError, SavedRunError, did_you_mean
from ipl.support.progress import SILENT, Reporter
from ipl.training.checkpoint import remove_checkpoints
from ipl.training.fit import fit
from ipl.training.result import FitResult, identity_of
from ipl.words.pool import Pool
from ipl.words.selection import Selection

Images = Sequence[str | Path | Image.Image]
Array = np.ndarray[Any, Any]


@takes_settings(fit_settings())
class PromptClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """An image classifier: a frozen CLIP with a prompt learnt from a few images per class.

    It is an estimator of scikit-learn, so that `get_params`, `set_params`, `clone` and `fit(X, y)`
    work as there. `fit` checks the parameters before it computes anything.

    Parameters
    ----------
    backbone : str or Backbone, default "pocket"
        pocket (bundled), a Hugging Face name, a model folder, or a loaded backbone.
    learner : str, default "kgcoop"
        The prompt learner: coop, cocoop, kgcoop, maple, promptsrc, or one of your own.
    words : int or str, default "auto"
        How many real words the prompt gets: 0 is the plain learner; "auto" stops before the first
        word that gains nothing on held-out images; "paper" is the number from 1 to 6 that trains
        best.
    pool : Pool or None, default None
        The words to choose from. Default: those that `words_file` and `pool_part` give.
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
    head_ : LinearProbe or None
        The linear head that its predictions come from; None for classes that were not trained.
    notes_ : list of str
        Warnings of the fit, such as images that were skipped.

    Examples
    --------
    >>> classifier = PromptClassifier(words=2).fit("images/")  # doctest: +SKIP
    >>> classifier.prompt_  # doctest: +SKIP
    '[V V] *furry* [V V] *adopt* [V V] {cls}.'
    """

    classes_: list[str] | Array
    result_: FitResult
    notes_: list[str]

    def __init__(
        self,
        backbone: str | Backbone = "pocket",
        learner: str = FitConfig.learner,
        words: int | str = FitConfig.words,
        *,
        pool: Pool | None = None,
        reporter: Reporter = SILENT,
        **settings: Any,
    ) -> None:
        self.backbone, self.learner, self.words = backbone, learner, words
        self.pool, self.reporter = pool, reporter
        for name in setting_names():
            if name not in ("backbone", "learner", "words"):
                setattr(self, name, settings.pop(name, getattr(FitConfig, name)))
        for name in settings:
            hint = did_you_mean(name, setting_names())
            raise TypeError(f"{type(self).__name__} has no parameter {name!r}.{hint}")

    @property
    def config(self) -> FitConfig:
        """The parameters as a FitConfig, checked."""
        values = {name: getattr(self, name) for name in setting_names()}
        if isinstance(self.backbone, Backbone):
            values |= {"backbone": self.backbone.name, "precision": self.backbone.precision}
        return FitConfig(**values)

    # -- learning -------------------------------------------------------------------------------

    def fit(
        self,
        data: Any,
        y: Any = None,
        store: FeatureStore | None = None,
        compare: bool = False,
        log_to: LogTo = (),
        validation_fraction: float | None = None,
    ) -> PromptClassifier:
        """Learn a prompt from all training images, or `shots` of each class.

        The test images of the data are held out and scored (with `held_out="val"`, its validation
        images) or, if it has none, a fifth of each class, always the same; copies of an image stay
        together. Of `fit(X, y)` nothing is held out unless `validation_fraction` says so. With
        `cache`, the training stays in the cache until it is saved, for 30 days at most; the same
        fit again takes it from there.

        Parameters
        ----------
        data : str, Path, Dataset or list
            A folder, a CSV or JSONL file, a Dataset; or a list of paths, images or arrays of
            pixels, with their class names as `y`.
        y : list of str or int, optional
            The class name of each image, if `data` is a list; numbers are names, too.
        store : FeatureStore, optional
            Keeps the features of images and texts, so that several fits can share them.
        compare : bool
            Whether the same prompt is trained without words as well, for `result_.comparison`;
            zero-shot and a linear probe are always in it.
        log_to : str, RunLogger or list of these
            Where words, losses and accuracies are logged as they come: `tensorboard:DIR`,
            `wandb:PROJECT`, or a logger of your own.
        validation_fraction : float, optional
            The share of each class that is held out of data without test images.

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
        dataset = read_data(data, labels, config.held_out)
        if validation_fraction is None:
            validation_fraction = HELD_OUT if labels is None else 0.0
        if validation_fraction and not dataset.test:
            dataset = hold_out(dataset, validation_fraction, reporter=self.reporter)
        if not isinstance(data, Dataset):
            dataset = inspect_dataset(dataset)
        for note in dataset.notes:  # before the time for a training is spent
            self.reporter.warn(note)
        if not isinstance(backbone, Backbone):
            backbone = load_backbone(config.backbone, config.device, config.precision)
        name = config.run_name(dataset.name)
        with log_run(log_to, name, config.as_dict(), self.reporter) as log:
            self.result_ = fit(
                config,
                dataset,
                backbone,
                pool=self.pool,
                store=store,
                compare=compare,
                reporter=log,
            )
        self.notes_ = [*self.result_.notes, *_note_chance(self.result_)]
        for note in self.notes_:
            self.reporter.warn(note)
        self.classes_ = list(self.result_.classes)
        if labels is not None:  # an array of the labels as given, as scikit-learn expects
            self.classes_ = np.array(sorted_labels(labels))
        return self

    # -- using ----------------------------------------------------------------------------------

    def predict(self, images: Images) -> Array:
        """The most probable class of each image, as an array of `classes_`.

        Parameters
        ----------
        images : list of str, Path or PIL.Image.Image
            The images; arrays of pixels are images, too.

        Raises
        ------
        DataError
            If an image cannot be read.
        """
        best = self.log_probabilities(self.encode(images)).argmax(1)
        classes: Array = np.asarray(self.classes_)[best.numpy()]
        return classes

    def predict_proba(self, images: Images) -> Array:
        """The probability of each class (images, classes); see `predict`."""
        values: Array = np.exp(self.predict_log_proba(images))
        return values

    def predict_log_proba(self, images: Images) -> Array:
        """The logarithms of these probabilities."""
        values: Array = self.log_probabilities(self.encode(images)).float().numpy()
        return values

    def encode(self, images: Images) -> Tensor:
        """Image features (images, dim); raises DataError if an image cannot be read."""
        encoded = self.learner_.encode_images(read_sources(images, "images"))
        if encoded.unreadable:
            raise DataError(f"Unreadable image: {encoded.unreadable[0]}.")
        return encoded.features

    def log_probabilities(self, features: Tensor) -> Tensor:
        """Log-probabilities (images, classes) of features (images, dim), in fp64 on the CPU."""
        with torch.no_grad():
            logits = self.logits_function()(features.to(self.learner_.backbone.device))
        return logits.cpu().double().log_softmax(1)

    def logits_function(self) -> Callable[[Tensor], Tensor]:
        """A function from features (images, dim) to logits; fixed texts are computed only once.

        With a head, its logits are alpha times those of the prompt, plus linear ones.
        """
        prompt, head = self.learner_.logits_function(), self.head_
        if head is None:
            return prompt
        return lambda features: head.logits(features, prompt(features))

    @property
    def untrained_classes(self) -> list[str]:
        """The classes that it was not trained on."""
        trained = set(self.result_.trained_classes)
        return [name for name in self.learner_.prompts.class_names if name not in trained]

    @property
    def head_(self) -> LinearProbe | None:
        """The linear head for these classes; None if one of them was not trained."""
        return self.result_.head_for(self.learner_.prompts.class_names)

    def score(self, data: Any, y: Any = None, store: FeatureStore | None = None) -> float:
        """The accuracy on the test images of a dataset, or on all images if it has none.

        Images that it was trained on count like the others, and make it look better than it is;
        `ipl.inference.evaluation.evaluate` leaves them out.

        Parameters
        ----------
        data : str, Path, Dataset or list
            What `fit` takes, also with a single class or without training images; or a list of
            paths or images, with their class names as `y`.
        y : list of str or int, optional
            The class name of each image, if `data` is a list.
        store : FeatureStore, optional
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
            labels = read_labels(y)
            check_pairs(len(data), labels)
            names = [clean_class_name(str(label)) for label in labels]
            columns, features = self.columns(names, "y"), self.encode(data)
            return float((self.log_probabilities(features).argmax(1) == columns).double().mean())
        dataset = read_data(data, held_out=self.held_out, to_test=True)
        columns = self.columns(dataset.class_names, dataset.display_name)
        store = store or FeatureStore(self.learner_.backbone)
        items = dataset.test or dataset.train
        images = encode_items(items, "test", store, self.reporter)
        for note in (*dataset.notes, *images.notes):
            self.reporter.warn(note)
        if not images.items:
            raise DataError(f"{dataset.display_name} has no readable image to score.")
        guesses = self.log_probabilities(self.learner_.features_of(images, store)).argmax(1)
        return float((guesses == columns[images.labels]).double().mean())

    def columns(self, names: Sequence[str], source: str) -> Tensor:
        """The column of each of these class names; DataError, about `source`, if there is none."""
        classes = self.learner_.prompts.class_names
        if tuple(names) == tuple(classes):  # a published list may have a name twice
            return torch.arange(len(classes))
        if unknown := [name for name in dict.fromkeys(names) if name not in classes]:
            raise DataError(
                f"{source} has {quote_classes(unknown)}, which this prompt does not classify: it "
                f"chooses from {first_few(classes)}. The classes of the data must be among these, "
                "or among those given with --classes (with_classes in Python)."
            )
        columns = {name: classes.index(name) for name in set(names)}
        return torch.tensor([columns[name] for name in names])

    def with_classes(self, classes: Sequence[str] | Dataset) -> PromptClassifier:
        """A classifier with the same words and vectors for other classes; this one stays as it is.

        Parameters
        ----------
        classes : list of str or Dataset
            The class names, or a dataset that has them.

        Raises
        ------
        DataError
            If there are fewer than two classes, or two have the same name.
        """
        alike = isinstance(classes, Dataset) and classes.alike
        given = classes.class_names if isinstance(classes, Dataset) else classes
        class_names = read_names(given, "classes")
        if len(class_names) < 2:
            count = several(len(class_names), "class", "classes")
            raise DataError(f"{count} given; at least two are needed.")
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
            (several(len(classes), "class", "classes"), first_few(classes)),
        ]
        parts: list[str | Table] = [Table(["PromptClassifier", ""], rows, numbers=())]
        if comparison is not None and comparison.classes == tuple(classes):
            parts += [comparison.table(), *comparison.verdict]
        return notebook_html(self.prompt_, parts)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        # Notebooks would otherwise display scikit-learn's diagram.
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    @property
    def words_(self) -> list[str]:
        """The words in the prompt, in order."""
        return list(self.learner_.words)

    @property
    def prompt_(self) -> str:
        """The prompt as a line of text."""
        return self.learner_.layout.readable(self.words_)

    @property
    def selection_(self) -> Selection | None:
        """How the words were chosen; None if no search chose them."""
        return self.result_.selection

    @property
    def learner_(self) -> Learner:
        """The trained learner on its backbone."""
        check_is_fitted(self)
        assert self.result_.learner is not None
        return self.result_.learner

    # -- saving ---------------------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        """The content of config.json, as plain values."""
        return config_of(self._current_result())

    def save_pretrained(self, folder: str | Path, overwrite: bool = False) -> None:
        """Write config.json, prompt.safetensors and README.md into a folder.

        Parameters
        ----------
        folder : str or Path
            The folder; it appears with all three files, or not at all.
        overwrite : bool
            Whether a saved run in that folder may be replaced; other files never are.

        Raises
        ------
        SavedRunError
            If something is there that may not be replaced.
        """
        write_run(Path(folder), self._current_result(), overwrite)
        remove_checkpoints(self.result_.checkpoints)

    def push_to_hub(self, name: str, private: bool = False, message: str | None = None) -> str:
        """Upload the saved form to the Hugging Face hub.

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
        """The result of the fit with the classes and backbone of this classifier."""
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
        """Load a classifier from a folder or from the hub.

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
            if backbone.weights_sha256 != result.backbone["weights_sha256"]:
                result = replace(result, head=None)  # it knows the features of the other weights
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
    """A note if the prompt does no better on held-out images than guessing would."""
    chance = 1 / len(result.classes)
    if result.held_out_accuracy is None or result.held_out_accuracy > chance:
        return ()
    return (
        f"The held-out accuracy, {100 * result.held_out_accuracy:.1f} %, is no better than "
        f"guessing among {len(result.classes)} classes ({100 * chance:.1f} %): the training was "
        "too short, the backbone cannot tell these classes apart, or the labels are wrong.",
    )
