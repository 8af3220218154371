"""PromptClassifier: from pictures to a readable prompt, and from a prompt to predictions."""

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

from ipl.backbone import MEMORY, Backbone, FeatureStore, ImageFeatures, load_backbone
from ipl.cache import Cache
from ipl.datasets import Dataset, check_class_names, check_draw, read_dataset
from ipl.errors import ConfigError, DataError, IplError, SavedRunError
from ipl.learners import CLASS_TEMPLATE, PROTOCOLS, Learner, Recipe, learner_class
from ipl.lexicon import Pool
from ipl.progress import SILENT, Reporter
from ipl.saving import SavedPrompt, capture, find_backbone, read_run, restore, write_run
from ipl.selection import DEFAULT_TEMPLATE, Search, Seen, Selection, WordChoice, draw_shots, look
from ipl.training import check_words, features_for, fit_learner, numbers_to_try

Images = Sequence[str | Path | Image.Image]


class PromptClassifier:
    """A frozen CLIP with a prompt learnt from a few pictures per class.

    `words` is how many real words the prompt gets: 0 is the plain learner, "auto" the number from 1
    to 6 that trains best. What is None takes the learner's published value for the `protocol`.
    """

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
        check_draw(shots, seed)
        self.backbone = backbone
        self.learner = learner
        self.words = words
        self.shots = shots
        if protocol not in PROTOCOLS:
            raise ConfigError(f"protocol is {protocol!r}; allowed are {', '.join(PROTOCOLS)}.")
        published = learner_class(learner).recipe(words if isinstance(words, int) else 1, protocol)
        given = {"epochs": epochs, "interval": interval, "batch": batch, "lr": lr, "m": m}
        self.recipe: Recipe = published.override(**given, depth=depth)
        check_words(words, self.recipe)
        self.choice = WordChoice.of(lambda_, preset, word_embedding, template, search, memory, pool)
        self.placeholder, self.class_template = placeholder, class_template
        self.views, self.seed = views, seed
        self.device, self.precision = device, precision
        self.cache, self.strict = cache, strict
        self.reporter = reporter
        self._learner: Learner | None = None

    # -- learning -------------------------------------------------------------------------------

    def fit(self, data: Any, features: FeatureStore | None = None) -> PromptClassifier:
        """Returns itself, having learnt from up to `shots` pictures of each class.

        Data is a folder, a CSV or JSONL file, a Dataset, or one of Hugging Face or torchvision.
        What is not drawn for training, or the data's own test part, is held out and scored.
        Fits that share a store of `features` share the work of the towers.
        """
        dataset = read_dataset(data, self.strict)
        if not isinstance(self.backbone, Backbone):
            self.backbone = load_backbone(self.backbone, self.device, self.precision)
        backbone = self.backbone
        disk = Cache(reporter=self.reporter) if self.cache else None
        store = features or FeatureStore(backbone, disk)
        kind = learner_class(self.learner)

        def make(k: int) -> Learner:
            how = (self.seed, self.placeholder, self.recipe.depth, self.class_template)
            return kind(backbone, kind.layout_for(k, self.recipe.m), dataset.class_names, *how)

        def check(k: int) -> None:  # what cannot be is said before anything is computed
            make(k)
            self.choice.check(backbone, dataset.class_names, k)

        numbers, limits = numbers_to_try(self.words, self.recipe, check)
        shots, rest = draw_shots(dataset, self.shots, self.seed, store, self.strict, self.reporter)
        self.notes_: list[str] = [*dataset.notes, *shots.notes, *limits]
        self.selection_: Selection | None = None
        if k := numbers[-1]:
            self.selection_ = self.choice.choose(
                backbone, dataset.class_names, shots, k, disk, features, self.reporter
            )
        fitted = fit_learner(
            make,
            numbers,
            self.selection_.words if self.selection_ else (),
            shots,
            self.views,
            self.recipe,
            self.seed,
            self.reporter,
        )
        learner, self.record_ = fitted.learner, fitted.record
        if self.selection_ is not None:
            self.selection_ = self.selection_.first(len(learner.words))
            self.notes_ += self.selection_.notes
        self._learner = learner
        self.classes_ = list(learner.prompts.class_names)
        held_out = look(dataset.test or rest, "held-out", store, self.strict, self.reporter)
        self.notes_ += held_out.notes
        self.results_: dict[str, Any] = {
            "train_accuracy": self._accuracy(shots),
            "words_tried": [asdict(trial) for trial in fitted.trials],
            "held_out_accuracy": self._accuracy(held_out) if held_out.items else None,
            "held_out_images": len(held_out.items),
        }
        self.training_: dict[str, Any] = {
            "data": dataset.name,
            "classes": self.classes_,
            "shots": self.shots,
            "images": len(shots.items),
            "seed": self.seed,
            "views": self.views,
            **self.recipe.__dict__,
            "history": self.record_.as_dict(),
        }
        self._warn()
        return self

    def _warn(self) -> None:
        for note in self.notes_:
            self.reporter.warn(note)

    def _accuracy(self, seen: Seen, places: Tensor | None = None) -> float:
        labels = seen.labels if places is None else places[seen.labels]
        features = features_for(self._fitted(), seen)
        return float((self._logits(features).argmax(1).cpu() == labels).double().mean())

    # -- using ----------------------------------------------------------------------------------

    def predict_proba(self, images: Images) -> np.ndarray[Any, Any]:
        """Returns probabilities (images, classes) for paths or pictures."""
        return self.probabilities(self.encode(images))

    def predict(self, images: Images) -> list[str]:
        """Returns the most probable class name of each path or picture."""
        return [self.classes_[i] for i in self.predict_proba(images).argmax(1)]

    def encode(self, images: Images) -> Tensor:
        """Returns image features (images, dim); an unreadable picture is an error here."""
        if isinstance(images, str | Path | Image.Image):
            raise DataError("images is a single picture; give a list of paths or pictures.")
        seen = self.look([i if isinstance(i, Image.Image) else Path(i) for i in images])
        if seen.unreadable:
            raise DataError(f"Unreadable image: {seen.unreadable[0]}.")
        return seen.features

    def look(
        self, sources: Sequence[Path | Image.Image], advance: Callable[..., None] | None = None
    ) -> ImageFeatures:
        """Returns the features of those pictures that can be read, and why others cannot."""
        return self._fitted().look(sources, advance)

    def probabilities(self, features: Tensor) -> np.ndarray[Any, Any]:
        """Returns probabilities (images, classes) of image features (images, dim)."""
        values: np.ndarray[Any, Any] = self._logits(features).softmax(1).cpu().numpy()
        return values

    def score(self, data: Any, features: FeatureStore | None = None) -> float:
        """Returns the accuracy on a data set's test part, or on all of it if it has none."""
        dataset = read_dataset(data, self.strict)
        learner = self._fitted()
        unknown = [name for name in dataset.class_names if name not in self.classes_]
        if unknown:
            raise DataError(
                f"{dataset.name} has the class {unknown[0]!r}, which this prompt was not given; "
                "use with_classes([...]) first."
            )
        store = features or FeatureStore(learner.backbone)
        seen = look(dataset.test or dataset.train, "test", store, self.strict, self.reporter)
        self.notes_ = [*dataset.notes, *seen.notes]
        self._warn()
        if not seen.items:
            raise DataError(f"{dataset.name} has no readable image to score.")
        if list(dataset.class_names) == self.classes_:  # a published list may say a name twice
            return self._accuracy(seen)
        return self._accuracy(seen, torch.tensor([*map(self.classes_.index, dataset.class_names)]))

    def with_classes(self, classes: Sequence[str] | Dataset) -> PromptClassifier:
        """Returns a classifier with the same words and vectors for other classes."""
        names = classes.class_names if isinstance(classes, Dataset) else classes
        if len(names) < 2:
            raise DataError(f"{len(names)} class(es) given; at least two are needed.")
        check_class_names(names, alike=isinstance(classes, Dataset) and classes.alike)
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

    def _fitted(self) -> Learner:
        if self._learner is None:
            raise ConfigError("This classifier has learnt nothing yet; call fit(data) first.")
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
    ) -> PromptClassifier:
        """Returns the classifier saved in a folder, with its words embedded anew.

        `backbone` says where the weights are now; they must be the ones the prompt was made for.
        """
        saved = read_run(Path(folder))
        precision = precision or str(saved.backbone.get("precision", "fp32"))
        backbone = find_backbone(Path(folder), saved, backbone, device, precision)
        recipe = {k: saved.training.get(k) for k in ("epochs", "interval", "batch", "lr", "depth")}
        try:
            classifier = cls(
                backbone,
                saved.learner,
                len(saved.words),
                placeholder=saved.placeholder,
                precision=precision,
                reporter=reporter,
                **recipe,  # type: ignore[arg-type]
            )
            classifier._learner = restore(saved, backbone)
            chosen = Selection.from_dict(saved.selection) if saved.selection else None
        except (IplError, LookupError, TypeError, ValueError, AttributeError) as error:
            why = error if isinstance(error, IplError) else f"it does not fit together ({error!r})."
            raise SavedRunError(f"{folder} is damaged: {why}") from error
        classifier.selection_ = chosen
        classifier.classes_ = list(classifier._learner.prompts.class_names)
        classifier.training_, classifier.results_ = saved.training, saved.results
        return classifier
