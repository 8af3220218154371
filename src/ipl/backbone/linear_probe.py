"""A linear probe: logistic regression on frozen image features, with no text at all."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from ipl.support.errors import DataError

C_GRID = tuple(10 ** (-2 + 0.75 * step) for step in range(9))  # 0.01 to 10,000
DEFAULT_C = C_GRID[5]  # 56, often chosen where there are few shots
MOST_FOLDS = 5
# Of the gradient, where the objective is scaled so that its curvature is about 1.
TOLERANCE, ROUGH_TOLERANCE = 1e-6, 1e-2
TIE = 1e-6  # losses that differ by less are equal


@dataclass(frozen=True)
class LinearProbe:
    """A fitted linear probe, and how strongly it was regularised."""

    weight: Tensor  # (classes, dim)
    bias: Tensor  # (classes,)
    c: float  # inverse strength of the L2 penalty
    folds: int  # of the cross-validation that chose c; 0 if none was possible

    def logits(self, features: Tensor) -> Tensor:
        """Compute the logits of images.

        Parameters
        ----------
        features : Tensor of shape (images, dim)
            Image features, normalised or not.

        Returns
        -------
        Tensor of shape (images, classes)
            Logits on the probe's device.
        """
        return normalize(features.to(self.weight), dim=-1) @ self.weight.T + self.bias


def fit_linear_probe(features: Tensor, labels: Tensor, classes: int, seed: int = 1) -> LinearProbe:
    """Fit multinomial logistic regression, its L2 strength chosen by cross-validation.

    The objective is that of scikit-learn's ``LogisticRegression`` with three or more classes: C
    times the sum of the cross-entropies plus half the squared norm of the weights, the bias not
    penalised. Of nine C from 0.01 to 10,000, evenly spaced in their logarithm, the one with the
    lowest mean loss on held-out shots is taken, and the smaller one of equals. There are five
    folds, or as many as the smallest class has shots, and each has its share of every class. If
    a class has a single shot, nothing can be held out, and C is 56.

    Parameters
    ----------
    features : Tensor of shape (shots, dim)
        Image features of the shots, normalised or not.
    labels : Tensor of shape (shots,)
        Their classes, from 0.
    classes : int
        Number of classes; each needs a shot.
    seed : int, default=1
        Seed of the draw of the folds.

    Returns
    -------
    LinearProbe
        The probe, in fp32 on the features' device.

    Raises
    ------
    DataError
        If a class has no shot, or if a label or a feature cannot be used.
    """
    counts = _count_shots(features, labels, classes)
    # Double precision, which Apple's GPUs do not have.
    device = "cpu" if features.device.type == "mps" else features.device
    inputs = normalize(features.detach().to(device, torch.float64), dim=1)
    labels = labels.to(device, torch.long)
    # The bias is free, so centring changes nothing but the bias; and the penalty is the same in
    # any orthonormal basis. In this one, which spans the shots, the optimiser needs few steps.
    mean = inputs.mean(0)
    left, singular, basis = torch.linalg.svd(inputs - mean, full_matrices=False)
    ones = torch.ones_like(left[:, :1])
    problem = _Problem(torch.cat([left * singular, ones], 1), labels, classes)
    folds = min(MOST_FOLDS, min(counts))
    if folds < 2:
        folds, c = 0, DEFAULT_C
    else:
        c = _choose_c(problem, _draw_folds(labels, folds, seed))
    solution = problem.solve(c, problem.start(), TOLERANCE)
    weight = solution[:, :-1] @ basis
    bias = solution[:, -1] - weight @ mean
    weight, bias = (part.float().to(features.device) for part in (weight, bias))
    return LinearProbe(weight, bias, c, folds)


@dataclass(frozen=True)
class _Problem:
    """Logistic regression on inputs whose columns are near orthogonal; the last one is 1."""

    inputs: Tensor  # (shots, rank + 1)
    labels: Tensor
    classes: int

    def start(self) -> Tensor:
        """Returns coefficients of 0 (classes, rank + 1)."""
        return self.inputs.new_zeros(self.classes, self.inputs.shape[1])

    @torch.enable_grad()
    def solve(self, c: float, start: Tensor, tolerance: float) -> Tensor:
        """Returns the coefficients that minimise the objective, the last column the bias."""
        # The curvature of each column while all classes are about equally probable.
        curvature = c / self.classes * self.inputs.square().sum(0)
        curvature[:-1] += 1
        scale = curvature.rsqrt()
        scaled = (start / scale).requires_grad_()
        optimizer = torch.optim.LBFGS(
            [scaled],
            max_iter=1000,
            tolerance_grad=tolerance,
            tolerance_change=1e-12,
            history_size=10,
            line_search_fn="strong_wolfe",
        )

        def objective() -> Tensor:
            optimizer.zero_grad()
            coefficients = scaled * scale
            logits = self.inputs @ coefficients.T
            loss = c * cross_entropy(logits, self.labels, reduction="sum")
            loss = loss + coefficients[:, :-1].square().sum() / 2
            loss.backward()
            return loss

        optimizer.step(objective)
        return scaled.detach() * scale


def _choose_c(problem: _Problem, folds: Tensor) -> float:
    """Returns the C of the lowest mean loss on held-out shots, the smaller one of equals."""
    losses = [0.0] * len(C_GRID)
    for fold in range(int(folds.max()) + 1):
        held_out = folds == fold
        training = _Problem(problem.inputs[~held_out], problem.labels[~held_out], problem.classes)
        solution = problem.start()
        for index, c in enumerate(C_GRID):  # each begins where the one before ended
            solution = training.solve(c, solution, ROUGH_TOLERANCE)
            logits = problem.inputs[held_out] @ solution.T
            loss = cross_entropy(logits, problem.labels[held_out], reduction="sum")
            losses[index] += float(loss) / len(folds)
    limit = min(losses) + TIE
    return next(c for c, loss in zip(C_GRID, losses, strict=True) if loss <= limit)


def _draw_folds(labels: Tensor, folds: int, seed: int) -> Tensor:
    """Returns the fold of each shot; every fold has its share of each class."""
    generator = torch.Generator().manual_seed(seed)
    result = torch.empty_like(labels)
    for label in labels.unique():
        shots = (labels == label).nonzero().flatten()
        order = torch.randperm(len(shots), generator=generator).to(labels.device)
        result[shots] = order % folds
    return result


def _count_shots(features: Tensor, labels: Tensor, classes: int) -> list[int]:
    """Returns the number of shots of each class; raises DataError if the shots cannot be used."""
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        raise DataError(
            "A linear probe needs features (shots, dim) and one label for each: "
            f"got {tuple(features.shape)} and {tuple(labels.shape)}."
        )
    if not features.isfinite().all():
        raise DataError("Features contain NaN or infinity.")
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < classes:
        raise DataError(f"Labels must be between 0 and {classes - 1}.")
    counts: list[int] = labels.bincount(minlength=classes).tolist()
    if classes < 2 or 0 in counts:
        raise DataError("A linear probe needs at least two classes, and a shot of each.")
    return counts
