"""KgCoOp (Yao et al., 2023): CoOp with a penalty on the distance from hand-made prompts."""

from __future__ import annotations

from functools import cached_property

from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from ipl.learners.coop import CoOp
from ipl.learners.hyperparameters import Hyperparameters
from ipl.learners.learner import Batch
from ipl.learners.registry import register

WEIGHT = 8.0


@register
class KgCoOp(CoOp):
    """CoOp whose loss adds 8 times the mean distance of its text features from a template's."""

    name = "kgcoop"

    @classmethod
    def hyperparameters(cls, words: int, protocol: str = "base-to-novel") -> Hyperparameters:
        del words, protocol
        return Hyperparameters(epochs=100, interval=10, batch=128, lr=0.002, m=4)

    @cached_property
    def teacher(self) -> Tensor:
        """The normalised features (classes, dim) of the hand-made prompts."""
        texts = [self.class_template.format(name) for name in self.prompts.class_names]
        return normalize(self.backbone.encode_texts(texts), dim=-1)

    def loss(self, batch: Batch) -> Tensor:
        assert batch.features is not None
        texts = self.text_features()
        logits = self.backbone.logits(batch.features, texts)
        distance = 1 - (texts * self.teacher).sum(-1).mean()
        return cross_entropy(logits, batch.labels) + WEIGHT * distance
