"""A causal text tower as plain matrices, to run many short endings of the same prompts.

Three rewritings save passes over memory and change nothing but rounding. The scale and shift of a
layer norm are folded into the matrix after it. x * sigmoid(1.702 x) is silu(1.702 x) / 1.702, and
both factors are folded into the matrices around it. Biases that are added to the residual stream
are known beforehand: they are left out of it and added in the norms that read it (`offsets`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, scaled_dot_product_attention, silu

QUICK = 1.702  # QuickGELU's factor
MLP_ROWS = 1 << 15  # run together, because an MLP's activations are four times as wide as a row


class WeightAndBias(NamedTuple):
    """A matrix (out, in) and its bias (out,), as `torch.nn.Linear` has them."""

    weight: Tensor
    bias: Tensor | None


@dataclass(frozen=True)
class TextLayer:
    """The modules of one layer: each has `weight` and `bias`, a norm also `eps`."""

    norm1: Any
    query: Any
    key: Any
    value: Any
    out: Any
    norm2: Any
    up: Any
    down: Any


@dataclass(frozen=True)
class CausalText:
    """A causal text tower of any library, which `TextTower` is built from."""

    positions: Tensor  # (positions, width)
    layers: Sequence[TextLayer]
    heads: int
    activation: Callable[[Tensor], Tensor]
    quick: bool  # whether the activation is QuickGELU
    final_norm: Any
    projection: Any


class Linear(NamedTuple):
    """A matrix (in, out) and its bias (out,)."""

    weight: Tensor
    bias: Tensor

    def __call__(self, rows: Tensor) -> Tensor:
        """Returns rows (..., in) as (..., out)."""
        flat = torch.addmm(self.bias, rows.reshape(-1, rows.shape[-1]), self.weight)
        return flat.view(*rows.shape[:-1], -1)


@dataclass(frozen=True)
class Layer:
    """One layer's matrices; the query carries the attention's scale."""

    query: Linear
    key: Linear
    value: Linear
    out: Tensor  # (width, width); its bias is in the tower's offsets
    up: Linear
    down: Tensor


class TextTower:
    """The layers of a causal CLIP text tower, from embeddings to features, in one precision."""

    def __init__(self, text: CausalText, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.eps = float(text.final_norm.eps)
        self.heads = text.heads
        self.positions: Tensor = text.positions.detach().to(dtype)
        self.project = _fold(text.projection, text.final_norm, dtype=dtype)
        self.activation = _silu_in_place if text.quick else text.activation
        quick = QUICK if text.quick else 1.0
        width = self.positions.shape[1]
        scale = (width // self.heads) ** -0.5
        offset = torch.zeros(width, device=self.positions.device)
        layers, offsets, self.biases = [], [offset], []
        self._qkv: dict[int, Linear] = {}
        for layer in text.layers:
            layers.append(
                Layer(
                    _fold(layer.query, layer.norm1, scale, dtype),
                    _fold(layer.key, layer.norm1, dtype=dtype),
                    _fold(layer.value, layer.norm1, dtype=dtype),
                    layer.out.weight.detach().T.to(dtype),
                    _fold(layer.up, layer.norm2, quick, dtype),
                    (layer.down.weight.detach().float().T / quick).to(dtype),
                )
            )
            biases = (layer.out.bias, layer.down.bias)
            for bias in biases:
                offset = offset + bias.detach().float()
                offsets.append(offset)
            self.biases.append(tuple(bias.detach().to(dtype) for bias in biases))
        self.layers = tuple(layers)
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
            stream.addmm_(self.activation(layer.up(part)), layer.down)
        return hidden

    # -- the same layers for training, where gradients flow and nothing is done in place -----------

    def project_qkv(self, rows: Tensor, index: int) -> Tensor:
        """Returns queries, keys and values (rows, 3 * width) of a layer, side by side."""
        if index not in self._qkv:
            layer = self.layers[index]
            parts = (layer.query, layer.key, layer.value)
            self._qkv[index] = Linear(
                torch.cat([part.weight for part in parts], dim=1),
                torch.cat([part.bias for part in parts]),
            )
        return self._qkv[index](layer_norm(rows, rows.shape[-1:], eps=self.eps))

    def finish_layer(self, rows: Tensor, mixed: Tensor, index: int) -> Tensor:
        """Returns the stream (rows, width) after a layer whose attention returned `mixed`."""
        layer, (out_bias, down_bias) = self.layers[index], self.biases[index]
        rows = rows + Linear(layer.out, out_bias)(mixed)
        up = layer.up(layer_norm(rows, rows.shape[-1:], eps=self.eps))
        active = silu(up) if self.activation is _silu_in_place else self.activation(up)
        return rows + Linear(layer.down, down_bias)(active)

    def _heads(self, rows: Tensor) -> Tensor:
        """Returns (prompts, rows, width) as (prompts, heads, rows, head width)."""
        split: Tensor = rows.unflatten(-1, (self.heads, -1))
        return split.transpose(1, 2)


def _silu_in_place(rows: Tensor) -> Tensor:
    return silu(rows, inplace=True)


def _fold(
    linear: Any, norm: Any, factor: float = 1.0, dtype: torch.dtype = torch.float32
) -> Linear:
    """Returns factor * linear(norm(x)) as a Linear of x normalised without scale and shift."""
    weight = linear.weight.detach().float() * factor
    bias = weight @ norm.bias.detach().float()
    if linear.bias is not None:
        bias = bias + linear.bias.detach().float() * factor
    return Linear((weight * norm.weight.detach().float()).T.to(dtype), bias.to(dtype))
