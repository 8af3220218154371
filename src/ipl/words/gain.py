"""The gain of a word: utility - lambda * redundancy, and the loss that utility is a fall of."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from ipl.backbone.backbone import Backbone
from ipl.backbone.prefix_cache import PrefixCache

UTILITIES = {"paper": 0.1, "calibrated": 0.0}  # each with the weight of redundancy it goes with
SMALLEST_SCALE, LARGEST_SCALE = 1.0, 200.0  # of cosines, with the calibrated utility
GRID, NEWTON_STEPS = 8, 6  # 200 / 2**7 is 1.6
TIE = 1e-7  # what the paper's loss counts beside the calibrated one
LOGIT_BYTES = {"cpu": 1 << 27, "cuda": 1 << 30}  # memory for logits
LOGIT_COPIES = 4  # in fp64, or twice as many in fp32, that are in memory at once
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Objective:
    """The gain of a word: utility - lambda * redundancy.

    Utility is the fall of the cross-entropy when the word joins the prompt; redundancy is its
    similarity to the words chosen so far. The defaults are the paper's; `FitConfig` has its own,
    and checks the values.
    """

    lambda_: float = 0.1
    preset: str = "paper"  # the sum of cosines; "reference", the authors' code, takes their mean
    word_embedding: str = "text"  # features of the bare words; "token": rows of the embedding
    utility: str = "paper"  # at CLIP's own scale; "calibrated": at the best scale of each word

    def embed_words(self, backbone: Backbone, words: Sequence[str]) -> Tensor:
        """The normalised embeddings (words, dim) that redundancy compares."""
        tokens = backbone.tokenize_words(words)
        if self.word_embedding == "token":
            return normalize(backbone.embed(tokens), dim=-1)
        if backbone.causal:
            prefix = PrefixCache(backbone, [backbone.opening])
            features = torch.cat([chunk[:, 0] for chunk in prefix.features(tokens)])
        else:
            features = backbone.encode_texts(words)
        return normalize(features, dim=-1)

    def redundancy(self, embeddings: Tensor, chosen: Sequence[int]) -> Tensor:
        """The redundancy (words,) of each word with those at the indices `chosen`, at least one."""
        cosines = embeddings @ embeddings[list(chosen)].T  # (words, chosen)
        return cosines.sum(1) if self.preset == "paper" else cosines.mean(1)

    def gain(self, utility: Array, redundancy: Array) -> Array:
        return utility - self.lambda_ * redundancy


class CrossEntropy:
    """The mean cross-entropy over labelled images, as a function of text features.

    With the paper's utility the cosines are multiplied by CLIP's own scale. With the calibrated one
    each candidate gets the scale from 1 to 200 that suits it best, so that a word which merely
    makes CLIP less sure gains nothing.

    Losses are computed in fp64, where rounding errors are far smaller than the differences between
    words, unless another precision is asked for; scales are found in fp32.
    """

    def __init__(
        self,
        images: Tensor,  # normalised features (images, dim)
        labels: Tensor,  # (images,)
        classes: int,
        logit_scale: float,
        utility: str = "paper",
    ) -> None:
        # Apple's GPUs have no fp64.
        device = torch.device("cpu") if images.device.type == "mps" else images.device
        self.images = images.to(device).double()
        self.labels = labels.to(device)
        self.classes, self.logit_scale, self.utility = classes, logit_scale, utility
        self.halves = stratified_halves(self.labels)
        # (images, 2): what an image counts in the mean, in the column of its half
        self._weights = one_hot(self.halves, 2).double() / len(labels)

    @property
    def shares(self) -> list[float]:
        """The share of the images in each half."""
        shares: list[float] = self._weights.sum(0).tolist()
        return shares

    def losses(self, features: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
        """The loss of text features (candidates, classes, dim), in two parts (candidates, 2).

        Each part is what one half of the images contributes; their sum is the mean over all images.
        """
        return self.image_losses(features, dtype) @ self._weights

    def image_losses(self, features: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
        """The loss of each image (candidates, images)."""
        # In parts whose logits fit into memory.
        most_bytes = LOGIT_BYTES.get(self.images.device.type, LOGIT_BYTES["cpu"])
        count = max(1, most_bytes // (LOGIT_COPIES * 8 * self.classes * len(self.images)))
        return torch.cat([self._losses(part, dtype).double() for part in features.split(count)])

    def accuracy(self, features: Tensor) -> float:
        """The share of the images that text features (classes, dim) classify as labelled."""
        right = self._logits(features, torch.float64).argmax(0) == self.labels
        return float(right.double().mean())

    def _losses(self, features: Tensor, dtype: torch.dtype) -> Tensor:
        logits = self._logits(features, dtype)
        if self.utility == "paper":
            return cross_entropies(logits, self.labels)
        rough = logits.float()
        most, least = LARGEST_SCALE / self.logit_scale, SMALLEST_SCALE / self.logit_scale
        factors = best_factors(rough, self.labels, least, most)[:, None, None].to(dtype)
        # The paper's loss decides between words that classify every image with the largest scale.
        of_paper = cross_entropies(logits, self.labels)
        return cross_entropies(logits * factors, self.labels) + TIE * of_paper

    def _logits(self, features: Tensor, dtype: torch.dtype) -> Tensor:
        """CLIP's logits (..., classes, images) of text features (..., classes, dim)."""
        texts = normalize(features.to(self.images.device, dtype), dim=-1)
        with tensor_cores(self.images):
            return self.logit_scale * texts @ self.images.to(dtype).T

    @property
    def sha256(self) -> str:
        """Of the features of the images."""
        return hashlib.sha256(self.images.cpu().numpy().tobytes()).hexdigest()


def cross_entropies(logits: Tensor, labels: Tensor) -> Tensor:
    """The cross-entropy (candidates, images) of logits (candidates, classes, images)."""
    return logits.logsumexp(1) - _of_labels(logits, labels)


def best_factors(logits: Tensor, labels: Tensor, least: float, most: float) -> Tensor:
    """The factor (candidates,) of logits (candidates, classes, images) with the lowest loss.

    The loss is convex in the factor. Each factor of a grid is twice the one before it, so the
    exponentials for it are the squares of those before; Newton's method goes on from the best.
    """
    below = logits - logits.amax(1, keepdim=True)  # at most 0: no exponential overflows
    right = _of_labels(below, labels)
    grid = most / 2.0 ** torch.arange(GRID - 1, -1, -1, device=logits.device)
    powers, losses = (grid[0] * below).exp(), []
    for factor in grid:
        losses.append((powers.sum(1).log() - factor * right).mean(1))
        powers.square_()
    best = grid.flip(0)[torch.stack(losses[::-1]).argmin(0)]  # of equal losses the largest factor
    low, high = (best / 2).clamp(min=least), (best * 2).clamp(max=most)
    for _ in range(NEWTON_STEPS):
        shares = (best[:, None, None] * below).softmax(1)
        mean = (shares * below).sum(1)
        slope = (mean - right).mean(1)
        curvature = ((shares * below.square()).sum(1) - mean.square()).mean(1)
        best = (best - slope / curvature.clamp(min=1e-30)).clamp(low, high)
    return best


def _of_labels(logits: Tensor, labels: Tensor) -> Tensor:
    """The logit of each image's own class (candidates, images)."""
    return logits.gather(1, labels.expand(len(logits), 1, -1))[:, 0]


def stratified_halves(labels: Tensor) -> Tensor:
    """0 or 1 for each image (images,): two halves, each with half of the images of every class."""
    halves = torch.empty_like(labels)
    halves[labels.argsort(stable=True)] = torch.arange(len(labels), device=labels.device) % 2
    return halves


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
