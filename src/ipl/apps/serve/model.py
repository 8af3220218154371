"""The model behind the service: one pass for a batch of images, whatever their classes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ipl._version import __version__
from ipl.classifier import PromptClassifier
from ipl.learners.learner import Learner
from ipl.support.errors import IplError

Ranked = list[dict[str, Any]]  # name and probability, most probable first


@dataclass(frozen=True)
class Question:
    """An image, the classes to tell apart (None: the prompt's own) and how many to return."""

    image: Image.Image
    classes: tuple[str, ...] | None
    top: int


class Head:
    """One list of classes. Its text features are computed once, if no image changes them."""

    def __init__(self, classifier: PromptClassifier) -> None:
        learner = classifier.learner_
        self.classes, self.backbone = list(map(str, classifier.classes_)), learner.backbone
        self.classifier: PromptClassifier | None = None
        self.texts: Tensor | None = None  # (classes, dim)
        if type(learner).logits is Learner.logits:
            with torch.no_grad():
                self.texts = learner.text_features()
        else:  # CoCoOp: every image has prompts of its own
            self.classifier = classifier

    def probabilities(self, features: Tensor) -> np.ndarray[Any, Any]:
        """Returns probabilities (images, classes) of image features (images, dim)."""
        if self.classifier is not None:
            return self.classifier.probabilities(features)
        assert self.texts is not None
        values: np.ndarray[Any, Any] = (
            self.backbone.logits(features, self.texts).softmax(1).cpu().numpy()
        )
        return values


class Model:
    """A learnt prompt that answers questions in batches; for one thread at a time."""

    def __init__(self, classifier: PromptClassifier, class_lists: int) -> None:
        self.classifier, self.class_lists = classifier, class_lists
        self.own = Head(classifier)
        self.backbone = self.own.backbone
        self._heads: OrderedDict[tuple[str, ...], Head] = OrderedDict()

    @property
    def shown_name(self) -> str:
        """Returns the backbone's name, without the folder it lies in on this machine."""
        name = self.backbone.name
        return name if name.count("/") < 2 and name[0] not in "./~" else Path(name).name

    def about(self) -> dict[str, Any]:
        """Returns what the prompt says and what it was made for, as plain values."""
        return {
            "words": self.classifier.words_,
            "prompt": self.classifier.prompt_,
            "classes": self.own.classes,
            "learner": self.classifier.learner,
            "backbone": self.shown_name,
            "weights_sha256": self.backbone.weights_sha256,
            "ipl_version": __version__,
        }

    def answer(self, questions: Sequence[Question]) -> list[Ranked | Exception]:
        """Returns an answer to each question, or why there is none."""
        features = self.classifier.encode_images(
            [question.image for question in questions]
        ).features
        answers: dict[int, Ranked | Exception] = {}
        for classes in dict.fromkeys(question.classes for question in questions):
            rows = [i for i, question in enumerate(questions) if question.classes == classes]
            try:
                head = self._head(classes)
            except IplError as error:
                said = str(error).replace(self.backbone.name, self.shown_name)
                answers.update(dict.fromkeys(rows, type(error)(said)))
                continue
            for i, row in zip(rows, head.probabilities(features[rows]), strict=True):
                best = row.argsort(kind="stable")[::-1][: questions[i].top]
                answers[i] = [{"name": head.classes[c], "probability": float(row[c])} for c in best]
        return [answers[i] for i in range(len(questions))]

    def _head(self, classes: tuple[str, ...] | None) -> Head:
        if classes is None:
            return self.own
        if classes not in self._heads:
            self._heads[classes] = Head(self.classifier.with_classes(classes))
            if len(self._heads) > self.class_lists:
                self._heads.popitem(last=False)
        self._heads.move_to_end(classes)
        return self._heads[classes]
