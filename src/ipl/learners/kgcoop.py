"""KgCoOp (Yao et al., 2023): CoOp with a penalty on the distance from hand-made prompts."""

from __future__ import annotations

from functools import cached_property

from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from ipl.learners.coop import CoOp
from ipl.learners.learner import Batch
from ipl.learners.published import KgCoOpSpec
from ipl.learners.registry import register

WEIGHT = 8.0


@register
class KgCoOp(KgCoOpSpec, CoOp):
    """CoOp whose loss adds 8 times the mean distance of its text features from a template's."""

    @cached_property
    def teacher(self) -> Tensor:
        """Returns the normalised features (classes, dim) of the hand-made prompts."""
        texts = [self.class_template.format(name) for name in self.prompts.class_names]
        return normalize(self.backbone.encode_texts(texts), dim=-1)

    def loss(self, batch: Batch) -> Tensor:
        """Returns cross-entropy + 8 * (1 - mean cosine with the hand-made prompts)."""
        assert batch.features is not None
        texts = self.text_features()
        logits = self.backbone.logits(batch.features, texts)
        distance = 1 - (texts * self.teacher).sum(-1).mean()
        return cross_entropy(logits, batch.labels) + WEIGHT * distance
