"""How sure a chosen word is: a bootstrap over the images that it was chosen for.

The per-image losses of the best words of a step are resampled, images drawn with replacement within
each class. How often the chosen word is still the best of them, and how its gain varies, says
whether other images of the same kind would have led to the same word. The word was chosen on these
images among thousands, so its interval does not allow for the luck of being the best of many: it is
a necessary sign of a gain, not a sufficient one.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from ipl.words.selection import Certainty

RESAMPLES = 1000
LOW, HIGH = 5, 95  # percentiles: a 90 % interval


class Resamples:
    """Bootstrap resamples of labelled images, stratified by class.

    If no class has two images, they are drawn from all images.

    Parameters
    ----------
    labels : Tensor of shape (images,)
        The class of each image; the resamples are on its device.
    count : int, default 1000
        The number of resamples.
    seed : int, default 0
        Draws them.
    """

    def __init__(self, labels: Tensor, count: int = RESAMPLES, seed: int = 0) -> None:
        self.labels, self.count, self.seed = labels, count, seed

    @cached_property
    def weights(self) -> Tensor:
        """Returns the weight of each image in each resample (count, images); rows add up to 1."""
        images, device = len(self.labels), self.labels.device
        order = self.labels.argsort(stable=True)
        _, sizes = self.labels.unique(return_counts=True)
        if sizes.max() == 1:  # nothing varies within a class of one image: draw from all images
            sizes = torch.tensor([images], device=device)
        size = sizes.repeat_interleave(sizes)
        first = (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
        # NumPy draws them: the same images on every device.
        draws = np.random.default_rng(self.seed).random((self.count, images), dtype=np.float32)
        drawn = (torch.from_numpy(draws).to(device) * size).long() + first
        weights = torch.zeros(self.count, images, device=device)
        share = torch.full((), 1 / images, device=device).expand(drawn.shape)
        return weights.scatter_add_(1, order[drawn], share)

    def certainty(self, losses: Tensor, penalties: Tensor) -> Certainty:
        """Returns how sure the first of several words is.

        Parameters
        ----------
        losses : Tensor of shape (1 + words, images)
            The loss of each image without a new word, then with each word; the chosen one first.
        penalties : Tensor of shape (words,)
            lambda * redundancy of each word.

        Returns
        -------
        Certainty
            How often it is the best of these words, and the interval of its gain.
        """
        # Centred, so that fp32 is enough for the differences between words.
        centred = (losses - losses[0]).float().to(self.weights.device)
        means = centred @ self.weights.T  # (1 + words, resamples)
        gains = -means[1:].double() - penalties.to(means.device)[:, None]
        wins = (gains.argmax(0) == 0).double().mean()
        ends = gains.new_tensor([LOW / 100, HIGH / 100])
        low, high = gains[0].quantile(ends).tolist()
        return Certainty(wins.item(), low, high)
