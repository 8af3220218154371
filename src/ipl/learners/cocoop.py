"""CoCoOp (Zhou et al., 2022): soft vectors that are shifted for every image."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from ipl.learners.coop import CoOp
from ipl.learners.hyperparameters import Hyperparameters
from ipl.learners.registry import register

NARROWING = 16  # of the network
# Images x classes that are encoded together outside training. A GPU is not busy with fewer if the
# tower runs only the rows from the class name on.
PROMPTS_AT_ONCE, PROMPTS_ON_GPU = 4096, 16384


@register
class CoCoOp(CoOp):
    """CoOp with a small network that turns the image feature into a shift of the soft vectors."""

    name = "cocoop"

    @classmethod
    def hyperparameters(cls, words: int, protocol: str = "base-to-novel") -> Hyperparameters:
        """Returns T = 10, t = 1, one image at a time."""
        del words, protocol
        return Hyperparameters(epochs=10, interval=1, batch=1, lr=0.002, m=4)

    def build(self, generator: torch.Generator) -> None:
        """Adds the network: Linear(d, d/16), ReLU, Linear(d/16, width)."""
        dim, width = self.backbone.feature_dim, self.backbone.text_width
        narrow = max(1, dim // NARROWING)
        self.meta = nn.Sequential(
            self.linear(dim, narrow, generator),
            nn.ReLU(),
            self.linear(narrow, width, generator),
        )

    def logits(self, image_features: Tensor) -> Tensor:
        """Returns logits (images, classes); every image has its own prompts."""
        classes = len(self.prompts.class_names)
        if not len(image_features):
            return image_features.new_zeros(0, classes)
        if torch.is_grad_enabled():
            return self._logits(image_features)
        more = self.backbone.device.type == "cuda" and self.backbone.causal
        at_once = (PROMPTS_ON_GPU if more else PROMPTS_AT_ONCE) // classes
        parts = image_features.split(max(1, at_once))
        return torch.cat([self._logits(part) for part in parts])

    def soft_for(self, image_features: Tensor) -> Tensor:
        """Returns the soft vectors with the shift of the mean image feature (soft, width)."""
        mean = normalize(normalize(image_features, dim=-1).mean(0), dim=-1)
        return self._shifted_soft(mean[None])[0]

    def _shifted_soft(self, images: Tensor) -> Tensor:
        """Returns the soft vectors (images, soft, width) of normalised image features."""
        shift = self.meta(images)  # (images, width)
        group = self.layout.group_slice(-1)
        soft = self.soft.expand(len(images), -1, -1)
        shifted = soft[:, group] + shift[:, None]
        return torch.cat([soft[:, : group.start], shifted], dim=1)

    def _logits(self, images: Tensor) -> Tensor:
        images = normalize(images, dim=-1)
        soft = self._shifted_soft(images)
        features = self.backbone.encode_shared(self.prompts.split(soft))  # those of every image
        features = features.unflatten(0, (len(images), -1))
        return self.backbone.logits(images[:, None], features)[:, 0]
