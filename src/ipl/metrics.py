"""Numbers of a classifier on labelled images: accuracy, loss, confusion, calibration, intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from scipy.optimize import brentq
from scipy.stats import binomtest
from torch import Tensor

BINS = 15  # of confidence, all of one width
Z = 1.959963984540054  # 95 % of a normal distribution are within so many deviations


@dataclass(frozen=True)
class Score:
    """Accuracy from 0 to 1 and mean cross-entropy."""

    accuracy: float
    loss: float


@dataclass(frozen=True)
class Bin:
    """Predictions of similar confidence: their mean confidence and their accuracy."""

    low: float
    high: float
    count: int
    confidence: float  # mean; the middle of the bin where it is empty
    accuracy: float | None  # None where it is empty


@dataclass(frozen=True)
class Calibration:
    """How well confidence matches accuracy; `ece` is the expected calibration error."""

    ece: float
    bins: tuple[Bin, ...]


@dataclass(frozen=True)
class Confused:
    """Images of one class that were taken for another."""

    true: str
    predicted: str
    count: int
    of: int  # images of the true class

    @property
    def text(self) -> str:
        return f"{self.true} taken for {self.predicted} ({self.count} of {self.of})"


@dataclass(frozen=True)
class ClassScore:
    """The predictions for one class; a ratio of nothing is 0."""

    name: str
    images: int
    predicted: int  # images that were taken for this class
    correct: int

    @property
    def precision(self) -> float:
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        return self.correct / self.images if self.images else 0.0

    @property
    def f1(self) -> float:
        return harmonic_mean(self.precision, self.recall)


@dataclass(frozen=True)
class ThresholdPoint:
    """What happens if predictions that are less probable than a threshold are not given."""

    threshold: float
    kept: int  # images whose prediction is given
    correct: int  # those of them that are right
    images: int
    # The share of images that get no prediction once their class is taken off the list, as an
    # image of none of the classes should; None with two classes, of which one would be left.
    rejected: float | None

    @property
    def coverage(self) -> float:
        return self.kept / self.images

    @property
    def accuracy(self) -> float | None:
        return self.correct / self.kept if self.kept else None


@dataclass(frozen=True)
class PairedDifference:
    """Accuracy of one classifier minus that of another on the same images, as shares."""

    value: float
    low: float  # of the 95 % interval
    high: float

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0


def score(log_probabilities: Tensor, labels: Tensor) -> Score:
    """Accuracy and loss of log-probabilities (images, classes)."""
    accuracy = (log_probabilities.argmax(1) == labels).double().mean()
    return Score(float(accuracy), float(image_losses(log_probabilities, labels).mean()))


def image_losses(log_probabilities: Tensor, labels: Tensor) -> Tensor:
    """The loss (images,) of each image."""
    return -log_probabilities.gather(1, labels[:, None])[:, 0]


def confusion(log_probabilities: Tensor, labels: Tensor) -> Tensor:
    """Counts (true class, predicted class)."""
    classes = log_probabilities.shape[1]
    cells = labels * classes + log_probabilities.argmax(1)
    return cells.bincount(minlength=classes * classes).reshape(classes, classes)


def most_confused(counts: Tensor, names: tuple[str, ...], limit: int = 6) -> tuple[Confused, ...]:
    """The largest entries off the diagonal of counts (true, predicted)."""
    errors = counts.clone().fill_diagonal_(0).flatten()
    order = errors.argsort(descending=True, stable=True)[:limit].tolist()
    pairs = [divmod(cell, len(names)) for cell in order if errors[cell] > 0]
    return tuple(
        Confused(names[i], names[j], int(counts[i, j]), int(counts[i].sum())) for i, j in pairs
    )


def class_scores(counts: Tensor, names: Sequence[str]) -> tuple[ClassScore, ...]:
    """The score of each class, from counts (true, predicted)."""
    rows = zip(names, counts.sum(1), counts.sum(0), counts.diagonal(), strict=True)
    return tuple(ClassScore(name, int(row), int(column), int(c)) for name, row, column, c in rows)


def calibration(log_probabilities: Tensor, labels: Tensor, bins: int = BINS) -> Calibration:
    """The bins of confidence, and the sum over them of share * |accuracy - confidence|."""
    best = log_probabilities.max(1)
    confidences, correct = best.values.exp(), (best.indices == labels).double()
    edges = torch.linspace(0, 1, bins + 1, dtype=torch.float64)
    # A confidence on an edge belongs to the bin below it.
    bin_of = torch.bucketize(confidences, edges[1:-1])
    results, ece = [], 0.0
    for index in range(bins):
        low, high, inside = float(edges[index]), float(edges[index + 1]), bin_of == index
        if not (count := int(inside.sum())):
            results.append(Bin(low, high, 0, (low + high) / 2, None))
            continue
        confidence, accuracy = float(confidences[inside].mean()), float(correct[inside].mean())
        ece += count / len(labels) * abs(accuracy - confidence)
        results.append(Bin(low, high, count, confidence, accuracy))
    return Calibration(ece, tuple(results))


class ThresholdCurve:
    """How many predictions (images, classes) are given, and how many are right, at a threshold."""

    def __init__(self, log_probabilities: Tensor, labels: Tensor) -> None:
        best = log_probabilities.max(1)
        self._confidences, self._right = best.values.exp(), best.indices == labels
        self._strangers: Tensor | None = None  # confidences once the true class is off the list
        if log_probabilities.shape[1] > 2:
            others = log_probabilities.scatter(1, labels[:, None], -math.inf)
            self._strangers = others.log_softmax(1).max(1).values.exp()

    def at(self, threshold: float) -> ThresholdPoint:
        kept, rejected = self._confidences >= threshold, None
        if self._strangers is not None:
            rejected = float((self._strangers < threshold).double().mean())
        correct = int((kept & self._right).sum())
        return ThresholdPoint(threshold, int(kept.sum()), correct, len(kept), rejected)

    def suggest(self) -> ThresholdPoint | None:
        """The threshold that best tells images of the classes from images of none.

        It has the largest sum of two shares: of right predictions, those that are kept; of images
        whose class is taken off the list, those that are rejected. None with two classes, or if
        no prediction is right.
        """
        right = self._confidences[self._right].sort().values
        if self._strangers is None or not len(right):
            return None
        strangers = self._strangers.sort().values
        # Only at the confidence of a right prediction does one more of them get lost.
        lost = torch.searchsorted(right, right) / len(right)
        rejected = torch.searchsorted(strangers, right) / len(strangers)
        best = int((rejected - lost).argmax())
        # Half-way down to the next lower confidence, so that rounding does not matter.
        values = torch.cat([self._confidences, self._strangers])
        below = values[values < right[best]]
        lower = float(below.max()) if len(below) else 0.0
        return self.at((float(right[best]) + lower) / 2)


def harmonic_mean(a: float, b: float) -> float:
    """2ab / (a + b), and 0 if both are 0: the HM of base and novel accuracy, the F1 score."""
    return 2 * a * b / (a + b) if a + b else 0.0


def wilson_interval(correct: int, images: int) -> tuple[float, float]:
    """Wilson's 95 % interval of an accuracy, from 0 to 1."""
    interval = binomtest(correct, images).proportion_ci(0.95, method="wilson")
    return float(interval.low), float(interval.high)


def paired_difference(gained: int, lost: int, images: int) -> PairedDifference:
    """The accuracy of one classifier minus that of another on the same images.

    `gained` are the images that only the first gets right, `lost` those that only the second does.
    The 95 % interval is Tango's score interval for paired shares with a continuity correction. It
    holds for few images as well, where a bootstrap is too narrow, and it excludes 0 only where
    McNemar's test with the same correction rejects that the two are equally good.
    """

    def low_of(gained: int, lost: int) -> float:
        def excess(difference: float) -> float:  # falls as the difference grows
            deviation = math.sqrt(images * _variance(gained, lost, images, difference))
            return gained - lost - 1 - images * difference - Z * deviation

        return -1.0 if excess(-1.0) <= 0 else float(brentq(excess, -1.0, 1.0, xtol=1e-15))

    value = (gained - lost) / images
    low, high = low_of(gained, lost), -low_of(lost, gained)
    return PairedDifference(value, min(low, value), max(high, value))


def _variance(gained: int, lost: int, images: int, difference: float) -> float:
    """The variance of one image's difference, if their mean were `difference`."""
    if difference < 0:
        gained, lost, difference = lost, gained, -difference
    # The most probable share of images that only the second one gets right.
    b = (2 * images - gained + lost) * difference - gained - lost
    c = -lost * difference * (1 - difference)
    share = (math.sqrt(max(0.0, b * b - 8 * images * c)) - b) / (4 * images)
    return max(0.0, 2 * share + difference * (1 - difference))
