"""Features of many endings of the same prompts, at the cost of the endings alone.

A causal tower computes a row from the rows before it. What stands before a candidate word is the
same for every candidate, so its keys and values are kept once per prompt and layer; for each
(candidate, prompt) only the candidate, the tail and EOS are run. All candidates of a prompt meet
the same prefix keys in one product; nothing is copied per candidate. When a candidate has been
chosen, the cache grows by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from types import ModuleType

import torch
from torch import Tensor
from torch.nn.functional import pad

from ipl.backbone.clip import Backbone
from ipl.backbone.text_tower import TextTower
from ipl.support.errors import BackboneError, ConfigError

# Rows run at once: enough to keep matrix products busy, few enough to stay in a CPU's cache.
ROWS_AT_ONCE = {"cpu": 4096, "cuda": 65536}
BLOCK = 64  # candidates that one program on a GPU takes; a few more would cost as much as another
GIB = 1 << 30
MEMORY = 2.0  # GiB of working memory for a search, unless told otherwise


class PrefixCache:
    """Keys and values of prompts up to, and not with, the candidate word."""

    def __init__(
        self,
        backbone: Backbone,
        prefixes: Sequence[Sequence[int]],
        tail: Sequence[int] = (),
        memory: float = MEMORY,
    ) -> None:
        """Takes each prompt's token ids from SOS on, and the ids between candidate and EOS.

        `memory` is how many GiB a search may take; half of them are for the rows that are run.
        """
        self.backbone = backbone
        self.tail = [*tail, backbone.eos]
        self.memory = memory
        lengths = [len(prefix) for prefix in prefixes]
        self._check_room(max(lengths))
        padded = [[*p, *[backbone.eos] * (max(lengths) - len(p))] for p in prefixes]
        self.lengths = torch.tensor(lengths, device=backbone.device)
        tower = backbone.text_tower(torch.float32)
        self._keys, self._values = tower.keys_and_values(backbone.embed(torch.tensor(padded)))

    def _check_room(self, longest: int) -> None:
        need = longest + 1 + len(self.tail)
        if need > self.backbone.positions:
            raise BackboneError(
                f"A prompt of {need} tokens does not fit the {self.backbone.positions} positions "
                f"of {self.backbone.name}."
            )

    def candidates_at_once(self, dtype: torch.dtype = torch.float32) -> int:
        """Returns how many candidates are run together within the memory given."""
        rows = len(self.lengths) * (1 + len(self.tail))  # of one candidate
        # The stream, its norm, the MLP's four widths, and what attention and products need.
        row_bytes = 14 * self.backbone.text_width * dtype.itemsize
        most = ROWS_AT_ONCE.get(self.backbone.device.type, ROWS_AT_ONCE["cpu"])
        fit = int(self.memory / 2 * GIB // row_bytes)
        if fit < rows:
            raise ConfigError(
                f"memory is {self.memory:g} GiB; {len(self.lengths)} prompts need at least "
                f"{2.02 * rows * row_bytes / GIB:.3g}."
            )
        count = max(1, min(most, fit) // rows)
        return count - count % BLOCK if count > BLOCK else count

    @torch.no_grad()
    def features(
        self, candidates: Sequence[int], dtype: torch.dtype = torch.float32
    ) -> Iterator[Tensor]:
        """Yields features (chunk, prompts, dim) of one chunk of candidate token ids at a time."""
        run = _Run(self, dtype)
        ids = torch.as_tensor(candidates, dtype=torch.long, device=self.backbone.device)
        for chunk in ids.split(self.candidates_at_once(dtype)):
            yield run.features(chunk)

    @torch.no_grad()
    def extend(self, tokens: Sequence[int]) -> None:
        """Appends the same tokens to every prefix, at the cost of these tokens alone."""
        self._check_room(int(self.lengths.max()) + len(tokens))
        prompts, own = len(self.lengths), len(tokens)
        run = _Run(self, torch.float32)
        rows = self.backbone.embed(tokens)[None, :, None].expand(1, own, prompts, -1)
        new_keys, new_values = run.keys_and_values(rows)
        places = self.lengths[:, None] + torch.arange(own, device=self.lengths.device)
        which = torch.arange(prompts, device=self.lengths.device)[:, None]
        for kept, new in ((self._keys, new_keys), (self._values, new_values)):
            for number, rows in enumerate(new):
                kept[number] = pad(kept[number], (0, 0, 0, own))
                kept[number][which, places] = rows[0].transpose(0, 1)
        self.lengths = self.lengths + own

    def keys_and_values(self, number: int) -> tuple[Tensor, Tensor]:
        """Returns a layer's keys and values (prompts, prefix, width) in fp32."""
        return self._keys[number], self._values[number]


class _Run:
    """One pass over candidates, all in one precision."""

    def __init__(self, prefix: PrefixCache, dtype: torch.dtype) -> None:
        backbone = prefix.backbone
        self.embed, self.tail, self.lengths = backbone.embed, prefix.tail, prefix.lengths
        self.tower: TextTower = backbone.text_tower(dtype)
        layers = range(len(self.tower.layers))
        pairs = [prefix.keys_and_values(number) for number in layers]
        self.keys = [key.to(dtype) for key, _ in pairs]
        self.values = [value.to(dtype) for _, value in pairs]
        longest = self.keys[0].shape[1]
        ahead = torch.arange(longest, device=self.lengths.device) >= self.lengths[:, None]
        self.padding = ahead[:, None, None, :]  # (prompts, 1, 1, prefix)
        # Triton multiplies fp32 in reduced precision, and fp32 has to be exact here.
        fast = backbone.device.type == "cuda" and dtype.itemsize == 2
        self.kernels = _kernels(backbone.text_width // self.tower.heads) if fast else None

    def features(self, candidates: Tensor) -> Tensor:
        """Returns features (candidates, prompts, dim) of token ids (candidates,)."""
        tail = torch.tensor(self.tail, device=candidates.device)
        ids = torch.cat([candidates[:, None], tail.expand(len(candidates), -1)], dim=1)
        hidden = self._enter(self.embed(ids)[:, :, None])
        last = len(self.tower.layers) - 1
        for number in range(last):
            hidden = self._layer(hidden, number, hidden.shape[1])
        hidden = self._layer(hidden, last, 1)  # only EOS has to leave the last layer
        return self.tower.project(self._norm(hidden, 2 * last + 2)[:, 0])

    def keys_and_values(self, rows: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Returns each layer's keys and values of token embeddings (1, rows, prompts, width)."""
        hidden = self._enter(rows)
        keys, values = [], []
        for number, layer in enumerate(self.tower.layers):
            seen = self._norm(hidden, 2 * number)
            keys.append(layer.key(seen))
            values.append(layer.value(seen))
            if number + 1 < len(self.tower.layers):
                hidden = self._layer(hidden, number, hidden.shape[1])
        return keys, values

    def _enter(self, rows: Tensor) -> Tensor:
        """Returns embeddings (candidates, rows, 1 or prompts, width) at each prompt's positions."""
        places = self.lengths + torch.arange(rows.shape[1], device=self.lengths.device)[:, None]
        return rows.to(self.tower.dtype) + self.tower.positions[places]

    def _layer(self, hidden: Tensor, number: int, asking: int) -> Tensor:
        """Returns the last `asking` rows of the stream (candidates, rows, prompts, width)."""
        layer = self.tower.layers[number]
        seen = self._norm(hidden, 2 * number)
        key, value = layer.key(seen), layer.value(seen)
        if asking < hidden.shape[1]:
            hidden, seen = (rows[:, -asking:].contiguous() for rows in (hidden, seen))
        mixed = self._attend(layer.query(seen), key, value, number)
        hidden = self.tower.add(hidden, mixed, layer.out)
        return self.tower.mlp(hidden, self._norm(hidden, 2 * number + 1), number)

    def _norm(self, hidden: Tensor, number: int) -> Tensor:
        if self.kernels is None:
            return self.tower.norm(hidden, number)
        out: Tensor = self.kernels.norm(hidden, self.tower.offsets[number], self.tower.eps)
        return out

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, number: int) -> Tensor:
        """Returns what the asking rows take from the shared prefix and from their own rows."""
        if self.kernels is not None:
            kept = (self.keys[number], self.values[number], self.lengths)
            out: Tensor = self.kernels.attend(query, key, value, *kept, self.tower.heads)
            return out
        count, asking = query.shape[:2]
        own = key.shape[1]
        query, key, value = (self._split(rows) for rows in (query, key, value))
        prefix_key, prefix_value = (
            rows[number].unflatten(-1, (self.tower.heads, -1)).transpose(1, 2)
            for rows in (self.keys, self.values)
        )
        shared = query.flatten(2, 3) @ prefix_key.transpose(-1, -2)
        shared = shared.masked_fill_(self.padding, -torch.inf)
        # Products of a handful of own rows: elementwise beats thousands of tiny matrix products.
        private = (query[..., :, None, :] * key[..., None, :, :]).sum(-1)
        future = torch.ones(asking, own, dtype=torch.bool, device=key.device).triu(1 + own - asking)
        private = private.masked_fill_(future, -torch.inf)
        weights = torch.cat([shared, private.flatten(2, 3)], dim=-1).softmax(dim=-1)
        from_prefix, from_own = weights.split([shared.shape[-1], own], dim=-1)
        mixed = (from_prefix @ prefix_value).unflatten(2, (count, asking))
        from_own = from_own.unflatten(2, (count, asking))
        for row in range(own):
            mixed = mixed.addcmul_(from_own[..., row, None], value[..., row, None, :])
        together: Tensor = mixed.permute(2, 3, 0, 1, 4).flatten(3)
        return together

    def _split(self, rows: Tensor) -> Tensor:
        """Returns (count, rows, prompts, width) as (prompts, heads, count, rows, head width)."""
        split: Tensor = rows.unflatten(-1, (self.tower.heads, -1))
        return split.permute(2, 3, 0, 1, 4)


@cache
def _kernels(head_width: int) -> ModuleType | None:
    try:
        from ipl.backbone import search_kernels as kernels
    except ImportError:  # no Triton here, as on Windows
        return None
    return kernels if kernels.fits(head_width) else None
