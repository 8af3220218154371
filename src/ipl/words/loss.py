"""The cross-entropy of labelled images as a function of text features."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn.functional import normalize

BYTES_AT_ONCE = {"cpu": 1 << 27, "cuda": 1 << 30}  # of logits


class CrossEntropy:
    """The mean cross-entropy over labelled images, as a function of text features.

    It is computed in fp64, where rounding errors are far smaller than the differences between
    words, unless another precision is asked for.
    """

    def __init__(self, images: Tensor, labels: Tensor, classes: int, logit_scale: float) -> None:
        """Takes normalised image features (images, dim) and their labels (images,)."""
        # Apple's GPUs have no fp64.
        device = torch.device("cpu") if images.device.type == "mps" else images.device
        self.images = images.to(device).double()
        self.labels = labels.to(device)
        self.classes, self.logit_scale = classes, logit_scale
        right = torch.zeros(classes, images.shape[1], dtype=torch.float64, device=device)
        right.index_add_(0, self.labels, self.images)
        # (classes, dim): a text's mean logit on its own images is one dot product
        self._right = right * (logit_scale / len(labels))

    def losses(self, features: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
        """Returns the loss (candidates,) of text features (candidates, classes, dim)."""
        images, right, losses = self.images.to(dtype), self._right.to(dtype), []
        for part in self._parts(features):
            texts = self._unit(part, dtype)
            with tensor_cores(images):
                logits = self.logit_scale * texts @ images.T  # (candidates, classes, images)
            losses.append(logits.logsumexp(1).mean(1) - (texts * right).sum((1, 2)))
        return torch.cat(losses).double()

    def image_losses(self, features: Tensor) -> Tensor:
        """Returns the loss of each image (candidates, images)."""
        losses = []
        for part in self._parts(features):
            logits = self.logit_scale * self._unit(part, torch.float64) @ self.images.T
            right = logits.gather(1, self.labels.expand(len(part), 1, -1))[:, 0]
            losses.append(logits.logsumexp(1) - right)
        return torch.cat(losses)

    def _unit(self, features: Tensor, dtype: torch.dtype) -> Tensor:
        return normalize(features.to(self.images.device, dtype), dim=-1)

    def _parts(self, features: Tensor) -> tuple[Tensor, ...]:
        """Returns the features in parts whose logits fit into memory."""
        room = BYTES_AT_ONCE.get(self.images.device.type, BYTES_AT_ONCE["cpu"])
        most = max(1, room // (24 * self.classes * len(self.images)))
        parts: tuple[Tensor, ...] = features.split(most)
        return parts

    @property
    def sha256(self) -> str:
        """Returns the SHA-256 of the features of the images."""
        return hashlib.sha256(self.images.cpu().numpy().tobytes()).hexdigest()


@contextmanager
def tensor_cores(images: Tensor) -> Iterator[None]:
    """Lets a GPU round the numbers of an fp32 product to TF32, which have more digits than fp16's.

    With hundreds of classes the product of an fp32 unit would take half as long as the text tower.
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if images.device.type == "cuda" else before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
