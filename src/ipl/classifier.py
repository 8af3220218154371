"""PromptClassifier: from images to a readable prompt, and from a prompt to predictions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.encode_images import ImageFeatures, Source
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.loading import load_backbone, load_wider
from ipl.backbone.prefix_cache import MEMORY
from ipl.backbone.shots import LabelledFeatures, encode_items
from ipl.datasets.dataset import Dataset, check_class_names
from ipl.datasets.lists import read_data, read_labels, read_names, read_sources
from ipl.estimator import Estimator
from ipl.learners.learner import CLASS_TEMPLATE, Learner
from ipl.learners.recipe import Recipe
from ipl.saving.format import SavedPrompt, read_run, write_run
from ipl.saving.restore import capture, find_backbone, restore
from ipl.saving.sharing import find_run, push_run
from ipl.support.errors import DataError, IplError, NotFiniteError, NotFittedError, SavedRunError
from ipl.support.progress import SILENT, Reporter
from ipl.training.fit import learn
from ipl.training.fitting import features_for
from ipl.training.settings import FitSettings
from ipl.words.modes import Search
from ipl.words.pool import Pool
from ipl.words.selection import Selection
from ipl.words.template import DEFAULT_TEMPLATE

Images = Sequence[str | Path | Image.Image]


class PromptClassifier(Estimator):
    """A frozen CLIP with a prompt learnt from a few images per class.

    `words` is how many real words the prompt gets: 0 is the plain learner, "auto" the number from 1
    to 6 that trains best. What is None takes the learner's published value for the `protocol`.
    """

    classes_: list[str] | np.ndarray[Any, Any]  # an array after fit(X, y), as scikit-learn has it

    def __init__(
        self,
        backbone: str | Backbone = "pocket",
        learner: str = "coop",
        words: int | str = 3,
        *,
        shots: int = 16,
        epochs: int | None = None,
        interval: int | None = None,
        batch: int | None = None,
        lr: float | None = None,
        m: int | None = None,
        depth: int | None = None,
        class_template: str = CLASS_TEMPLATE,
        lambda_: float = 0.1,
        preset: str = "paper",
        word_embedding: str = "text",
        template: str = DEFAULT_TEMPLATE,
        search: str | Search = "exact",
        memory: float = MEMORY,
        placeholder: str = "token",
        views: int | str = 8,
        pool: Pool | None = None,
        seed: int = 1,
        device: str = "auto",
        precision: str = "fp32",
        cache: bool = True,
        strict: bool = False,
        protocol: str = "base-to-novel",
        reporter: Reporter = SILENT,
    ) -> None:
        self.backbone, self.learner, self.words, self.shots = backbone, learner, words, shots
        self.epochs, self.interval, self.batch, self.lr = epochs, interval, batch, lr
        self.m, self.depth, self.class_template = m, depth, class_template
        self.lambda_, self.preset, self.word_embedding = lambda_, preset, word_embedding
        self.template, self.search, self.memory, self.pool = template, search, memory, pool
        self.placeholder, self.views, self.seed = placeholder, views, seed
        self.device, self.precision, self.cache, self.strict = device, precision, cache, strict
        self.protocol, self.reporter = protocol, reporter
        self._learner: Learner | None = None
        self.check_params()

    def check_params(self) -> None:
        """Raises ConfigError for parameters out of range or at odds with each other."""
        FitSettings.of(self.get_params())

    @property
    def recipe(self) -> Recipe:
        """Returns the numbers that a fit trains with: those given, else the learner's."""
        return FitSettings.of(self.get_params()).recipe

    def fitted(self) -> bool:
        """Returns whether something has been learnt."""
        return self._learner is not None

    # -- learning -------------------------------------------------------------------------------

    def fit(
        self, data: Any, y: Any = None, features: FeatureStore | None = None
    ) -> PromptClassifier:
        """Returns itself, having learnt from up to `shots` images of each class.

        Data is a folder, a CSV or JSONL file, a Dataset, or one of Hugging Face or torchvision; or
        a list of paths or images, with the list of their class names as `y`. What is not drawn
        for training, or the data's own test part, is held out and scored. Fits that share a store
        of `features` share the work of the towers.
        """
        dataset = read_data(data, y, self.strict)
        backbone = self.backbone
        if not isinstance(backbone, Backbone):
            backbone = load_backbone(backbone, self.device, self.precision)
        while True:
            try:
                self._fit(dataset, backbone, features)
                break
            except NotFiniteError as error:
                backbone, features = load_wider(backbone, error, self.reporter), None
        if y is not None:
            self.classes_ = np.array(dataset.class_names)  # as given, the way scikit-learn wants it
        for note in self.notes_:
            self.reporter.warn(note)
        return self

    def _fit(self, dataset: Dataset, backbone: Backbone, features: FeatureStore | None) -> None:
        learnt = learn(dataset, backbone, self.get_params(), features)
        self._learner, self.record_ = learnt.fitted.learner, learnt.fitted.record
        self.selection_: Selection | None = learnt.selection
        names = list(self._learner.prompts.class_names)
        self.classes_ = names
        rest = dataset.test or learnt.rest
        held_out = encode_items(rest, "held-out", learnt.store, self.strict, self.reporter)
        self.notes_: list[str] = [*learnt.notes, *held_out.notes]
        self.results_: dict[str, Any] = {
            "train_accuracy": self._accuracy(learnt.shots),
            "words_tried": [asdict(trial) for trial in learnt.fitted.trials],
            "held_out_accuracy": self._accuracy(held_out) if held_out.items else None,
            "held_out_images": len(held_out.items),
        }
        self.training_: dict[str, Any] = {
            "data": dataset.name,
            "classes": names,
            "shots": self.shots,
            "images": len(learnt.shots.items),
            "seed": self.seed,
            "views": self.views,
            **vars(learnt.settings.recipe),
            "class_template": self.class_template,
            "history": self.record_.as_dict(),
        }

    def _accuracy(self, seen: LabelledFeatures, places: Tensor | None = None) -> float:
        labels = seen.labels if places is None else places[seen.labels]
        features = features_for(self._fitted(), seen)
        return float((self._logits(features).argmax(1).cpu() == labels).double().mean())

    # -- using ----------------------------------------------------------------------------------

    def predict_proba(self, images: Images) -> np.ndarray[Any, Any]:
        """Returns probabilities (images, classes) for paths or images."""
        return self.probabilities(self.encode(images))

    def predict(self, images: Images) -> list[str]:
        """Returns the most probable class name of each path or image."""
        return [str(self.classes_[i]) for i in self.predict_proba(images).argmax(1)]

    def encode(self, images: Images) -> Tensor:
        """Returns image features (images, dim); an unreadable image is an error here."""
        seen = self.encode_images(read_sources(images, "images"))
        if seen.unreadable:
            raise DataError(f"Unreadable image: {seen.unreadable[0]}.")
        return seen.features

    def encode_images(
        self, sources: Sequence[Source], advance: Callable[..., None] | None = None
    ) -> ImageFeatures:
        """Returns the features of those images that can be read, and why others cannot."""
        return self._fitted().encode_images(sources, advance)

    def probabilities(self, features: Tensor) -> np.ndarray[Any, Any]:
        """Returns probabilities (images, classes) of image features (images, dim)."""
        values: np.ndarray[Any, Any] = self._logits(features).softmax(1).cpu().numpy()
        return values

    def score(self, data: Any, y: Any = None, features: FeatureStore | None = None) -> float:
        """Returns the accuracy on a dataset's test part, or on all of it if it has none.

        Or that on a list of paths or images, with the list of their class names as `y`.
        """
        if y is not None:
            pairs = zip(self.predict(data), read_labels(y, len(data)), strict=True)
            return float(np.mean([predicted == name for predicted, name in pairs]))
        dataset = read_data(data, strict=self.strict)
        learner = self._fitted()
        known = list(self.classes_)
        unknown = [name for name in dataset.class_names if name not in known]
        if unknown:
            raise DataError(
                f"{dataset.name} has the class {unknown[0]!r}, which this prompt was not given; "
                "use with_classes([...]) first."
            )
        store = features or FeatureStore(learner.backbone)
        seen = encode_items(
            dataset.test or dataset.train, "test", store, self.strict, self.reporter
        )
        self.notes_ = [*dataset.notes, *seen.notes]
        for note in self.notes_:
            self.reporter.warn(note)
        if not seen.items:
            raise DataError(f"{dataset.name} has no readable image to score.")
        if list(dataset.class_names) == known:  # a published list may say a name twice
            return self._accuracy(seen)
        return self._accuracy(seen, torch.tensor([*map(known.index, dataset.class_names)]))

    def with_classes(self, classes: Sequence[str] | Dataset) -> PromptClassifier:
        """Returns a classifier with the same words and vectors for other classes."""
        if isinstance(classes, Dataset):
            names, alike = list(classes.class_names), classes.alike
        else:
            names, alike = read_names(classes, "classes"), False
        if len(names) < 2:
            raise DataError(f"{len(names)} class(es) given; at least two are needed.")
        check_class_names(names, alike)
        other = copy.copy(self)
        other._learner = self._fitted().for_classes(names)
        other.classes_ = list(other._learner.prompts.class_names)
        return other

    def __repr__(self) -> str:
        what = repr(self.prompt_) if self._learner else "not fitted"
        return f"PromptClassifier({self.learner}, words={self.words}: {what})"

    @property
    def words_(self) -> list[str]:
        """Returns the words in the prompt, in order."""
        return list(self._fitted().words)

    @property
    def prompt_(self) -> str:
        """Returns the prompt as a line of text."""
        return self._fitted().layout.readable(self.words_)

    @property
    def learner_(self) -> Learner:
        """Returns the prompt itself, on its backbone."""
        return self._fitted()

    def _fitted(self) -> Learner:
        if self._learner is None:
            raise NotFittedError("This classifier has learnt nothing yet; call fit(data) first.")
        return self._learner

    @torch.no_grad()
    def _logits(self, features: Tensor) -> Tensor:
        learner = self._fitted()
        return learner.logits(features.to(learner.backbone.device))

    # -- saving ---------------------------------------------------------------------------------

    def config(self) -> dict[str, Any]:
        """Returns what config.json says of this prompt, as plain values."""
        return self._saved().config()

    def save_pretrained(self, folder: str | Path, overwrite: bool = False) -> None:
        """Writes config.json, prompt.safetensors and README.md into a folder of its own."""
        write_run(Path(folder), self._saved(), overwrite)

    def push_to_hub(self, name: str, private: bool = False, message: str | None = None) -> str:
        """Returns the address of the saved form, put onto the Hugging Face hub as owner/name."""
        return push_run(self._saved(), name, private, message)

    def _saved(self) -> SavedPrompt:
        return capture(self._fitted(), self.training_, self.results_, self.selection_)

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
        """Returns the classifier saved in a folder or on the hub, with its words embedded anew.

        `backbone` says where the weights are now; they must be the ones the prompt was made for,
        unless `any_backbone` allows others. `revision` is one of the hub's.
        """
        folder = find_run(folder, revision)
        saved = read_run(folder)
        precision = precision or str(saved.backbone.get("precision", "fp32"))
        backbone = find_backbone(folder, saved, backbone, device, precision, any_backbone)
        try:
            classifier = cls(backbone, precision=precision, reporter=reporter, **saved.params())
            classifier._learner = restore(saved, backbone)
        except IplError as error:
            raise SavedRunError(f"{folder} is damaged: {error}") from error
        classifier.selection_ = saved.chosen
        classifier.classes_ = list(classifier._learner.prompts.class_names)
        classifier.training_, classifier.results_ = saved.training, saved.results
        return classifier
