"""Prompts that take the place of others before the layers of a tower, and the way through them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

# Called before each layer with (layer index, hidden states); returns the states to continue with.
Enter = Callable[[int, Tensor], Tensor]


@dataclass(frozen=True)
class ReplacedRows:
    """Puts new prompts in place of the old ones, as a hook for the layers of a tower.

    Parameters
    ----------
    start : int
        The first row to replace; a negative number counts from the end.
    deep : Tensor of shape (layers, rows, width)
        `deep[i]` enters before layer i + 1. Other rows and layers stay as they are.
    """

    start: int
    deep: Tensor

    @cached_property
    def _layers(self) -> tuple[Tensor, ...]:
        return self.deep.unbind()

    def __call__(self, number: int, hidden: Tensor) -> Tensor:
        """Returns the input (batch, rows, width) of a layer with its new prompts."""
        if not 1 <= number <= len(self.deep):
            return hidden
        rows, length = self._layers[number - 1].to(hidden.dtype), hidden.shape[1]
        first = range(length)[self.start]
        # Split instead of indexed: the gradients are then joined in one pass instead of added up.
        sizes = [first, len(rows), length - first - len(rows)]
        before, _, after = hidden.split(sizes, dim=1)
        # len(hidden) would be a constant in a traced graph, as ONNX has it.
        rows = rows.expand(hidden.shape[0], -1, -1)
        return torch.cat([before, rows, after], dim=1)


def run_layers(
    layers: Any, hidden: Tensor, enter: Enter | None = None, causal: bool = False
) -> Tensor:
    """Returns the rows (batch, rows, width) after all layers."""
    for index, layer in enumerate(layers):
        if enter is not None:
            hidden = enter(index, hidden)
        hidden = layer(hidden, None, is_causal=causal)
    return hidden
