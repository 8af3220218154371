"""Numbers of a classifier on labelled images: accuracy, loss, confusion, calibration, intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
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
        """Returns "cat taken for dog (2 of 3)"."""
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
        """Returns the share of the images taken for this class that are of this class."""
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Returns the share of the images of this class that are recognised."""
        return self.correct / self.images if self.images else 0.0

    @property
    def f1(self) -> float:
        """Returns the harmonic mean of precision and recall."""
        return harmonic_mean(self.precision, self.recall)


@dataclass(frozen=True)
class ThresholdPoint:
    """What happens if predictions that are less probable than a threshold are not given.

    Parameters
    ----------
    threshold : float
        The least probability of a prediction.
    kept : int
        Images whose prediction is given.
    correct : int
        Those of them that are right.
    images : int
        All images.
    rejected : float or None
        The share of images that get no prediction once their class is taken off the list, as an
        image of none of the classes should; None with two classes, of which one would be left.
    """

    threshold: float
    kept: int
    correct: int
    images: int
    rejected: float | None

    @property
    def coverage(self) -> float:
        """Returns the share of images whose prediction is given."""
        return self.kept / self.images

    @property
    def accuracy(self) -> float | None:
        """Returns the share of given predictions that are right, None if none is given."""
        return self.correct / self.kept if self.kept else None


@dataclass(frozen=True)
class PairedDifference:
    """Accuracy of one classifier minus that of another on the same images, as shares."""

    value: float
    low: float  # of the 95 % interval
    high: float

    @property
    def is_clear(self) -> bool:
        """Returns whether the interval excludes 0."""
        return self.low > 0 or self.high < 0


def score(log_probabilities: Tensor, labels: Tensor) -> Score:
    """Returns accuracy and loss of log-probabilities (images, classes)."""
    accuracy = (log_probabilities.argmax(1) == labels).double().mean()
    return Score(float(accuracy), float(-true_log_probabilities(log_probabilities, labels).mean()))


def true_log_probabilities(log_probabilities: Tensor, labels: Tensor) -> Tensor:
    """Returns the log-probability (images,) of each image's true class."""
    return log_probabilities.gather(1, labels[:, None])[:, 0]


def confusion(log_probabilities: Tensor, labels: Tensor) -> Tensor:
    """Returns counts (true class, predicted class)."""
    classes = log_probabilities.shape[1]
    cells = labels * classes + log_probabilities.argmax(1)
    return cells.bincount(minlength=classes * classes).reshape(classes, classes)


def most_confused(counts: Tensor, names: tuple[str, ...], limit: int = 6) -> tuple[Confused, ...]:
    """Returns the largest entries off the diagonal of counts (true, predicted)."""
    errors = counts.clone().fill_diagonal_(0).flatten()
    order = errors.argsort(descending=True, stable=True)[:limit].tolist()
    pairs = [divmod(cell, len(names)) for cell in order if errors[cell] > 0]
    return tuple(
        Confused(names[i], names[j], int(counts[i, j]), int(counts[i].sum())) for i, j in pairs
    )


def calibration(log_probabilities: Tensor, labels: Tensor, bins: int = BINS) -> Calibration:
    """Returns the bins of confidence, and the sum over them of share * |accuracy - confidence|."""
    best = log_probabilities.max(1)
    confidences, correct = best.values.exp(), (best.indices == labels).double()
    edges = torch.linspace(0, 1, bins + 1, dtype=torch.float64)
    # A confidence on an edge belongs to the bin below it.
    bin_indices = torch.bucketize(confidences, edges[1:-1])
    results, ece = [], 0.0
    for index in range(bins):
        inside = bin_indices == index
        count = int(inside.sum())
        low, high = float(edges[index]), float(edges[index + 1])
        if not count:
            results.append(Bin(low, high, 0, (low + high) / 2, None))
            continue
        confidence, accuracy = float(confidences[inside].mean()), float(correct[inside].mean())
        ece += count / len(labels) * abs(accuracy - confidence)
        results.append(Bin(low, high, count, confidence, accuracy))
    return Calibration(ece, tuple(results))


def class_scores(counts: Tensor, names: Sequence[str]) -> tuple[ClassScore, ...]:
    """Returns the score of each class, from counts (true, predicted)."""
    rows = zip(names, counts.sum(1), counts.sum(0), counts.diagonal(), strict=True)
    return tuple(ClassScore(name, int(row), int(column), int(c)) for name, row, column, c in rows)


class ThresholdCurve:
    """How many predictions are given, and how many of them are right, at any threshold.

    Parameters
    ----------
    log_probabilities : Tensor of shape (images, classes)
        The predictions.
    labels : Tensor of shape (images,)
        The true classes.
    """

    def __init__(self, log_probabilities: Tensor, labels: Tensor) -> None:
        best = log_probabilities.max(1)
        self._confidences, self._right = best.values.exp(), best.indices == labels
        self._strangers: Tensor | None = None  # confidences once the true class is off the list
        if log_probabilities.shape[1] > 2:
            others = log_probabilities.scatter(1, labels[:, None], -math.inf)
            self._strangers = others.log_softmax(1).max(1).values.exp()

    def at(self, threshold: float) -> ThresholdPoint:
        """Returns what happens at one threshold."""
        kept = self._confidences >= threshold
        strangers = self._strangers
        return ThresholdPoint(
            threshold,
            int(kept.sum()),
            int((kept & self._right).sum()),
            len(kept),
            None if strangers is None else float((strangers < threshold).double().mean()),
        )

    def suggest(self) -> ThresholdPoint | None:
        """Returns the threshold that best tells images of the classes from images of none.

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


def harmonic_mean(base: float, novel: float) -> float:
    """Returns 2bn / (b + n), and 0 if both are 0."""
    return 2 * base * novel / (base + novel) if base + novel else 0.0


def wilson_interval(correct: int, images: int) -> tuple[float, float]:
    """Returns Wilson's 95 % interval of an accuracy, from 0 to 1."""
    share, z2 = correct / images, Z * Z
    middle = (share + z2 / (2 * images)) / (1 + z2 / images)
    half = Z * math.sqrt(share * (1 - share) / images + z2 / (4 * images**2)) / (1 + z2 / images)
    # Rounding may put the ends of 0 and of all just inside.
    low = 0.0 if correct == 0 else max(0.0, middle - half)
    return low, 1.0 if correct == images else min(1.0, middle + half)


def paired_difference(gained: int, lost: int, images: int) -> PairedDifference:
    """Compare two classifiers on the same images.

    The 95 % interval is Tango's score interval for paired shares with a continuity correction. It
    holds for few images as well, where a bootstrap is too narrow, and it excludes 0 only where
    McNemar's test with the same correction rejects that the two are equally good.

    Parameters
    ----------
    gained : int
        Images that only the first classifier gets right.
    lost : int
        Images that only the second one gets right.
    images : int
        All images.

    Returns
    -------
    PairedDifference
        The accuracy of the first minus that of the second.
    """

    def low_of(gained: int, lost: int) -> float:
        def excess(difference: float) -> float:  # falls as the difference grows
            deviation = math.sqrt(images * _variance(gained, lost, images, difference))
            return gained - lost - 1 - images * difference - Z * deviation

        return _root(excess)

    value = (gained - lost) / images
    low, high = low_of(gained, lost), -low_of(lost, gained)
    return PairedDifference(value, min(low, value), max(high, value))


def _variance(gained: int, lost: int, images: int, difference: float) -> float:
    """Returns the variance of one image's difference, if their mean were `difference`."""
    if difference < 0:
        gained, lost, difference = lost, gained, -difference
    # The most probable share of images that only the second one gets right.
    b = (2 * images - gained + lost) * difference - gained - lost
    c = -lost * difference * (1 - difference)
    share = (math.sqrt(max(0.0, b * b - 8 * images * c)) - b) / (4 * images)
    return max(0.0, 2 * share + difference * (1 - difference))


def _root(function: Callable[[float], float]) -> float:
    """Returns where a function that falls from -1 to 1 crosses 0, or the end nearest to that."""
    low, high = -1.0, 1.0
    if function(low) <= 0:
        return low
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
    return low
