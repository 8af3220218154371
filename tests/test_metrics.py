"""Numbers recomputed by hand."""

from __future__ import annotations

import math

import pytest
import torch

from ipl.metrics import calibration, confusion, most_confused, score

# Four images of two classes: sure and right, sure and wrong, unsure and right, half sure.
P = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.3, 0.7]], dtype=torch.float64)
LABELS = torch.tensor([0, 1, 1, 1])


def test_score_is_the_share_right_and_the_mean_surprise() -> None:
    found = score(P.log(), LABELS)
    assert found.accuracy == 0.75
    assert found.loss == pytest.approx(-sum(map(math.log, (0.9, 0.2, 0.6, 0.7))) / 4)


def test_ece_by_hand() -> None:
    # Two bins: (0, 0.5] is empty; (0.5, 1] holds all, right 3 of 4, mean confidence 0.75.
    assert calibration(P.log(), LABELS, bins=2).ece == pytest.approx(0.0)
    # Five bins of 0.2: (0.4, 0.6] holds 0.6, right; (0.6, 0.8] holds 0.8, wrong, and 0.7, right;
    # (0.8, 1] holds 0.9, right.
    found = calibration(P.log(), LABELS, bins=5)
    by_hand = 1 / 4 * abs(1 - 0.6) + 2 / 4 * abs(1 / 2 - 0.75) + 1 / 4 * abs(1 - 0.9)
    assert found.ece == pytest.approx(by_hand)
    assert [b.count for b in found.bins] == [0, 0, 1, 2, 1]
    assert [b.accuracy for b in found.bins] == [None, None, 1.0, 0.5, 1.0]
    assert found.bins[3].confidence == pytest.approx(0.75)


def test_always_right_and_always_sure_has_no_error() -> None:
    found = calibration(torch.eye(3, dtype=torch.float64).log(), torch.arange(3))
    assert found.ece == 0.0
    assert found.bins[-1].count == 3


def test_confusion_counts_true_by_predicted() -> None:
    counts = confusion(P.log(), LABELS)
    assert counts.tolist() == [[1, 0], [1, 2]]
    (only,) = most_confused(counts, ("cat", "dog"))
    assert (only.true, only.predicted, only.count, only.of) == ("dog", "cat", 1, 3)


def test_nothing_is_confused_on_the_diagonal() -> None:
    assert most_confused(torch.eye(3, dtype=torch.long), ("a", "b", "c")) == ()
