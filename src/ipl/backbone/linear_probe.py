"""Linear probes: logistic regression on image features, with or without the logits of a prompt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch.nn.functional import nll_loss, normalize, one_hot

C_GRID = tuple(10 ** (-2 + 0.75 * step) for step in range(9))  # 0.01 to 10,000
DEFAULT_C = C_GRID[5]  # 56, often chosen where there are few shots
ALPHAS = (1 / 64, 1 / 16, 1 / 4, 1 / 2, 1.0)  # beside 0; CLIP's scale can be far too large
DEFAULT_ALPHA, DEFAULT_C_WITH_OFFSET = 1 / 16, C_GRID[3]
MOST_FOLDS = 5
# Of the gradient, where the objective is scaled so that its curvature is about 1.
TOLERANCE, ROUGH_TOLERANCE = 1e-6, 1e-2
TIE = 1e-6  # losses that differ by less are equal
# Multiplications in a gradient below which threads wait for each other longer than they compute,
# many times longer if other processes are busy.
SMALL_PROBLEM = 2e8


@dataclass(frozen=True)
class LinearProbe:
    """A fitted linear probe, and how strongly it was regularised."""

    weight: Tensor  # (classes, dim)
    bias: Tensor  # (classes,)
    c: float  # inverse strength of the L2 penalty
    folds: int  # of the cross-validation that chose c; 0 if none was possible
    alpha: float = 0.0  # how much of the offset is added
    names_alpha: float = 0.0  # how much of zero-shot's logits is part of the weights
    loss: float = math.nan  # mean, on the shots that the cross-validation held out

    def logits(self, features: Tensor, offset: Tensor | None = None) -> Tensor:
        """Logits (images, classes) of image features (images, dim), normalised or not.

        The offset (images, classes) is the logits of the prompt that the probe was fitted with.
        """
        logits = normalize(features.to(self.weight), dim=-1) @ self.weight.T + self.bias
        return logits if offset is None else logits + self.alpha * offset.to(logits)

    @property
    def about_offset(self) -> str:
        """Which logits of texts are added, and how much of them."""
        if self.names_alpha:
            return f"with {self.names_alpha:.3g} times the zero-shot logits"
        return f"with {self.alpha:.3g} times the prompt's logits" if self.alpha else "on its own"

    def only(self, classes: Sequence[int]) -> LinearProbe:
        """The probe for some of its classes, whose probabilities are renormalised."""
        rows = list(classes)
        return replace(self, weight=self.weight[rows], bias=self.bias[rows])


def fit_linear_probe(
    features: Tensor, labels: Tensor, classes: int, seed: int = 1, offset: Tensor | None = None
) -> LinearProbe:
    """Fit multinomial logistic regression, its settings chosen by cross-validation.

    The features (shots, dim) may be normalised or not, and each class needs a shot. The objective
    is that of scikit-learn's `LogisticRegression` with three or more classes: C times the sum of
    the cross-entropies plus half the squared norm of the weights, the bias not penalised. Of nine C
    from 0.01 to 10,000, evenly spaced in their logarithm, the one with the lowest mean loss on
    held-out shots is taken, and the smaller one of equals. There are five folds, or as many as the
    smallest class has shots, and each has its share of every class. If a class has a single shot,
    nothing can be held out, and C is 56.

    An offset (shots, classes) is the logits of a text classifier that was not trained on these
    shots. Alpha times the offset is added to the logits; alpha is chosen with C, and 0 among
    equals.
    """
    offsets = [] if offset is None else [offset]
    return fit_linear_probes(features, labels, classes, seed, offsets)[-1]


def fit_linear_probes(
    features: Tensor, labels: Tensor, classes: int, seed: int, offsets: Sequence[Tensor]
) -> list[LinearProbe]:
    """The probe without an offset and one with each of them: most of the work is the same."""
    # Double precision, which Apple's GPUs do not have.
    device = "cpu" if features.device.type == "mps" else features.device
    inputs = normalize(features.detach().to(device, torch.float64), dim=1)
    labels = labels.to(device, torch.long)
    # The bias is free, so centring changes nothing but the bias; and the penalty is the same in
    # any orthonormal basis. In this one, which spans the shots, the optimiser needs few steps.
    mean = inputs.mean(0)
    left, singular, basis = torch.linalg.svd(inputs - mean, full_matrices=False)
    inputs = torch.cat([left * singular, torch.ones_like(left[:, :1])], 1)
    problem = _Problem(inputs, labels, classes)
    most = min(MOST_FOLDS, int(labels.bincount(minlength=classes).min()))
    folds = draw_folds(labels, most, seed) if most >= 2 else None
    probes = list[LinearProbe]()
    small = inputs.numel() * classes < SMALL_PROBLEM
    with threadpool_limits(1 if small else None):
        plain = {} if folds is None else _losses_by_c(problem, folds, C_GRID)
        for offset in (None, *offsets):
            text = None if offset is None else offset.detach().to(inputs)
            alpha, c, loss = _choose(problem, text, folds, plain)
            if probes and not alpha:
                probes.append(probes[0])
                continue
            shifted = problem if text is None else replace(problem, offset=alpha * text)
            solution = shifted.solve(c, problem.start(), TOLERANCE)
            weight = solution[:, :-1] @ basis
            bias = solution[:, -1] - weight @ mean
            weight, bias = (part.float().to(features.device) for part in (weight, bias))
            number = 0 if folds is None else most
            probes.append(LinearProbe(weight, bias, c, number, alpha, loss=loss))
    return probes


@dataclass(frozen=True)
class _Problem:
    """Logistic regression on inputs whose columns are near orthogonal; the last one is 1."""

    inputs: Tensor  # (shots, rank + 1)
    labels: Tensor
    classes: int
    offset: Tensor | None = None  # (shots, classes)

    def start(self) -> Tensor:
        """Coefficients of 0 (classes, rank + 1)."""
        return self.inputs.new_zeros(self.classes, self.inputs.shape[1])

    def rows(self, mask: Tensor) -> _Problem:
        offset = None if self.offset is None else self.offset[mask]
        return _Problem(self.inputs[mask], self.labels[mask], self.classes, offset)

    def log_probabilities(self, coefficients: Tensor) -> Tensor:
        logits = self.inputs @ coefficients.T
        logits = logits if self.offset is None else logits + self.offset
        return logits.log_softmax(1)

    def loss(self, coefficients: Tensor) -> Tensor:
        """The sum of the cross-entropies."""
        return nll_loss(self.log_probabilities(coefficients), self.labels, reduction="sum")

    def solve(self, c: float, start: Tensor, tolerance: float) -> Tensor:
        """The coefficients that minimise the objective, the last column the bias."""
        # The curvature of each column while all classes are about equally probable.
        curvature = c / self.classes * self.inputs.square().sum(0)
        curvature[:-1] += 1
        scale = curvature.rsqrt()
        truth = one_hot(self.labels, self.classes).to(self.inputs)
        penalised = torch.ones_like(scale)
        penalised[-1] = 0

        def objective(values: Any) -> tuple[float, Any]:
            coefficients = torch.from_numpy(values).to(scale).view_as(start) * scale
            logs = self.log_probabilities(coefficients)
            weights = coefficients * penalised
            value = weights.square().sum() / 2 - c * (logs * truth).sum()
            gradient = c * (logs.exp() - truth).T @ self.inputs + weights
            return float(value), (gradient * scale).flatten().cpu().numpy()

        found = minimize(
            objective,
            (start / scale).flatten().cpu().numpy(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 1000, "gtol": tolerance, "ftol": 0.0},
        )
        return torch.from_numpy(found.x).to(scale).view_as(start) * scale


def _choose(
    problem: _Problem, offset: Tensor | None, folds: Tensor | None, plain: dict[float, float]
) -> tuple[float, float, float]:
    """Alpha and C with the lowest mean loss of held-out shots, the smaller of equals; the loss.

    `plain` are the losses with each C and without the offset.
    """
    if folds is None:
        default = (0.0, DEFAULT_C) if offset is None else (DEFAULT_ALPHA, DEFAULT_C_WITH_OFFSET)
        return (*default, math.nan)
    losses = {(0.0, c): loss for c, loss in plain.items()}
    if offset is not None:
        # What the offset explains, weights need not: C is hardly larger than without it.
        most = C_GRID.index(min(plain, key=lambda c: plain[c])) + 1
        for alpha in ALPHAS:
            shifted = replace(problem, offset=alpha * offset)
            by_c = _losses_by_c(shifted, folds, C_GRID[: most + 1])
            losses |= {(alpha, c): loss for c, loss in by_c.items()}
    limit = min(losses.values()) + TIE
    alpha, c = next(pair for pair, loss in losses.items() if loss <= limit)
    return alpha, c, losses[alpha, c]


def _losses_by_c(problem: _Problem, folds: Tensor, grid: tuple[float, ...]) -> dict[float, float]:
    """The mean loss of held-out shots with each C."""
    losses = dict.fromkeys(grid, 0.0)
    for fold in range(int(folds.max()) + 1):
        training, held_out = problem.rows(folds != fold), problem.rows(folds == fold)
        solution = problem.start()
        for c in grid:  # each begins where the one before ended
            solution = training.solve(c, solution, ROUGH_TOLERANCE)
            losses[c] += float(held_out.loss(solution)) / len(folds)
    return losses


def draw_folds(labels: Tensor, folds: int, seed: int) -> Tensor:
    """The fold of each shot; every fold has its share of each class."""
    generator = torch.Generator().manual_seed(seed)
    result = torch.empty_like(labels)
    for label in labels.unique():
        shots = (labels == label).nonzero().flatten()
        order = torch.randperm(len(shots), generator=generator).to(labels.device)
        result[shots] = order % folds
    return result
