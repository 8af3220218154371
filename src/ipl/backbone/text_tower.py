"""A causal text tower as plain matrices, to run many short endings of the same prompts.

Biases that are added to the residual stream are known beforehand: in the search they are left out
of it and added in the norms that read it (`offsets`), which saves a pass over memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, scaled_dot_product_attention

from ipl.backbone.folded_layers import FoldedLayers, TowerLayer, fold

MLP_ROWS = 1 << 15  # run together, because an MLP's activations are four times as wide as a row


@dataclass(frozen=True)
class CausalText:
    """A causal text tower of any library, which `TextTower` is built from."""

    positions: Tensor  # (positions, width)
    layers: Sequence[TowerLayer]
    heads: int
    activation: Callable[[Tensor], Tensor]
    quick: bool  # whether the activation is QuickGELU
    final_norm: Any
    projection: Any


class TextTower(FoldedLayers):
    """The layers of a causal CLIP text tower, from embeddings to features, in one precision."""

    def __init__(self, text: CausalText, dtype: torch.dtype) -> None:
        super().__init__(text.layers, text.heads, text.activation, text.quick, dtype, in_parts=True)
        self.positions: Tensor = text.positions.detach().to(dtype)
        self.project = fold(text.projection, text.final_norm, dtype=dtype)
        offset = torch.zeros(self.positions.shape[1], device=self.positions.device)
        offsets = [offset]
        for layer in text.layers:
            for bias in (layer.out.bias, layer.down.bias):
                offset = offset + bias.detach().float()
                offsets.append(offset)
        # (2 * layers + 1, width): what belongs to the residual stream before each norm
        self.offsets = torch.stack(offsets).to(dtype)

    def norm(self, rows: Tensor, index: int) -> Tensor:
        """Returns the residual stream (..., width) after the norm of this index in the tower."""
        return layer_norm(rows + self.offsets[index], rows.shape[-1:], eps=self.eps)

    @torch.no_grad()
    def keys_and_values(self, embeddings: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Returns each layer's keys and values (prompts, tokens, width) of whole prompts."""
        hidden = embeddings.to(self.dtype) + self.positions[: embeddings.shape[1]]
        keys, values = [], []
        for index, layer in enumerate(self.layers):
            normed = self.norm(hidden, 2 * index)
            keys.append(layer.key(normed))
            values.append(layer.value(normed))
            if index + 1 == len(self.layers):
                break
            query, key, value = map(self._heads, (layer.query(normed), keys[-1], values[-1]))
            mixed = scaled_dot_product_attention(query, key, value, is_causal=True, scale=1.0)
            hidden = self.add(hidden, mixed.transpose(1, 2).flatten(2), layer.out)
            hidden = self.mlp(hidden, self.norm(hidden, 2 * index + 1), index)
        return keys, values

    def add(self, hidden: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
        """Returns the stream with rows @ weight added in place; the bias is in `offsets`."""
        flat = rows.reshape(-1, rows.shape[-1])
        hidden.view(-1, hidden.shape[-1]).addmm_(flat, weight)
        return hidden

    def mlp(self, hidden: Tensor, normed: Tensor, index: int) -> Tensor:
        """Returns the stream after a layer's MLP; `normed` is the stream after the second norm."""
        layer, width = self.layers[index], hidden.shape[-1]
        streams, parts = (rows.view(-1, width).split(MLP_ROWS) for rows in (hidden, normed))
        for stream, part in zip(streams, parts, strict=True):
            self.add(stream, self.activation(layer.up(part)), layer.down)
        return hidden

    def _heads(self, rows: Tensor) -> Tensor:
        """Returns (prompts, rows, width) as (prompts, heads, rows, head width)."""
        split: Tensor = rows.unflatten(-1, (self.heads, -1))
        return split.transpose(1, 2)
