"""The layers of a frozen transformer as plain matrices, for both towers.

Two rewritings save passes over memory and change nothing but rounding. The scale and shift of a
layer norm are folded into the matrix after it. x * sigmoid(1.702 x) is silu(1.702 x) / 1.702, and
both factors are folded into the matrices around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, silu

QUICK = 1.702  # QuickGELU's factor


class WeightAndBias(NamedTuple):
    """A matrix (out, in) and its bias (out,), as `torch.nn.Linear` has them."""

    weight: Tensor
    bias: Tensor | None


@dataclass(frozen=True)
class TowerLayer:
    """The modules of one layer: each has `weight` and `bias`, a norm also `eps`."""

    norm1: Any
    query: Any
    key: Any
    value: Any
    out: Any
    norm2: Any
    up: Any
    down: Any


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

    qkv: Linear  # queries, keys and values side by side; the next three are parts of it
    query: Linear
    key: Linear
    value: Linear
    out: Tensor  # (width, width); its bias is in `FoldedLayers.biases`
    up: Linear
    down: Tensor


class FoldedLayers:
    """The layers of a tower in one precision.

    Parameters
    ----------
    layers : sequence of TowerLayer
        The modules of each layer.
    heads : int
        The heads of the attention.
    activation : callable
        The activation of the MLP.
    quick : bool
        Whether the activation is QuickGELU.
    dtype : torch.dtype
        The precision of the matrices.
    in_parts : bool, default=False
        Whether queries, keys and values are also computed one without the others.
    """

    def __init__(
        self,
        layers: Sequence[TowerLayer],
        heads: int,
        activation: Callable[[Tensor], Tensor],
        quick: bool,
        dtype: torch.dtype,
        in_parts: bool = False,
    ) -> None:
        self.heads, self.dtype = heads, dtype
        self.eps = float(layers[0].norm1.eps)
        self.activation = silu_in_place if quick else activation
        factor = QUICK if quick else 1.0
        scale = (len(layers[0].norm1.weight) // heads) ** -0.5
        self.layers = tuple(
            Layer(
                *_join(
                    fold(layer.query, layer.norm1, scale, dtype),
                    fold(layer.key, layer.norm1, dtype=dtype),
                    fold(layer.value, layer.norm1, dtype=dtype),
                    in_parts,
                ),
                layer.out.weight.detach().T.to(dtype),
                fold(layer.up, layer.norm2, factor, dtype),
                (layer.down.weight.detach().float().T / factor).to(dtype),
            )
            for layer in layers
        )
        self.biases = [
            tuple(bias.detach().to(dtype) for bias in (layer.out.bias, layer.down.bias))
            for layer in layers
        ]

    def project_qkv(self, rows: Tensor, index: int) -> Tensor:
        """Returns queries, keys and values (..., 3 * width), side by side, of a layer's input."""
        return self.layers[index].qkv(self._norm(rows))

    def finish_layer(self, rows: Tensor, mixed: Tensor, index: int) -> Tensor:
        """Returns the rows (..., width) after a layer.

        `rows` are those before it, and `mixed` what its attention returned.
        """
        layer, (out_bias, down_bias) = self.layers[index], self.biases[index]
        rows = rows + Linear(layer.out, out_bias)(mixed)
        up = layer.up(self._norm(rows))
        active = silu(up) if self.activation is silu_in_place else self.activation(up)
        return rows + Linear(layer.down, down_bias)(active)

    def _norm(self, rows: Tensor) -> Tensor:
        """Returns the layer norm without scale and shift."""
        return layer_norm(rows, rows.shape[-1:], eps=self.eps)


def _join(
    query: Linear, key: Linear, value: Linear, in_parts: bool
) -> tuple[Linear, Linear, Linear, Linear]:
    """Returns three matrices of the same size side by side, and each as a part of the whole."""
    weights, biases = zip(query, key, value, strict=True)
    whole = Linear(torch.cat(weights, dim=1), torch.cat(biases))
    if in_parts:  # of a transposed matrix, every part is as contiguous as the whole
        whole = Linear(whole.weight.T.contiguous().T, whole.bias)
    query, key, value = map(Linear, whole.weight.chunk(3, 1), whole.bias.chunk(3))
    return whole, query, key, value


def silu_in_place(rows: Tensor) -> Tensor:
    """Returns the activation that QuickGELU has become, in the memory of its argument."""
    return silu(rows, inplace=True)


def fold(linear: Any, norm: Any, factor: float = 1.0, dtype: torch.dtype = torch.float32) -> Linear:
    """Returns factor * linear(norm(x)) as a Linear of x normalised without scale and shift."""
    weight = linear.weight.detach().float() * factor
    bias = weight @ norm.bias.detach().float()
    if linear.bias is not None:
        bias = bias + linear.bias.detach().float() * factor
    return Linear((weight * norm.weight.detach().float()).T.to(dtype), bias.to(dtype))
