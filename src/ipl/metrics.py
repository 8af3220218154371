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
    """Predictions of similar confidence: how sure they were, and how many were right."""

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


def score(log_p: Tensor, labels: Tensor) -> Score:
    """Returns accuracy and loss of log-probabilities (images, classes)."""
    right = (log_p.argmax(1) == labels).double().mean()
    return Score(float(right), float(-truth(log_p, labels).mean()))


def truth(log_p: Tensor, labels: Tensor) -> Tensor:
    """Returns the log-probability (images,) of each image's true class."""
    return log_p.gather(1, labels[:, None])[:, 0]


def confusion(log_p: Tensor, labels: Tensor) -> Tensor:
    """Returns counts (true class, predicted class)."""
    classes = log_p.shape[1]
    flat = torch.bincount(labels * classes + log_p.argmax(1), minlength=classes * classes)
    return flat.reshape(classes, classes)


def most_confused(counts: Tensor, names: tuple[str, ...], most: int = 6) -> tuple[Confused, ...]:
    """Returns the largest entries off the diagonal of counts (true, predicted)."""
    off = counts.clone().fill_diagonal_(0).flatten()
    order = torch.argsort(off, descending=True, stable=True)[:most].tolist()
    pairs = [(place // len(names), place % len(names)) for place in order if off[place] > 0]
    return tuple(
        Confused(names[i], names[j], int(counts[i, j]), int(counts[i].sum())) for i, j in pairs
    )


def calibration(log_p: Tensor, labels: Tensor, bins: int = BINS) -> Calibration:
    """Returns the bins of confidence, and sum over them of share * |accuracy - confidence|."""
    best = log_p.max(1)
    confidence, right = best.values.exp(), (best.indices == labels).double()
    edges = torch.linspace(0, 1, bins + 1, dtype=torch.float64)
    # A confidence on an edge belongs to the bin below it.
    places = torch.bucketize(confidence, edges[1:-1])
    found, ece = [], 0.0
    for place in range(bins):
        inside = places == place
        count = int(inside.sum())
        low, high = float(edges[place]), float(edges[place + 1])
        if not count:
            found.append(Bin(low, high, 0, (low + high) / 2, None))
            continue
        sure, accuracy = float(confidence[inside].mean()), float(right[inside].mean())
        ece += count / len(labels) * abs(accuracy - sure)
        found.append(Bin(low, high, count, sure, accuracy))
    return Calibration(ece, tuple(found))


def harmonic_mean(base: float, novel: float) -> float:
    """Returns 2bn / (b + n), and 0 if both are 0."""
    return 2 * base * novel / (base + novel) if base + novel else 0.0
