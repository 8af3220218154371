"""How sure a chosen word is: a bootstrap over the images that it was chosen for.

The per-image losses of the best words of a step are resampled, images drawn with replacement within
each class. How often the chosen word is still the best of them, and how its gain varies, says
whether other images of the same kind would have led to the same word. The word was chosen on these
images among thousands, so its interval does not allow for the luck of being the best of many: it is
a necessary sign of a gain, not a sufficient one.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
RESAMPLES = 1000
LOW, HIGH = 5, 95  # percentiles: a 90 % interval


class Certainty(NamedTuple):
    """The share of resamples that a word wins, and the 90 % interval of its gain."""

    wins: float
    low: float
    high: float


class Resamples:
    """Bootstrap resamples of labelled images, stratified by class.

    If no class has two images, they are drawn from all images.

    Parameters
    ----------
    labels : array of shape (images,)
        The class of each image.
    count : int, default 1000
        The number of resamples.
    seed : int, default 0
        Draws them.
    """

    def __init__(self, labels: Array, count: int = RESAMPLES, seed: int = 0) -> None:
        self.labels, self.count, self.seed = np.asarray(labels), count, seed

    @cached_property
    def weights(self) -> Array:
        """Returns the weight of each image in each resample (count, images); rows add up to 1."""
        images = len(self.labels)
        order = np.argsort(self.labels, kind="stable")
        _, first, size = np.unique(self.labels[order], return_index=True, return_counts=True)
        if size.max() == 1:  # nothing varies within a class of one image: draw from all images
            first, size = np.zeros(1, int), np.array([images])
        group = np.repeat(np.arange(len(size)), size)
        draws = np.random.default_rng(self.seed).random((self.count, images), dtype=np.float32)
        drawn = (draws * size[group].astype(np.float32)).astype(np.int64)
        drawn += first[group] + images * np.arange(self.count)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=self.count * images)
        weights = np.empty((self.count, images), dtype=np.float32)
        weights[:, order] = counts.reshape(self.count, images) * np.float32(1 / images)
        return weights

    def certainty(self, losses: Array, penalties: Array) -> Certainty:
        """Returns how sure the first of several words is.

        Parameters
        ----------
        losses : array of shape (1 + words, images)
            The loss of each image without a new word, then with each word; the chosen one first.
        penalties : array of shape (words,)
            lambda * redundancy of each word.

        Returns
        -------
        Certainty
            How often it is the best of these words, and the interval of its gain.
        """
        # Centred, so that fp32 is enough for the differences between words.
        means = (losses - losses[0]).astype(np.float32) @ self.weights.T  # (1 + words, resamples)
        gains = -means[1:].astype(np.float64) - penalties[:, None]
        low, high = np.percentile(gains[0], [LOW, HIGH])
        return Certainty(float((gains.argmax(0) == 0).mean()), float(low), float(high))
