"""Do the words of a prompt matter? One rule, for the fit, the report, the demo and the model card.

Two questions about the held-out images: do random words in place of the prompt's change its loss
beyond noise, and is the prompt better than the same one trained without words, beyond noise?
"""

from __future__ import annotations

import random
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ipl.display.formatting import signed
from ipl.learners.learner import Learner
from ipl.metrics import PairedDifference, image_losses
from ipl.support.errors import ConfigError
from ipl.words.pool import Pool

DRAWS = 20
MOST_REPLACED = 100  # classes for which a fit replaces the words; a report does it for any
RESAMPLES, LOW, HIGH = 1000, 5, 95  # percentiles: a 90 % interval


class LossChange(NamedTuple):
    """The mean change of the loss with other words, and the 90 % interval of that mean."""

    mean: float
    low: float
    high: float

    @property
    def beyond_noise(self) -> bool:
        """Whether the interval excludes 0; that of a single image has no width."""
        return self.low < self.high and not self.low <= 0 <= self.high

    def __str__(self) -> str:
        return f"{signed(self.mean)}, 90 % interval {signed(self.low)} to {signed(self.high)}"


def draw_random_words(learner: Learner, pool: Pool) -> tuple[tuple[str, ...], ...]:
    """Draw words about as frequent as a learner's, for its slots; none if the pool is too small.

    One of several tokens gives as many words.
    """
    words = [word.lower() for word in learner.words]
    sizes = learner.layout.slot_sizes[: len(words)]
    tokens = [word for word, size in zip(words, sizes, strict=True) for _ in range(size)]
    stream, draws = random.Random(0), list[tuple[str, ...]]()
    with suppress(ConfigError):  # the pool is too small
        for _ in range(DRAWS):
            drawn = iter(pool.draw(tokens, stream))
            draws.append(tuple(" ".join(islice(drawn, size)) for size in sizes))
    return tuple(draws)


def mean_change(changes: Tensor) -> LossChange:
    """The mean of changes (draws, images), with an interval for other draws and other images."""
    array, stream = changes.double().cpu().numpy(), np.random.default_rng(0)
    draws, images = array.shape
    means = []
    for _ in range(RESAMPLES):
        times = np.bincount(stream.integers(draws, size=draws), minlength=draws)
        by_image = times @ array / draws
        means.append(by_image[stream.integers(images, size=images)].mean())
    low, high = np.percentile(means, [LOW, HIGH])
    return LossChange(float(array.mean()), float(low), float(high))


def replace_words(
    learner: Learner, features: Tensor, labels: Tensor, pool: Pool
) -> LossChange | None:
    """How random words in place of all words change the loss; None if none can be drawn."""
    draws = draw_random_words(learner, pool)
    if not learner.words or not draws:
        return None
    own = image_losses(learner.log_probabilities(features), labels)
    changed = [
        image_losses(learner.rebuilt(words=words).log_probabilities(features), labels)
        for words in draws
    ]
    return mean_change(torch.stack(changed) - own)


def words_statement(replaced: LossChange | None, without: PairedDifference | None) -> str:
    """Whether the words matter, in one statement.

    `replaced` is how random words in place of the prompt's change its loss, `without` the accuracy
    of the prompt minus that of the same one trained without words; None if that was not tried.
    """
    evidence = []
    if without is not None:
        interval = f"{signed(100 * without.low, 1)} to {signed(100 * without.high, 1)}"
        evidence.append(
            f"they add {signed(100 * without.value, 1)} points (95 % interval {interval}) to the "
            "same prompt trained without words"
        )
    if replaced is not None:
        evidence.append(f"random words in their place change the loss by {replaced}")
    if not evidence:
        return "Whether the words matter was not tested."
    return f"{_verdict(replaced, without)} On held-out images: {'; '.join(evidence)}."


def _verdict(replaced: LossChange | None, without: PairedDifference | None) -> str:
    change = 0.0 if replaced is None or not replaced.beyond_noise else replaced.mean
    if without is not None and without.is_clear:
        if without.value < 0:
            return "The words harm."
        if change > 0:
            return "The words matter."
        which = ", but which words they are does not" if replaced is not None else ""
        return f"Having words matters{which}."
    if change < 0:
        return "The words harm: random ones do better."
    if change == 0:
        return "The words do not matter beyond noise."
    if without is None:
        return (
            "The finished prompt depends on its words; whether one trained without words would be "
            "as good was not tested (ipl fit --compare)."
        )
    return (
        "The finished prompt depends on its words, which its vectors were trained around; trained "
        "without words it would be as good within noise."
    )
