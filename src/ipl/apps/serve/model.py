"""The model behind the service: one pass for a batch of images, whatever their classes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ipl._version import __version__
from ipl.classifier import PromptClassifier
from ipl.inference.engines import ImageEncoder
from ipl.support.errors import IplError

ClassRanking = list[dict[str, Any]]  # name and probability, most probable first


@dataclass(frozen=True)
class Question:
    """An image, its possible classes (None: the prompt's own) and how many of them to return."""

    image: Image.Image
    classes: tuple[str, ...] | None
    top: int


class ClassHead:
    """Probabilities over one list of classes; fixed text features are computed once."""

    def __init__(self, classifier: PromptClassifier) -> None:
        learner = classifier.learner_  # raises NotFittedError
        self.classes = list(map(str, classifier.classes_))
        with torch.no_grad():
            self.logits = learner.head()

    @torch.no_grad()
    def probabilities(self, features: Tensor) -> np.ndarray[Any, Any]:
        """Returns probabilities (images, classes) of image features (images, dim)."""
        values: np.ndarray[Any, Any] = self.logits(features).softmax(1).cpu().numpy()
        return values


class Model:
    """A learnt prompt that answers questions in batches, for several threads at a time."""

    def __init__(
        self, classifier: PromptClassifier, class_lists: int, engine: str = "torch"
    ) -> None:
        self.classifier, self.class_lists = classifier, class_lists
        self.default_head = ClassHead(classifier)
        self.backbone = classifier.learner_.backbone
        self.encoder = ImageEncoder(classifier, engine)
        self._lock = Lock()  # for the heads
        self._heads: OrderedDict[tuple[str, ...], ClassHead] = OrderedDict()

    @property
    def backbone_name(self) -> str:
        """Returns the backbone's name, without the folder that holds it on this machine."""
        name = self.backbone.name
        return name if name.count("/") < 2 and name[0] not in "./~" else Path(name).name

    def about(self) -> dict[str, Any]:
        """Returns the prompt, its classes, learner and backbone as plain values."""
        return {
            "words": self.classifier.words_,
            "prompt": self.classifier.prompt_,
            "classes": self.default_head.classes,
            "learner": self.classifier.learner,
            "backbone": self.backbone_name,
            "weights_sha256": self.backbone.weights_sha256,
            "ipl_version": __version__,
        }

    def answer(self, questions: Sequence[Question]) -> list[ClassRanking | Exception]:
        """Returns an answer to each question, or the reason why there is none."""
        with self.encoder.share():
            evaluate = self.encoder.preprocessing.evaluate
            pixels = np.stack([evaluate(question.image) for question in questions])
            return self._answer(questions, self.encoder.encode(pixels))

    def _answer(
        self, questions: Sequence[Question], features: Tensor
    ) -> list[ClassRanking | Exception]:
        answers: dict[int, ClassRanking | Exception] = {}
        for classes in dict.fromkeys(question.classes for question in questions):
            rows = [i for i, question in enumerate(questions) if question.classes == classes]
            try:
                head = self._head(classes)
            except IplError as error:
                message = str(error).replace(self.backbone.name, self.backbone_name)
                answers.update(dict.fromkeys(rows, type(error)(message)))
                continue
            for i, row in zip(rows, head.probabilities(features[rows]), strict=True):
                best = row.argsort(kind="stable")[::-1][: questions[i].top]
                answers[i] = [{"name": head.classes[c], "probability": float(row[c])} for c in best]
        return [answers[i] for i in range(len(questions))]

    def _head(self, classes: tuple[str, ...] | None) -> ClassHead:
        if classes is None:
            return self.default_head
        with self._lock:
            if classes not in self._heads:
                self._heads[classes] = ClassHead(self.classifier.with_classes(classes))
                if len(self._heads) > self.class_lists:
                    self._heads.popitem(last=False)
            self._heads.move_to_end(classes)
            return self._heads[classes]
