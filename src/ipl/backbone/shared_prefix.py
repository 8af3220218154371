"""Text features of prompts with the same beginning, which is run once.

Prompts of one task differ only from the class name on. In a causal tower the rows before it depend
on themselves alone, so one copy serves all classes; each class adds its own few rows, which attend
to the shared keys and to their own. The result is that of running every prompt in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from ipl.backbone.replaced_rows import Enter
from ipl.backbone.text_tower import TextTower


class SharedShape(NamedTuple):
    """The order of rows in one matrix: the shared ones of every group, then each prompt's own."""

    groups: int
    shared: int
    each: int  # prompts in a group
    own: int
    heads: int


def tile_rows(dtype: torch.dtype) -> int:
    """Returns how many rows a kernel takes together.

    In fp32 there are no matrix units: a kernel of 64 rows takes 20 s to compile.
    """
    return 16 if dtype == torch.float32 else 64


class OwnRows(NamedTuple):
    """Where the prompts' own rows stand if the padding after each EOS is left out.

    A kernel takes the rows of a tile together: whole prompts, or a single one with more rows.
    """

    place: Tensor  # (rows,): that of each among the (prompts * own) rows with padding
    starts: Tensor  # (prompts + 1,): where each prompt's rows begin, and where the last end
    firsts: Tensor  # (rows,): where the prompt of each row begins; int32
    tiles: Tensor  # (tiles + 1,): where the rows of each tile begin, and where the last end; int32
    most: int  # rows in a tile

    @classmethod
    def of(cls, counts: Sequence[int], device: torch.device, dtype: torch.dtype) -> OwnRows:
        """Returns the rows of prompts with these numbers of own rows, in a tower's precision."""
        own = max(counts)
        places = [prompt * own + row for prompt, count in enumerate(counts) for row in range(count)]
        starts = list(accumulate(counts, initial=0))
        firsts = [first for first, count in zip(starts, counts, strict=False) for _ in range(count)]
        tiles = [0]
        for begin, end in pairwise(starts):
            if end - tiles[-1] > tile_rows(dtype) and begin > tiles[-1]:
                tiles.append(begin)
        tiles.append(starts[-1])
        return cls(
            torch.tensor(places, device=device),
            torch.tensor(starts, device=device),
            torch.tensor(firsts, dtype=torch.int32, device=device),
            torch.tensor(tiles, dtype=torch.int32, device=device),
            max(end - begin for begin, end in pairwise(tiles)),
        )

    @classmethod
    def equal(cls, prompts: int, own: int, device: torch.device, dtype: torch.dtype) -> OwnRows:
        """Returns the rows of prompts of the same length, without waiting for the device."""
        rows, each = prompts * own, max(1, tile_rows(dtype) // own) * own
        places = torch.arange(rows, device=device)
        ends = torch.arange(0, rows + each, each, device=device).clamp(max=rows)
        starts = torch.arange(0, rows + 1, own, device=device)
        return cls(places, starts, (places // own * own).int(), ends.int(), min(each, rows))

    def for_groups(self, groups: int, own: int) -> OwnRows:
        """Returns the rows of several groups of these prompts; with padding, each has `own`."""
        if groups == 1:
            return self
        group = torch.arange(groups, device=self.place.device)[:, None]
        rows, padded = len(self.place), (len(self.starts) - 1) * own

        def bounds(values: Tensor) -> Tensor:
            ends = (values[1:] + group.to(values.dtype) * rows).flatten()
            return torch.cat([values[:1], ends])

        return OwnRows(
            (self.place + group * padded).flatten(),
            bounds(self.starts),
            (self.firsts + group.int() * rows).flatten(),
            bounds(self.tiles),
            self.most,
        )


class SharedPrompts(NamedTuple):
    """Prompts as embeddings whose first rows are the same in all, or in all of each group."""

    beginnings: Tensor  # (groups, shared, width)
    endings: Tensor  # (prompts, own, width), one group after the other; padding after EOS
    eos: Tensor  # (prompts,): the row of EOS, counted from the first row of the prompt
    own_rows: OwnRows | None = None  # of one group; without them padding is computed as well

    def whole(self) -> Tensor:
        """Returns the prompts from their first row on (prompts, tokens, width)."""
        each = len(self.endings) // len(self.beginnings)
        return torch.cat([self.beginnings.repeat_interleave(each, 0), self.endings], dim=1)

    def parts(self, most: int) -> Iterator[SharedPrompts]:
        """Yields parts of at most `most` prompts: whole groups, or if none fits, parts of one."""
        groups, prompts = len(self.beginnings), len(self.endings)
        each = prompts // groups
        whole = most // each  # groups that fit
        for group in range(0, groups, whole or 1):
            last = min(group + (whole or 1), groups)
            for first in range(group * each, last * each, most if not whole else prompts):
                part = slice(first, min(first + most, last * each))
                yield SharedPrompts(
                    self.beginnings[group:last],
                    self.endings[part],
                    self.eos[part],
                    self.own_rows if whole else None,
                )


# Queries, keys and values (rows, 3 * width), their order, and where they are without padding.
Attention = Callable[[Tensor, SharedShape, OwnRows | None], Tensor]
MOST_PADDING = 0.25  # of all own rows, that torch's attention computes rather than leaves out


def run_shared(tower: TextTower, prompts: SharedPrompts, enter: Enter | None = None) -> Tensor:
    """Returns the row of each prompt's EOS (prompts, width) after all layers.

    The prompts are in the tower's precision, positions added. `enter` may rewrite the beginnings
    (groups, shared, width), and no other rows, before each layer.
    """
    groups, shared, width = prompts.beginnings.shape
    count, tokens = prompts.endings.shape[:2]
    shape = SharedShape(groups, shared, count // groups, tokens, tower.heads)
    device, own_rows = prompts.endings.device, prompts.own_rows
    attend = _attention(device, width // tower.heads)
    common, own = prompts.beginnings.flatten(0, 1), prompts.endings.flatten(0, 1)
    last = torch.arange(count, device=device) * shape.own + prompts.eos - shared
    if own_rows is not None and attend is attend_with_torch:
        padding = 1 - len(own_rows.place) / (shape.each * shape.own)
        own_rows = own_rows if padding > MOST_PADDING else None
    if own_rows is not None:
        own_rows = own_rows.for_groups(groups, shape.own)
        own, last = own.index_select(0, own_rows.place), own_rows.starts[1:] - 1
    rows, sizes = torch.cat([common, own]), [len(common), len(own)]
    for number in range(len(tower.layers)):
        if enter is not None:
            before, rest = rows.split(sizes)
            before = before.view(groups, shared, width)
            after = enter(number, before)
            if after is not before:
                rows = torch.cat([after.reshape(-1, width), rest])
        mixed = attend(tower.project_qkv(rows, number), shape, own_rows)
        if own_rows is not None and number + 1 == len(tower.layers):  # nobody reads the other rows
            rows, mixed = (part.index_select(0, sizes[0] + last) for part in (rows, mixed))
        rows = tower.finish_layer(rows, mixed, number)
    return rows if own_rows is not None else rows.index_select(0, sizes[0] + last)


def attend_with_torch(qkv: Tensor, shape: SharedShape, own_rows: OwnRows | None = None) -> Tensor:
    """Returns the attention (rows, width) of queries, keys and values (rows, 3 * width).

    A shared row attends to the shared rows up to itself; a prompt's own row to all of these, and
    to its own up to itself.
    """
    groups, shared, each, own, heads = shape
    if own_rows is not None:  # the products before and after this are done without padding
        first = groups * shared
        before = torch.arange(first, device=qkv.device)
        kept = torch.cat([before, first + own_rows.place])
        padded = qkv.new_zeros(first + groups * each * own, qkv.shape[1]).index_copy(0, kept, qkv)
        return attend_with_torch(padded, shape).index_select(0, kept)
    # Split instead of indexed: the gradients are then joined in one pass instead of added up.
    common, rest = qkv.unflatten(-1, (3, heads, -1)).split([groups * shared, groups * each * own])
    common_query, common_kv = common.unflatten(0, (groups, 1, shared)).split([1, 2], dim=3)
    own_query, own_kv = rest.unflatten(0, (groups, each, own)).split([1, 2], dim=3)
    kv = torch.cat([common_kv.expand(-1, each, -1, -1, -1, -1), own_kv], dim=2)
    mask = torch.full((own, shared + own), -torch.inf, dtype=qkv.dtype, device=qkv.device)
    common_mixed = _attend(common_query, common_kv, None)
    return torch.cat([common_mixed, _attend(own_query, kv, mask.triu(shared + 1))])


def _attend(query: Tensor, kv: Tensor, mask: Tensor | None) -> Tensor:
    """Returns rows (rows, width); queries, and keys and values, are (groups, prompts, rows, ...).

    Without a mask, attention is causal.
    """
    key, value = (part.flatten(0, 1).transpose(1, 2) for part in kv.unbind(3))
    query = query.squeeze(3).flatten(0, 1).transpose(1, 2)  # (prompts, heads, rows, head width)
    mixed = scaled_dot_product_attention(query, key, value, mask, is_causal=mask is None, scale=1.0)
    return mixed.transpose(1, 2).flatten(2).flatten(0, 1)


def _attention(device: torch.device, head_width: int) -> Attention:
    """Returns the Triton kernels if they can run, otherwise torch's attention."""
    if device.type == "cuda":
        try:
            from ipl.backbone import search_kernels, training_kernels
        except ImportError:  # not every build of torch has Triton
            return attend_with_torch
        if search_kernels.fits(head_width):
            return training_kernels.attend
    return attend_with_torch
