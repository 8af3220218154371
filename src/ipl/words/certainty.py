"""How sure a chosen word is, measured on the images that it was chosen for.

*Wins*: the images are resampled, drawn with replacement within each class, and the best words of a
step are compared again on each draw. *Held-out gain*: the word that is best on one half of the
images is scored on the other half, and the reverse. The gain of the chosen word is that of the
luckiest of thousands; a held-out gain is not, so it tells whether a word earns its place.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ipl.words.selection import Certainty

RESAMPLES = 1000
LOW, HIGH = 0.05, 0.95  # a 90 % interval


def draw_resamples(labels: Tensor, count: int = RESAMPLES, seed: int = 0) -> Tensor:
    """The weight of each image in bootstrap resamples (count, images); rows add up to 1.

    They are stratified by class; if no class has two images, they are drawn from all images.
    """
    images, device = len(labels), labels.device
    order = labels.argsort(stable=True)
    _, sizes = labels.unique(return_counts=True)
    if sizes.max() == 1:  # nothing varies within a class of one image: draw from all images
        sizes = torch.tensor([images], device=device)
    size = sizes.repeat_interleave(sizes)
    first = (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    # NumPy draws them: the same images on every device.
    draws = np.random.default_rng(seed).random((count, images), dtype=np.float32)
    drawn = (torch.from_numpy(draws).to(device) * size).long() + first
    weights = torch.zeros(count, images, device=device)
    share = torch.full((), 1 / images, device=device).expand(drawn.shape)
    return weights.scatter_add_(1, order[drawn], share)


def certainty(resamples: Tensor, losses: Tensor, penalties: Tensor, halves: Tensor) -> Certainty:
    """How often the first of several words is the best of them, and the held-out gain.

    `losses` (1 + words + 2, images) are those without a new word, then with each word, the chosen
    one first, then with the word that is best on half 0 of the images and on half 1; `penalties`
    (words + 2,) are lambda * redundancy, and `halves` (images,) is 0 or 1.
    """
    gains = losses[0] - losses[1:] - penalties.to(losses)[:, None]  # (words + 2, images)
    gains = gains.float().to(resamples.device)
    wins = ((gains[:-2] @ resamples.T).argmax(0) == 0).double().mean()
    held_out = torch.where(halves == 0, gains[-1], gains[-2])
    low, high = (resamples @ held_out).quantile(gains.new_tensor([LOW, HIGH])).tolist()
    return Certainty(wins.item(), held_out.mean().item(), low, high)
