"""Products of fp32 numbers on the matrix units of a Hopper GPU, as exact as those without.

These units read the first 11 bits of a number's mantissa (TF32). A number is split into two of
these, and three of the four products are added up; what the fourth would add is less than rounding.
"""

from __future__ import annotations

import copy
from dataclasses import replace

from torch import Tensor

from ipl.backbone.folded_layers import Linear
from ipl.backbone.search_kernels import multiply, sizes_fit
from ipl.backbone.text_tower import TextTower


class SplitLinear(Linear):
    """A matrix (in, out) in fp32 and its bias, whose product is computed in three."""

    def __call__(self, rows: Tensor) -> Tensor:
        """Returns rows (..., in) as (..., out)."""
        out = rows.new_empty(*rows.shape[:-1], len(self.bias))
        multiply(out, rows, self.weight, self.bias)
        return out


class SplitTower(TextTower):
    """A text tower in fp32 whose products are each computed in three."""

    def __init__(self, tower: TextTower) -> None:
        self.__dict__.update(copy.copy(tower.__dict__))
        self.layers = tuple(
            replace(
                layer,
                qkv=SplitLinear(*layer.qkv),
                query=SplitLinear(*layer.query),
                key=SplitLinear(*layer.key),
                value=SplitLinear(*layer.value),
                up=SplitLinear(*layer.up),
            )
            for layer in tower.layers
        )

    @staticmethod
    def fits(tower: TextTower) -> bool:
        """Returns whether the matrices of a tower suit the kernel."""
        layer = tower.layers[0]
        return sizes_fit(*layer.out.shape, *layer.down.shape)

    def add(self, hidden: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
        """Returns the stream with rows @ weight added in place."""
        multiply(hidden, rows, weight)
        return hidden
