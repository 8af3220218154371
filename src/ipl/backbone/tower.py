"""A transformer tower, run by the one loop over layers that the package has.

Prompts of one task differ only in their endings. In a causal tower the rows before an ending depend
on themselves alone, so they are run once for all: in training the rows from SOS to the class name
begin a group, and each class adds an ending; in the word search the beginning of a class is kept as
keys and values, and each word adds an ending of its own and EOS. An image tower, and a text tower
that is not causal, have rows without endings.

Two rewritings save passes over memory and change nothing but rounding. The scale and shift of a
layer norm are folded into the matrix after it. QuickGELU, x * sigmoid(1.702 x), is
silu(1.702 x) / 1.702, and both factors are folded into the matrices around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, linear, silu

from ipl.backbone.ops import Endings, Prefix, attend

QUICK = 1.702  # QuickGELU's factor

# Called before each layer with its index and the rows (groups, rows, width); returns the rows to
# continue with. This is where deep prompts enter; the vectors of the first layer are in the rows
# already (`BoundPrompts.with_soft_vectors`).
LayerHook = Callable[[int, Tensor], Tensor]


class Linear(NamedTuple):
    """A matrix (out, in) and its bias (out,)."""

    weight: Tensor
    bias: Tensor | None

    def __call__(self, rows: Tensor) -> Tensor:
        return linear(rows, self.weight, self.bias)

    def scaled(self, factor: float | Tensor) -> Linear:
        """The matrix and bias times a number, or times one number for each output."""
        by_output = factor[:, None] if isinstance(factor, Tensor) else factor
        weight = self.weight.detach().float() * by_output
        bias = None if self.bias is None else self.bias.detach().float() * factor
        return Linear(weight, bias)

    def fold_norm(self, norm: Any) -> Linear:
        """This matrix for rows that are normalised without the norm's scale and shift."""
        weight = self.weight.detach().float()
        bias = weight @ norm.bias.detach().float()
        if self.bias is not None:
            bias = bias + self.bias.detach().float()
        return Linear(weight * norm.weight.detach().float(), bias)

    def to(self, dtype: torch.dtype) -> Linear:
        bias = None if self.bias is None else self.bias.detach().to(dtype)
        return Linear(self.weight.detach().to(dtype), bias)


@dataclass(frozen=True)
class LayerParts:
    """One layer as a library has it: each part has `weight` and `bias`."""

    norm1: Any
    query: Any
    key: Any
    value: Any
    out: Any
    norm2: Any
    up: Any
    down: Any


@dataclass(frozen=True)
class Layer:
    """One layer as four matrices; the queries carry the attention's scale."""

    qkv: Linear  # (3 * width, width)
    out: Linear
    up: Linear
    down: Linear


@dataclass(frozen=True)
class Tower:
    """The layers of a transformer whose norms stand before attention and MLP."""

    layers: tuple[Layer, ...]
    width: int
    heads: int
    eps: float
    activation: Callable[[Tensor], Tensor] | None  # None: QuickGELU, folded into the layers
    causal: bool

    @classmethod
    def build(
        cls,
        layers: Sequence[LayerParts],
        heads: int,
        activation: Callable[[Tensor], Tensor] | None,
        causal: bool,
        dtype: torch.dtype,
    ) -> Tower:
        """The tower of a library's layers in a precision."""
        width = len(layers[0].norm1.weight)
        scale = (width // heads) ** -0.5
        quick = QUICK if activation is None else 1.0
        return cls(
            tuple(_fold(layer, scale, quick, dtype) for layer in layers),
            width,
            heads,
            float(layers[0].norm1.eps),
            activation,
            causal,
        )

    def norm(self, rows: Tensor) -> Tensor:
        """The layer norm of rows (..., width), without scale and shift."""
        return layer_norm(rows, (self.width,), eps=self.eps)

    def activate(self, rows: Tensor) -> Tensor:
        """The activation of the MLP's rows, in their memory if no gradient needs them."""
        if self.activation is None:
            return silu(rows, inplace=not torch.is_grad_enabled())
        return self.activation(rows)


@dataclass(frozen=True)
class TextTower:
    """A text tower in one precision, from embeddings with positions to features."""

    tower: Tower
    positions: Tensor  # (positions, width)
    projection: Linear  # the last norm is folded into it

    def project(self, rows: Tensor) -> Tensor:
        """The features (..., dim) of last rows (..., width)."""
        return self.projection(self.tower.norm(rows))


def run(
    tower: Tower,
    rows: Tensor,
    endings: Endings | None = None,
    prefix: Sequence[Prefix] | None = None,
    hook: LayerHook | None = None,
    last: Tensor | None = None,
    keys_values: list[tuple[Tensor, Tensor]] | None = None,
) -> Tensor:
    """Rows (groups, rows, width) after all layers.

    `endings` says how the rows of a group divide; without it, they are one text or image. `prefix`
    has each layer's keys and values of what stands before them. Of the last layer only the rows
    `last` of each group are computed. `keys_values` collects those of each layer, each
    (groups, rows, width).
    """
    for index, layer in enumerate(tower.layers):
        if hook is not None:
            rows = hook(index, rows)
        qkv = layer.qkv(tower.norm(rows))
        if keys_values is not None:
            _, keys, values = qkv.chunk(3, dim=-1)
            keys_values.append((keys, values))
        before = None if prefix is None else prefix[index]
        mixed = attend(qkv, tower.heads, tower.causal, endings, before)
        if last is not None and index + 1 == len(tower.layers):
            rows, mixed = rows.index_select(1, last), mixed.index_select(1, last)
        rows = rows + layer.out(mixed)
        rows = rows + layer.down(tower.activate(layer.up(tower.norm(rows))))
    return rows


def _fold(layer: LayerParts, scale: float, quick: float, dtype: torch.dtype) -> Layer:
    """A layer as matrices, with its norms and factors in them."""
    query, key, value, out, up, down = (
        Linear(part.weight, part.bias)
        for part in (layer.query, layer.key, layer.value, layer.out, layer.up, layer.down)
    )
    parts = [part.fold_norm(layer.norm1) for part in (query.scaled(scale), key, value)]
    weights, biases = zip(*parts, strict=True)
    qkv = Linear(torch.cat(weights), torch.cat(biases))
    up = up.scaled(quick).fold_norm(layer.norm2)
    down = Linear(down.weight.detach().float() / quick, down.bias)
    return Layer(*(part.to(dtype) for part in (qkv, out, up, down)))


@dataclass(frozen=True)
class DeepPrompts:
    """Puts new prompts in the place of the old ones before the deeper layers of a tower.

    `deep[i]` (rows, width) enters before layer i + 1. Other rows and layers stay as they are.
    """

    start: int  # the first row to replace; a negative number counts from the end
    deep: Sequence[Tensor]

    def __call__(self, index: int, rows: Tensor) -> Tensor:
        """The input (groups, rows, width) of a layer with its new prompts."""
        if not 1 <= index <= len(self.deep):
            return rows
        new, length = self.deep[index - 1].to(rows.dtype), rows.shape[1]
        first = range(length)[self.start]
        # Split instead of indexed: the gradients are then joined in one pass instead of added up.
        before, _, after = rows.split([first, len(new), length - first - len(new)], dim=1)
        # len(rows) would be a constant in a traced graph, as ONNX has it.
        return torch.cat([before, new.expand(rows.shape[0], -1, -1), after], dim=1)
