"""Attention, in plain torch and, on a GPU that can, by a kernel of `ipl.kernels`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from itertools import accumulate, pairwise
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


class Prefix(NamedTuple):
    """One layer's keys and values of the rows before those that are run."""

    keys: Tensor  # (groups, rows, width)
    values: Tensor
    lengths: Tensor  # (groups,): the rows after it are padding


class Endings:
    """How the rows of a group divide: a beginning, then endings that all follow it.

    Rows of an ending see the beginning, and the prefix if there is one, and their own ending up to
    themselves. Endings stand one after the other, without padding.
    """

    def __init__(
        self,
        shared: int,  # the rows of the beginning
        lengths: Sequence[int],  # the rows of each ending
        device: torch.device,
    ) -> None:
        self.shared, self.lengths, self.device = shared, tuple(lengths), device
        self.longest = max(self.lengths)
        self.starts = [*accumulate(self.lengths, initial=shared)]  # of each ending, and the end

    @property
    def rows(self) -> int:
        """The number of rows of a group."""
        return self.starts[-1]

    @cached_property
    def last(self) -> Tensor:
        """The last row (endings,) of each ending."""
        return self._tensor([end - 1 for end in self.starts[1:]])

    @cached_property
    def positions(self) -> Tensor:
        """The position (rows,) of each row in its prompt."""
        own = [self.shared + row for length in self.lengths for row in range(length)]
        return self._tensor([*range(self.shared), *own])

    @property
    def equal(self) -> bool:
        """Whether all endings have the same length."""
        return len(self.lengths) * self.longest == self.rows - self.shared

    @cached_property
    def padded(self) -> Tensor:
        """Rows (endings * longest,) of endings of one length: the last one is repeated."""
        rows = [
            min(first + row, end - 1)
            for first, end in pairwise(self.starts)
            for row in range(self.longest)
        ]
        return self._tensor(rows)

    @cached_property
    def unpadded(self) -> Tensor:
        """Where each row of the endings is among the padded ones."""
        rows = [
            index * self.longest + row
            for index, length in enumerate(self.lengths)
            for row in range(length)
        ]
        return self._tensor(rows)

    @cached_property
    def firsts(self) -> Tensor:
        """The first row (rows,) of the ending, or beginning, that each row is in."""
        own = [first for first, end in pairwise(self.starts) for _ in range(first, end)]
        return self._tensor([0] * self.shared + own).int()

    def tiles(self, most: int) -> tuple[Tensor, int]:
        """The bounds of tiles, and the rows of the largest.

        A tile is the beginning, or whole endings of at most so many rows, or one longer ending.
        """
        if most not in self._tiles:
            bounds = [0, self.shared] if self.shared else [0]
            for first, end in pairwise(self.starts):
                if end - bounds[-1] > most and first > bounds[-1]:
                    bounds.append(first)
            bounds.append(self.rows)
            largest = max(end - first for first, end in pairwise(bounds))
            self._tiles[most] = self._tensor(bounds).int(), largest
        return self._tiles[most]

    @cached_property
    def _tiles(self) -> dict[int, tuple[Tensor, int]]:
        return {}

    def _tensor(self, values: list[int]) -> Tensor:
        return torch.tensor(values, device=self.device)


def attend(
    qkv: Tensor,
    heads: int,
    causal: bool,
    endings: Endings | None = None,
    prefix: Prefix | None = None,
) -> Tensor:
    """The attention (groups, rows, width) of queries, keys and values side by side.

    Without endings the rows of a group (groups, rows, 3 * width) see each other, or, if causal, a
    row itself and those before it. With endings, attention is causal.
    """
    if endings is None:
        query, key, value = _heads(qkv, heads)
        mixed = scaled_dot_product_attention(query, key, value, is_causal=causal, scale=1.0)
        return mixed.transpose(1, 2).flatten(2)
    kernels = find_kernels(qkv, heads, endings)
    if kernels is not None:
        out: Tensor = kernels.attend(qkv, heads, endings, prefix)
        return out
    return _attend(qkv, heads, endings, prefix)


def find_kernels(qkv: Tensor, heads: int, endings: Endings) -> ModuleType | None:
    """The kernels for these rows, or None where plain torch has to do."""
    kernels = _kernels() if qkv.is_cuda else None
    if kernels is None or not kernels.fits(qkv, heads, endings):
        return None
    return kernels


@cache
def _kernels() -> ModuleType | None:
    try:
        from ipl.kernels import attention
    except ImportError:  # not every build of torch has Triton
        return None
    return attention


def _attend(qkv: Tensor, heads: int, endings: Endings, prefix: Prefix | None) -> Tensor:
    """The same attention in plain torch."""
    beginning, own = qkv.split([endings.shared, endings.rows - endings.shared], dim=1)
    if prefix is None:
        _, shared_keys, shared_values = _heads(beginning, heads)
    else:
        shared_keys, shared_values = (
            rows.unflatten(-1, (heads, -1)).transpose(1, 2) for rows in prefix[:2]
        )
    if not endings.equal:
        own = qkv.index_select(1, endings.padded)
    queries, keys, values = _heads(own, heads)  # (groups, heads, endings * length, head width)
    # Scores are (groups, heads, keys, rows): a softmax over few keys is fastest with the rows last.
    far = shared_keys @ queries.mT
    if prefix is not None:
        place = torch.arange(far.shape[2], device=far.device)
        padding = place >= prefix.lengths[:, None]
        far = far.masked_fill(padding[:, None, :, None], -torch.inf)
    length = endings.longest
    by_ending = (len(endings.lengths), length)
    queries, keys, values = (rows.unflatten(2, by_ending) for rows in (queries, keys, values))
    later = torch.ones(length, length, dtype=torch.bool, device=far.device).tril(-1)  # key, query
    near = (keys @ queries.mT).masked_fill(later, -torch.inf).transpose(2, 3).flatten(3)
    weights = torch.cat([far, near], dim=2).softmax(2)
    far, near = weights.split([far.shape[2], length], dim=2)
    mixed: Tensor = far.mT @ shared_values
    mixed = mixed + (near.unflatten(3, by_ending).permute(0, 1, 3, 4, 2) @ values).flatten(2, 3)
    mixed = mixed.transpose(1, 2).flatten(2)
    if not endings.equal:
        mixed = mixed.index_select(1, endings.unpadded)
    if not endings.shared:
        return mixed
    return torch.cat([attend(beginning, heads, causal=True), mixed], dim=1)


def _heads(qkv: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values (groups, heads, rows, head width) of rows side by side."""
    query, key, value = qkv.unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4).unbind()
    return query, key, value
