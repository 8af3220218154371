"""The cross-entropy of text features, and lower bounds on it that cost one dot product.

For fixed images the cross-entropy is convex in the text features Y, so it lies above each of its
tangents: CE(Y) >= CE(Y0) + <grad CE(Y0), Y - Y0> for any Y0. A tangent taken once bounds the loss
of every candidate, at every step of a search. Everything is computed in fp64, where rounding errors
are far smaller than the differences between words; `slack` is a bound on them.
"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor
from torch.nn.functional import normalize

BYTES_AT_ONCE = 1 << 27  # of logits
TEXTS_AT_ONCE = 8192  # that are averaged
TEXT_BYTES = {"cpu": 1 << 24, "cuda": 1 << 26}  # of texts multiplied with the tangents together
ROUGH_SLACK = 1e-4
MOST_TANGENTS = 16  # each takes as much memory as the texts of a candidate in fp64


class CrossEntropy:
    """The mean cross-entropy over labelled images, as a function of text features."""

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

    def losses(self, features: Tensor) -> Tensor:
        """Returns the loss (candidates,) of text features (candidates, classes, dim)."""
        return torch.cat([self._losses(self.unit(part)) for part in self._parts(features)])

    def _losses(self, texts: Tensor) -> Tensor:
        logits = self.logit_scale * texts @ self.images.T  # (candidates, classes, images)
        return logits.logsumexp(1).mean(1) - (texts * self._right).sum((1, 2))

    def rough_losses(self, features: Tensor, rows: Tensor | None = None) -> Tensor:
        """Returns the losses of features in half precision, from products in it.

        Their error is smaller than that of the features. `rows` picks candidates by index, without
        a copy of their features. Needs a GPU that has `int8_kernels`.
        """
        from ipl.words.loss_kernels import cosine_sums, log_sum_exp

        rows = None if rows is None else rows.to(features.device)
        right, lengths = cosine_sums(features, self._right.float()[None], rows)
        logs = log_sum_exp(features, lengths, self.images.half(), self.logit_scale, rows)
        return logs.mean(1, dtype=torch.float64) - right[:, 0]

    def image_losses(self, features: Tensor) -> Tensor:
        """Returns the loss of each image (candidates, images)."""
        losses = []
        for part in self._parts(features):
            logits = self.logit_scale * self.unit(part) @ self.images.T
            right = logits.gather(1, self.labels.expand(len(part), 1, -1))[:, 0]
            losses.append(logits.logsumexp(1) - right)
        return torch.cat(losses)

    def _parts(self, features: Tensor) -> tuple[Tensor, ...]:
        """Returns the features in parts whose logits fit into memory."""
        most = max(1, BYTES_AT_ONCE // (24 * self.classes * len(self.images)))
        parts: tuple[Tensor, ...] = features.split(most)
        return parts

    @property
    def sha256(self) -> str:
        """Returns the SHA-256 of the features of the images."""
        return hashlib.sha256(self.images.cpu().numpy().tobytes()).hexdigest()

    def unit(self, features: Tensor) -> Tensor:
        """Returns features of any precision, normalised, in fp64."""
        texts = features.to(self.images.device, torch.float64, copy=True)
        length = torch.linalg.vector_norm(texts, dim=-1, keepdim=True).clamp_min(1e-12)
        return texts / length if texts.requires_grad else texts.div_(length)

    def middle(self, features: Tensor) -> Tensor:
        """Returns the mean (classes, dim) of normalised features (candidates, classes, dim)."""
        at_once = max(1, TEXTS_AT_ONCE // self.classes)
        parts = (normalize(part.float(), dim=-1).sum(0) for part in features.split(at_once))
        return sum(parts, start=features.new_zeros(()).float()).to(self.images) / len(features)

    def tangent(self, texts: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the tangent at texts (classes, dim) of length one or less.

        It is an offset () and a slope (classes, dim) with CE(Y) >= offset + <slope, Y> for any Y.
        """
        logits = self.logit_scale * texts @ self.images.T  # (classes, images)
        expected = logits.softmax(0) @ self.images * (self.logit_scale / len(self.images))
        slope = expected - self._right
        loss = logits.logsumexp(0).mean() - (texts * self._right).sum()
        return loss - (slope * texts).sum(), slope


class Tangents:
    """Tangents of a loss, whose maximum is a lower bound on the loss of any candidate."""

    def __init__(self, loss: CrossEntropy) -> None:
        self.loss = loss
        device = loss.images.device
        self._offsets = torch.zeros(0, dtype=torch.float64, device=device)
        size = loss.classes * loss.images.shape[1]
        self._slopes = torch.zeros(0, size, dtype=torch.float64, device=device)

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, texts: Tensor) -> None:
        """Adds the tangent at texts (classes, dim); of many, the oldest is given up."""
        offset, slope = self.loss.tangent(texts)
        self._offsets = torch.cat([self._offsets[1 - MOST_TANGENTS :], offset[None]])
        self._slopes = torch.cat([self._slopes[1 - MOST_TANGENTS :], slope.flatten()[None]])

    def bounds(
        self,
        features: Tensor,
        first: int = 0,
        rows: Tensor | None = None,
        rough: bool = False,
    ) -> Tensor:
        """Returns the highest lower bound (candidates,) of the tangents from number `first` on.

        `rows` picks candidates by index, without a copy of all their features. With `rough`, for
        8-bit features, which are rougher still, bounds are computed in fp32, with more slack than
        its rounding of such sums has been seen to need (1e-5).
        """
        if rough:
            return self._rough_bounds(features, first, rows)
        bounds, device = [], self._slopes.device.type
        slopes = self._slopes[first:].T
        candidates = features if rows is None else rows.to(features.device)
        for part in candidates.split(
            max(1, TEXT_BYTES.get(device, 1 << 24) // (8 * self._slopes.shape[1]))
        ):
            texts = self.loss.unit(part if rows is None else features[part])
            values = texts.flatten(1) @ slopes
            bounds.append((values + self._offsets[first:] - self.slack).amax(1))
        return torch.cat(bounds)

    def _rough_bounds(self, features: Tensor, first: int, rows: Tensor | None) -> Tensor:
        from ipl.words.loss_kernels import cosine_sums

        slopes = self._slopes[first:].float().unflatten(1, (self.loss.classes, -1))
        rows = None if rows is None else rows.to(features.device)
        sums, _ = cosine_sums(features, slopes, rows)
        return (sums + self._offsets[first:] - ROUGH_SLACK).amax(1)

    @property
    def slack(self) -> float:
        """Returns the most that rounding in fp64 can add to a bound or take from a loss.

        A sum of n products of fp64 numbers is off by at most n units in the last place of the sum
        of their sizes. Texts have length one (a tangent's point at most that), slopes at most twice
        the scale in all: sums over images in a slope, over dimensions in a logit, over both in a
        bound.
        """
        count, dim = self.loss.images.shape
        steps = self.loss.classes * (count + dim) + 64
        return 8 * self.loss.logit_scale * steps * torch.finfo(torch.float64).eps
