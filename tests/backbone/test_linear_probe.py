"""The linear probe, against scikit-learn's logistic regression."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from torch import Tensor
from torch.nn.functional import normalize

from ipl.backbone import linear_probe
from ipl.backbone.linear_probe import C_GRID, DEFAULT_C, fit_linear_probe

pytestmark = pytest.mark.usefixtures("one_thread")


def make_shots(
    classes: int, shots: int, dim: int, noise: float = 1.0, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Returns normalised features around one centre per class, all in a cone as CLIP's are."""
    generator = torch.Generator().manual_seed(seed)
    cone = 3 * torch.randn(dim, generator=generator)
    centres = torch.randn(classes, dim, generator=generator)
    labels = torch.arange(classes).repeat(shots)
    scatter = noise * torch.randn(len(labels), dim, generator=generator)
    return normalize(cone + centres[labels] + scatter, dim=1), labels


def by_sklearn(features: Tensor, labels: Tensor, c: float) -> LogisticRegression:
    """Returns scikit-learn's solution of the same problem."""
    model = LogisticRegression(C=c, tol=1e-8, max_iter=10_000)
    return model.fit(features.double().numpy(), labels.numpy())


@pytest.mark.parametrize("c", [0.01, 1.0, 56.0, 1000.0])
@pytest.mark.parametrize(("shots", "dim"), [(4, 40), (12, 8)])  # more dimensions; more shots
def test_the_optimum_is_that_of_scikit_learn(
    c: float, shots: int, dim: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear_probe, "C_GRID", (c,))
    features, labels = make_shots(5, shots, dim, noise=2.0)
    probe = fit_linear_probe(features, labels, 5)
    model = by_sklearn(features, labels, c)
    scale = np.abs(model.coef_).max()
    np.testing.assert_allclose(probe.weight.numpy(), model.coef_, atol=1e-3 * scale)
    bias = probe.bias.numpy() - probe.bias.numpy().mean()  # a constant changes nothing
    expected = model.intercept_ - model.intercept_.mean()
    np.testing.assert_allclose(bias, expected, atol=1e-3 * max(scale, 1))
    unseen = make_shots(5, 6, dim, noise=2.0, seed=1)[0]
    probabilities = probe.logits(unseen).softmax(1).numpy()
    np.testing.assert_allclose(probabilities, model.predict_proba(unseen.double()), atol=1e-3)
    assert probe.c == c
    assert probe.weight.shape == (5, dim)


def test_two_classes_have_a_row_each() -> None:
    features, labels = make_shots(2, 6, 10, noise=2.0)
    probe = fit_linear_probe(features, labels, 2)
    # scikit-learn fits one row, the difference, whose penalty is then twice as large.
    model = by_sklearn(features, labels, 2 * probe.c)
    difference = (probe.weight[1] - probe.weight[0]).numpy()
    atol = 1e-3 * np.abs(model.coef_).max()
    np.testing.assert_allclose(difference, model.coef_[0], atol=atol)


@pytest.mark.parametrize(("shots", "noise"), [(2, 3.0), (4, 2.0), (10, 4.0)])
def test_c_has_the_lowest_loss_on_held_out_shots(shots: int, noise: float) -> None:
    features, labels = make_shots(4, shots, 24, noise)
    probe = fit_linear_probe(features, labels, 4, seed=3)
    assert probe.folds == min(shots, 5)
    folds = linear_probe.draw_folds(labels, probe.folds, 3)
    losses = dict.fromkeys(C_GRID, 0.0)
    for fold in range(probe.folds):
        held_out = folds == fold
        for c in C_GRID:
            model = by_sklearn(features[~held_out], labels[~held_out], c)
            predicted = model.predict_proba(features[held_out].double())
            losses[c] += log_loss(labels[held_out], predicted, normalize=False)
    assert probe.c == min(losses, key=lambda c: losses[c])
    assert C_GRID[0] < probe.c < C_GRID[-1]


def test_folds_share_out_every_class() -> None:
    labels = torch.tensor([0] * 10 + [1] * 7 + [2] * 5)[torch.randperm(22)]
    folds = linear_probe.draw_folds(labels, 5, seed=1)
    for label, fewest, most in ((0, 2, 2), (1, 1, 2), (2, 1, 1)):
        shares = folds[labels == label].bincount(minlength=5)
        assert (int(shares.min()), int(shares.max())) == (fewest, most)
    assert torch.equal(folds, linear_probe.draw_folds(labels, 5, seed=1))
    assert not torch.equal(folds, linear_probe.draw_folds(labels, 5, seed=2))


def test_one_shot_takes_the_default() -> None:
    features, labels = make_shots(3, 4, 10)
    keep = torch.ones(len(labels), dtype=torch.bool)
    keep[(labels == 2).nonzero().flatten()[1:]] = False
    probe = fit_linear_probe(features[keep], labels[keep], 3)
    assert (probe.c, probe.folds) == (DEFAULT_C, 0)
    model = by_sklearn(features[keep], labels[keep], DEFAULT_C)
    atol = 1e-3 * np.abs(model.coef_).max()
    np.testing.assert_allclose(probe.weight.numpy(), model.coef_, atol=atol)


def test_of_equal_losses_the_strongest_penalty_is_taken() -> None:
    features, labels = torch.ones(12, 5), torch.arange(3).repeat(4)  # nothing to learn from
    probe = fit_linear_probe(features, labels, 3)
    assert probe.c == C_GRID[0]
    assert probe.logits(features).softmax(1) == pytest.approx(torch.full((12, 3), 1 / 3))


def test_always_the_same_and_in_any_mode() -> None:
    features, labels = make_shots(3, 4, 10)
    probe = fit_linear_probe(features, labels, 3)
    with torch.no_grad():
        again = fit_linear_probe(features.requires_grad_(), labels.int(), 3)
    assert torch.equal(again.weight, probe.weight)
    assert torch.equal(again.bias, probe.bias)
    assert again.c == probe.c
    assert probe.weight.dtype == probe.logits(features.detach().double()).dtype == torch.float32
