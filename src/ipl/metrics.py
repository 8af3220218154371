"""Numbers of a classifier on labelled images: accuracy, loss, confusion, calibration."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

BINS = 15  # of confidence, all of one width


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
    return torch.bincount(cells, minlength=classes * classes).reshape(classes, classes)


def most_confused(counts: Tensor, names: tuple[str, ...], limit: int = 6) -> tuple[Confused, ...]:
    """Returns the largest entries off the diagonal of counts (true, predicted)."""
    errors = counts.clone().fill_diagonal_(0).flatten()
    order = torch.argsort(errors, descending=True, stable=True)[:limit].tolist()
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


def harmonic_mean(base: float, novel: float) -> float:
    """Returns 2bn / (b + n), and 0 if both are 0."""
    return 2 * base * novel / (base + novel) if base + novel else 0.0
