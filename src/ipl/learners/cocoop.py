"""CoCoOp (Zhou et al., 2022): soft vectors that are shifted for every image."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from ipl.learners.coop import CoOp
from ipl.learners.hyperparameters import Hyperparameters
from ipl.learners.registry import register

NARROWING = 16  # of the network


@register
class CoCoOp(CoOp):
    """CoOp with a small network that turns the image feature into a shift of the soft vectors."""

    name = "cocoop"

    @classmethod
    def hyperparameters(cls, words: int, protocol: str = "base-to-novel") -> Hyperparameters:
        del words, protocol
        return Hyperparameters(epochs=10, interval=1, batch=1, lr=0.002, m=4)

    def build(self, generator: torch.Generator) -> None:
        dim, width = self.backbone.feature_dim, self.backbone.text_width
        narrow = max(1, dim // NARROWING)
        self.meta = nn.Sequential(
            self.linear(dim, narrow, generator),
            nn.ReLU(),
            self.linear(narrow, width, generator),
        )

    def logits(self, image_features: Tensor) -> Tensor:
        """Logits (images, classes); every image has its own prompts."""
        classes = len(self.prompts.class_names)
        if not len(image_features):
            return image_features.new_zeros(0, classes)
        if torch.is_grad_enabled():
            return self._logits(image_features)
        parts = image_features.split(max(1, self.backbone.prompts_at_once // classes))
        return torch.cat([self._logits(part) for part in parts])

    def _logits(self, images: Tensor) -> Tensor:
        images = normalize(images, dim=-1)
        shift = self.meta(images)  # (images, width)
        group = self.layout.group_slice(-1)  # the class-side group alone is shifted
        soft = self.soft.expand(len(images), -1, -1)
        soft = torch.cat([soft[:, : group.start], soft[:, group] + shift[:, None]], dim=1)
        texts = self.encode_prompts(soft)  # (images, classes, dim)
        return self.backbone.logits(images[:, None], texts)[:, 0]
