"""Numbers recomputed by hand."""

from __future__ import annotations

import math
from math import comb

import pytest
import torch

from ipl.metrics import ThresholdCurve, calibration, paired_difference

# Four images of two classes: sure and right, sure and wrong, unsure and right, half sure.
P = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.3, 0.7]], dtype=torch.float64)
LABELS = torch.tensor([0, 1, 1, 1])


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


def test_a_clear_difference_is_one_that_an_exact_test_finds() -> None:
    """McNemar's exact test: of the images on which the two differ, half are gained by chance."""
    for gained in range(26):
        for lost in range(26):
            differ = gained + lost
            tail = sum(comb(differ, count) for count in range(max(gained, lost), differ + 1))
            p = min(1.0, 2 * tail / 2**differ)
            if paired_difference(gained, lost, 100).is_clear:
                assert p <= 0.05
            else:
                assert p > 0.03


@pytest.mark.parametrize(("better", "worse"), [(0.1, 0.1), (0.5, 0.5), (0.3, 0.02), (0.0, 0.0)])
def test_the_interval_of_a_difference_covers_it_19_times_in_20(better: float, worse: float) -> None:
    images, covered = 15, 0.0
    for gained in range(images + 1):
        for lost in range(images + 1 - gained):
            rest = images - gained - lost
            ways = comb(images, gained) * comb(images - gained, lost)
            probability = ways * better**gained * worse**lost * (1 - better - worse) ** rest
            difference = paired_difference(gained, lost, images)
            assert difference.low <= difference.value <= difference.high
            if difference.low - 1e-9 <= better - worse <= difference.high + 1e-9:
                covered += probability
    assert covered >= 0.95


@pytest.mark.parametrize("seed", range(4))
def test_the_threshold_curve_as_counted_one_by_one(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(40, 4, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, 4, (40,), generator=generator)
    logits[torch.arange(40), labels] += 1.5
    curve = ThresholdCurve(logits.log_softmax(1), labels)

    def by_hand(threshold: float) -> tuple[int, int, float]:
        kept = correct = rejected = 0
        for row, label in zip(logits.tolist(), labels.tolist(), strict=True):
            weights = [math.exp(value) for value in row]
            if max(weights) / sum(weights) >= threshold:
                kept += 1
                correct += weights.index(max(weights)) == label
            others = [weight for index, weight in enumerate(weights) if index != label]
            rejected += max(others) / sum(others) < threshold
        return kept, correct, rejected / 40

    for threshold in (0.0, 0.3, 0.5, 0.9):
        point = curve.at(threshold)
        assert (point.kept, point.correct, point.rejected) == by_hand(threshold)
    best = curve.suggest()
    assert best is not None
    right = curve.at(0.0).correct

    def merit(threshold: float) -> float:
        _, correct, rejected = by_hand(threshold)
        return correct / right + rejected

    assert merit(best.threshold) == pytest.approx(max(merit(step / 2000) for step in range(2000)))


def test_two_classes_have_no_threshold_for_none_of_these() -> None:
    curve = ThresholdCurve(P.log(), LABELS)
    assert curve.suggest() is None
    assert curve.at(0.65).kept == 3
    assert curve.at(0.65).accuracy == pytest.approx(2 / 3)
    assert curve.at(0.65).rejected is None
    assert curve.at(1.0).accuracy is None
