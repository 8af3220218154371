"""Prompts that take the place of others before the layers of a tower, and the way through them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

# Called before each layer with (layer index, hidden states); returns the states to continue with.
Enter = Callable[[int, Tensor], Tensor]


class EnteringRows(NamedTuple):
    """Rows that enter a matrix of rows at the same place of each of its first parts."""

    rows: Tensor  # (count, width)
    first: int  # row of a part
    part: int  # rows
    parts: int

    def put_into(self, hidden: Tensor) -> Tensor:
        """Returns a matrix (..., width) with these rows in place of its own."""
        width, count = hidden.shape[-1], len(self.rows)
        flat = hidden.reshape(-1, width)
        # Split instead of indexed: the gradients are then joined in one pass instead of added up.
        parts, rest = flat.split([self.parts * self.part, len(flat) - self.parts * self.part])
        sizes = [self.first, count, self.part - self.first - count]
        before, _, after = parts.view(self.parts, self.part, width).split(sizes, dim=1)
        rows = self.rows.to(hidden.dtype).expand(self.parts, -1, -1)
        entered = torch.cat([before, rows, after], dim=1).view(-1, width)
        return (torch.cat([entered, rest]) if len(rest) else entered).view(hidden.shape)


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

    def __call__(self, number: int, hidden: Tensor) -> Tensor:
        """Returns the input (batch, rows, width) of a layer with its new prompts."""
        if not 1 <= number <= len(self.deep):
            return hidden
        batch, rows = hidden.shape[:2]
        first = range(rows)[self.start]
        return EnteringRows(self.deep[number - 1], first, rows, batch).put_into(hidden)


def entering_rows(
    enter: Enter | None, dtype: torch.dtype, part: int, parts: int
) -> tuple[dict[int, EnteringRows], Enter | None]:
    """Returns the rows that a hook lets enter before each layer, and any other hook as it is.

    The stream has a number of parts of as many rows, and maybe others behind them.
    """
    if not isinstance(enter, ReplacedRows):
        return {}, enter
    layers = enumerate(enter.deep.to(dtype).unbind(), start=1)
    first = range(part)[enter.start]
    return {number: EnteringRows(rows, first, part, parts) for number, rows in layers}, None


def run_layers(
    layers: Any, hidden: Tensor, enter: Enter | None = None, causal: bool = False
) -> Tensor:
    """Returns the rows (batch, rows, width) after all layers."""
    for index, layer in enumerate(layers):
        if enter is not None:
            hidden = enter(index, hidden)
        hidden = layer(hidden, None, is_causal=causal)
    return hidden
