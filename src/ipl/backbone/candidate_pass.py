"""Runs candidate words, and what stands after them, behind prefixes whose keys are known."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.prefix_attention import Prefix, attend_to_prefix, find_kernels


class CandidatePass:
    """Runs candidates after prefixes in one precision.

    Parameters
    ----------
    backbone : Backbone
        A backbone with a causal text tower.
    prefixes : sequence of Prefix
        Each layer's keys and values of what stands before the candidate, in fp32.
    tail : sequence of int
        Token ids after the candidate; EOS is the last.
    dtype : torch.dtype
        The precision.
    """

    def __init__(
        self,
        backbone: Backbone,
        prefixes: Sequence[Prefix],
        tail: Sequence[int],
        dtype: torch.dtype,
    ) -> None:
        self.embed, self.lengths = backbone.embed, prefixes[0].lengths
        self.tail = torch.tensor(tail, device=backbone.device)
        self.tower = backbone.text_tower(dtype)
        head_width = backbone.text_width // self.tower.heads
        self.kernels = find_kernels(backbone.device, dtype, head_width)
        self.prefixes = list(prefixes)
        if self.kernels is None:  # they read the prefixes as they are
            self.prefixes = [Prefix(k.to(dtype), v.to(dtype), each) for k, v, each in prefixes]

    @torch.no_grad()
    def features(self, candidates: Tensor) -> Tensor:
        """Returns features (candidates, prompts, dim) of token ids (candidates,)."""
        hidden = self._first_rows(candidates)
        last = len(self.tower.layers) - 1
        for index in range(last):
            hidden = self._layer(hidden, index, hidden.shape[1])
        hidden = self._layer(hidden, last, 1)  # only EOS has to leave the last layer
        return self.tower.project(self._norm(hidden, 2 * last + 2)[:, 0])

    def _first_rows(self, candidates: Tensor) -> Tensor:
        """Returns what enters the first layer (candidates, rows, prompts, width)."""
        ids = torch.cat([candidates[:, None], self.tail.expand(len(candidates), -1)], dim=1)
        rows = self.embed(ids).to(self.tower.dtype)
        return rows[:, :, None] + self._positions(rows.shape[1])

    def keys_and_values(self, rows: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Returns each layer's keys and values of token embeddings (1, rows, prompts, width)."""
        hidden = rows.to(self.tower.dtype) + self._positions(rows.shape[1])
        keys, values = [], []
        for index, layer in enumerate(self.tower.layers):
            normed = self._norm(hidden, 2 * index)
            keys.append(layer.key(normed))
            values.append(layer.value(normed))
            if index + 1 < len(self.tower.layers):
                hidden = self._layer(hidden, index, hidden.shape[1])
        return keys, values

    def _positions(self, rows: int) -> Tensor:
        """Returns the position embeddings (rows, prompts, width) after each prefix."""
        after = self.lengths + torch.arange(rows, device=self.lengths.device)[:, None]
        return self.tower.positions[after]

    def _layer(self, hidden: Tensor, index: int, queries: int) -> Tensor:
        """Returns the last `queries` rows of (candidates, rows, prompts, width) after a layer."""
        mixed = self._attend(self._norm(hidden, 2 * index), index, queries)
        hidden = self.tower.add(_last_rows(hidden, queries), mixed, self.tower.layers[index].out)
        return self.tower.mlp(hidden, self._norm(hidden, 2 * index + 1), index)

    def _attend(self, normed: Tensor, index: int, queries: int) -> Tensor:
        """Returns the attention of the last `queries` rows to all before them."""
        layer, prefix = self.tower.layers[index], self.prefixes[index]
        if self.kernels is not None and queries == normed.shape[1]:  # they read parts of rows
            query, key, value = layer.qkv(normed).chunk(3, dim=-1)
        else:
            key, value = layer.key(normed), layer.value(normed)
            query = layer.query(_last_rows(normed, queries))
        return attend_to_prefix(query, key, value, prefix, self.tower.heads, self.kernels)

    def _norm(self, hidden: Tensor, index: int) -> Tensor:
        """Returns the rows after the norm of this index in the tower."""
        if self.kernels is None:
            return self.tower.norm(hidden, index)
        out: Tensor = self.kernels.norm(hidden, self.tower.offsets[index], self.tower.eps)
        return out


def _last_rows(rows: Tensor, count: int) -> Tensor:
    """Returns the last rows of (candidates, rows, prompts, width), all of them as they are."""
    return rows if count == rows.shape[1] else rows[:, -count:].contiguous()
