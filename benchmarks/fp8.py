"""Measures whether the search could sweep the pool in fp8: how wrong losses are, what is left.

    python benchmarks/fp8.py --model vit-b16 --device cuda --classes 10,50,200
    python benchmarks/fp8.py --model pocket --classes 10

The products of the text tower are computed as fp8 (e4m3) would: both sides are rounded to it, each
column of a matrix and each row of activations with a scale of its own, and multiplied in the
precision of the device. Losses are compared with those in fp32. "Words left" are those within the
margin of `exact` (SAFETY times the largest error of its probes, twice) of the best twenty, which
would have to be scored again.
"""

from __future__ import annotations

import argparse
import copy
from typing import Any

import numpy as np
import torch
from common import build
from selection import task
from torch import Tensor

from ipl.backbone.folded_layers import Layer, Linear
from ipl.backbone.prefix_cache import _CandidatePass
from ipl.backbone.text_tower import TextTower
from ipl.words.modes import PROVED, Exact
from ipl.words.pool import Pool
from ipl.words.scorer import SentenceScorer

LARGEST = 448.0  # of e4m3
AT_ONCE = 128  # words


def rounded(values: Tensor, dim: int) -> Tensor:
    """Returns values rounded to fp8 with one scale along a dimension."""
    scale = LARGEST / values.abs().amax(dim, keepdim=True).float().clamp_min(1e-6)
    return ((values.float() * scale).to(torch.float8_e4m3fn).float() / scale).to(values.dtype)


class RoundedLinear(Linear):
    """A matrix in fp8, whose input is rounded too."""

    def __call__(self, rows: Tensor) -> Tensor:
        """Returns rows (..., in) as (..., out)."""
        return super().__call__(rounded(rows, -1))


class Fp8Tower(TextTower):
    """A text tower whose products, or those of the MLP alone, are as in fp8."""

    def __init__(self, tower: TextTower, only_mlp: bool) -> None:
        self.__dict__.update(copy.copy(tower.__dict__))
        self.only_mlp = only_mlp

        def linear(part: Linear, keep: bool) -> Linear:
            return part if keep else RoundedLinear(rounded(part.weight, 0), part.bias)

        self.layers = tuple(
            Layer(
                *(linear(part, only_mlp) for part in (each.query, each.key, each.value)),
                each.out if only_mlp else rounded(each.out, 0),
                linear(each.up, False),
                rounded(each.down, 0),
            )
            for each in tower.layers
        )

    def add(self, hidden: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
        """Returns the stream with rows @ weight added; of the attention unless only the MLP is."""
        return super().add(hidden, rows if self.only_mlp else rounded(rows, -1), weight)

    def mlp(self, hidden: Tensor, normed: Tensor, index: int) -> Tensor:
        """Returns the stream after a layer's MLP."""
        layer = self.layers[index]
        active = rounded(self.activation(layer.up(normed)), -1)
        return super().add(hidden, active, layer.down)


def losses(scorer: SentenceScorer, words: tuple[str, ...], only_mlp: bool | None) -> Any:
    """Returns the loss of each word, in fp8 or (None) in half precision as the search does."""
    half = torch.float16 if scorer.backbone.device.type == "cuda" else torch.float32
    run = _CandidatePass(scorer._prefix_for(()), half)
    if only_mlp is not None:
        run.tower = Fp8Tower(run.tower, only_mlp)
    ids = torch.tensor(scorer.backbone.tokenize_words(words), device=scorer.backbone.device)
    with torch.no_grad():
        parts = [scorer.cross_entropy.losses(run.features(part)) for part in ids.split(AT_ONCE)]
    return torch.cat(parts).cpu().numpy()


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=["pocket", "vit-b16"], default="pocket")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--classes", default="10", help="numbers with commas between")
    options = parser.parse_args()
    backbone, words = build(options.model, options.device), Pool.bundled().words
    probes = np.linspace(0, len(words) - 1, Exact.PROBES, dtype=int)
    half = "fp16" if options.device == "cuda" else "fp32"
    print("| classes | precision | deviation of all losses | largest error | words left |")
    print("|---|---|---|---|---|")
    for classes in map(int, options.classes.split(",")):
        scorer = SentenceScorer(backbone, *task(backbone, words, classes))
        exact = scorer.score([], words).numpy()
        for name, only_mlp in ((half, None), ("fp8", False), ("fp8, MLP only", True)):
            found = losses(scorer, words, only_mlp)
            margin = 2 * Exact.SAFETY * np.abs(found - exact)[probes].max()
            left = int((found <= np.sort(found)[PROVED - 1] + margin).sum())
            error = np.abs(found - exact).max()
            print(
                f"| {classes} | {name} | {exact.std():.4f} | {error:.1e} | {left:,} |", flush=True
            )


if __name__ == "__main__":
    main()
