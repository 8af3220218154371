"""Measures whether the search could sweep the pool in 8 bits: how wrong losses are, what is left.

    python benchmarks/rounding.py --model vit-b16 --classes 50 --words 512
    python benchmarks/rounding.py --model pocket --classes 10,50

The products of the text tower are computed as in fp8 (e4m3) or 8-bit integers: both sides are
rounded, each column of a matrix and each row of activations with a scale of its own, and multiplied
in fp32. "Around a centre" rounds the difference of each row from its mean over 64 words, as the
search does on a Hopper GPU (`src/ipl/backbone/int8_pass.py`). Losses are compared with those in
fp32. "Words left" are those that `exact` would compute again: the distance of their loss from that
of the twentieth best word is at most SAFETY times the largest error of its probes, and that error
once more. With `--words`, which takes a part of the pool, their number is that of the whole pool.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from common import build
from selection import task
from torch import Tensor

from ipl.backbone.candidate_pass import CandidatePass
from ipl.backbone.prefix_attention import attend_to_prefix
from ipl.words.modes import PROVED, Exact
from ipl.words.pool import Pool
from ipl.words.scorer import SentenceScorer

AT_ONCE = 64  # words
Round = Callable[[Tensor, int], Tensor]  # with one scale along a dimension


def fp8(values: Tensor, dim: int) -> Tensor:
    """Returns values rounded to e4m3."""
    scale = 448 / values.abs().amax(dim, keepdim=True).clamp_min(1e-9)
    return (values * scale).to(torch.float8_e4m3fn).float() / scale


def int8(values: Tensor, dim: int) -> Tensor:
    """Returns values rounded to 8-bit integers."""
    scale = 127 / values.abs().amax(dim, keepdim=True).clamp_min(1e-9)
    return (values * scale).round() / scale


def fp16(values: Tensor, dim: int) -> Tensor:
    """Returns values rounded to half precision."""
    del dim
    return values.half().float()


class RoundedProducts:
    """Takes words through a text tower with rounded products.

    Parameters
    ----------
    run : CandidatePass
        A pass in fp32.
    rounded : callable
        Rounds rows and matrices.
    sample : Tensor of shape (words,), optional
        Token ids whose mean is the centre of the rows; without them rows are rounded as they are.
    """

    def __init__(self, run: CandidatePass, rounded: Round, sample: Tensor | None = None) -> None:
        self.run, self.rounded = run, rounded
        self.weights: dict[int, Tensor] = {}
        self.centres: dict[int, Tensor] = {}
        if sample is not None:
            self._walk(sample, self._measure)

    def features(self, ids: Tensor) -> Tensor:
        """Returns features (words, prompts, dim) of token ids (words,)."""
        return self._walk(ids, self._product)

    def _walk(self, ids: Tensor, product: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        run, tower = self.run, self.run.tower
        hidden = run.first_rows(ids)
        for index, layer in enumerate(tower.layers):
            normed = run.norm(hidden, 2 * index)
            joined = product(normed, layer.qkv.weight) + layer.qkv.bias
            query, key, value = joined.chunk(3, dim=-1)
            prefix, heads = run.prefixes[index], tower.heads
            mixed = attend_to_prefix(query, key, value, prefix, heads)
            hidden = hidden + product(mixed, layer.out)
            normed = run.norm(hidden, 2 * index + 1)
            active = tower.activation(product(normed, layer.up.weight) + layer.up.bias)
            hidden = hidden + product(active, layer.down)
        return tower.project(run.norm(hidden, 2 * len(tower.layers))[:, -1])

    def _measure(self, rows: Tensor, weight: Tensor) -> Tensor:
        self.centres[id(weight)] = rows.mean(0)
        return rows @ weight

    def _product(self, rows: Tensor, weight: Tensor) -> Tensor:
        key = id(weight)
        if key not in self.weights:
            self.weights[key] = self.rounded(weight, 0)
        centre = self.centres.get(key)
        if centre is None:
            return self.rounded(rows, -1) @ self.weights[key]
        return self.rounded(rows - centre, -1) @ self.weights[key] + centre @ weight


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", choices=["pocket", "vit-b16"], default="pocket")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--classes", default="10", help="numbers with commas between")
    parser.add_argument("--words", type=int, default=8900, help="that many, evenly spaced")
    options = parser.parse_args()
    backbone, pool = build(options.model, options.device), Pool.bundled().words
    words = [pool[i] for i in np.linspace(0, len(pool) - 1, options.words, dtype=int)]
    ids = torch.tensor(backbone.tokenize_words(words), device=backbone.device)
    probes = np.linspace(0, len(words) - 1, Exact.PROBES, dtype=int)
    best = max(1, round(PROVED * len(words) / len(pool)))
    print("| classes | rounded to | error / deviation of all losses | largest | words left |")
    print("|---|---|---|---|---|")
    for classes in map(int, options.classes.split(",")):
        scorer = SentenceScorer(backbone, *task(backbone, pool, classes))
        run = scorer._prefix_for(()).candidate_pass(torch.float32)
        centred: Any = partial(RoundedProducts, run, sample=ids[torch.from_numpy(probes)])
        exact = scorer.score([], words).cpu().numpy()
        with torch.no_grad():
            for name, products in {
                "fp16": RoundedProducts(run, fp16),
                "fp8": RoundedProducts(run, fp8),
                "fp8, around a centre": centred(rounded=fp8),
                "int8": RoundedProducts(run, int8),
                "int8, around a centre": centred(rounded=int8),
            }.items():
                losses = [
                    scorer.cross_entropy.losses(products.features(part))
                    for part in ids.split(AT_ONCE)
                ]
                rough = torch.cat(losses).cpu().numpy()
                error, spread = np.abs(rough - exact), exact.std()
                margin = (Exact.SAFETY + 1) * error[probes].max()
                left = (rough <= np.sort(rough)[best - 1] + margin).mean() * len(pool)
                print(
                    f"| {classes} | {name} | {(rough - exact).std() / spread:.3f} "
                    f"| {error.max() / spread:.3f} | {left:,.0f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
