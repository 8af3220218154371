"""Features of prompts that differ in one candidate word, at the cost of their endings alone.

A causal tower computes a row from the rows before it. What stands before a candidate word is the
same for every candidate, so its keys and values are stored once per prompt and layer; for each
(candidate, prompt) only the candidate, the tail and EOS are run. All candidates of a prompt are
multiplied with the same prefix keys in one product; nothing is copied per candidate. When a
candidate has been chosen, the cache is extended by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from types import ModuleType

import torch
from torch import Tensor
from torch.nn.functional import pad

from ipl.backbone.backbone import Backbone
from ipl.backbone.text_tower import TextTower
from ipl.support.errors import BackboneError, ConfigError

# Rows run at once: enough to keep matrix products busy, few enough to stay in a CPU's cache.
ROWS_AT_ONCE = {"cpu": 4096, "cuda": 65536}
BLOCK = 64  # candidates per GPU program; chunks are multiples of it, so that no program is partial
GIB = 1 << 30
MEMORY = 2.0  # default of a search's working memory in GiB


class PrefixCache:
    """Keys and values of prompts up to the candidate word.

    Parameters
    ----------
    backbone : Backbone
        A backbone with a causal text tower.
    prefixes : sequence of sequence of int
        Each prompt's token ids from the opening token to the last one before the candidate.
    tail : sequence of int, default=()
        Token ids between the candidate and EOS, the same for every prompt.
    memory : float, default=2.0
        GiB that a search may take; half of it is for the rows that are run.

    Raises
    ------
    BackboneError
        If a prompt with a candidate is longer than the backbone's positions.
    """

    def __init__(
        self,
        backbone: Backbone,
        prefixes: Sequence[Sequence[int]],
        tail: Sequence[int] = (),
        memory: float = MEMORY,
    ) -> None:
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
        tokens = longest + 1 + len(self.tail)
        if tokens > self.backbone.positions:
            raise BackboneError(
                f"A prompt of {tokens} tokens does not fit the {self.backbone.positions} positions "
                f"of {self.backbone.name}."
            )

    def candidates_at_once(self, dtype: torch.dtype = torch.float32) -> int:
        """Returns the number of candidates that are run together within the memory limit."""
        rows = len(self.lengths) * (1 + len(self.tail))  # of one candidate
        # The stream, its norm, the MLP's four widths, and what attention and products need.
        row_bytes = 14 * self.backbone.text_width * dtype.itemsize
        most_rows = ROWS_AT_ONCE.get(self.backbone.device.type, ROWS_AT_ONCE["cpu"])
        capacity = int(self.memory / 2 * GIB // row_bytes)
        if capacity < rows:
            raise ConfigError(
                f"memory is {self.memory:g} GiB; {len(self.lengths)} prompts need at least "
                f"{2.02 * rows * row_bytes / GIB:.3g}."
            )
        count = max(1, min(most_rows, capacity) // rows)
        return count - count % BLOCK if count > BLOCK else count

    @torch.no_grad()
    def features(
        self, candidates: Sequence[int], dtype: torch.dtype = torch.float32
    ) -> Iterator[Tensor]:
        """Compute the features of every prompt with every candidate.

        Parameters
        ----------
        candidates : sequence of int
            Token ids of the candidate words.
        dtype : torch.dtype, default=torch.float32
            Precision of the computation.

        Yields
        ------
        Tensor of shape (chunk, prompts, feature_dim)
            Features of one chunk of candidates, in their order.
        """
        run = _CandidatePass(self, dtype)
        ids = torch.as_tensor(candidates, dtype=torch.long, device=self.backbone.device)
        for chunk in ids.split(self.candidates_at_once(dtype)):
            yield run.features(chunk)

    @torch.no_grad()
    def extend(self, tokens: Sequence[int]) -> None:
        """Appends the same tokens to every prefix, at the cost of these tokens alone."""
        self._check_room(int(self.lengths.max()) + len(tokens))
        prompts, count = len(self.lengths), len(tokens)
        run = _CandidatePass(self, torch.float32)
        rows = self.backbone.embed(tokens)[None, :, None].expand(1, count, prompts, -1)
        new_keys, new_values = run.keys_and_values(rows)
        positions = self.lengths[:, None] + torch.arange(count, device=self.lengths.device)
        prompt = torch.arange(prompts, device=self.lengths.device)[:, None]
        for stored, new in ((self._keys, new_keys), (self._values, new_values)):
            for layer, rows in enumerate(new):
                stored[layer] = pad(stored[layer], (0, 0, 0, count))
                stored[layer][prompt, positions] = rows[0].transpose(0, 1)
        self.lengths = self.lengths + count

    def keys_and_values(self, layer: int) -> tuple[Tensor, Tensor]:
        """Returns a layer's keys and values (prompts, prefix, width) in fp32."""
        return self._keys[layer], self._values[layer]


class _CandidatePass:
    """One pass over candidates in one precision, which later extensions do not change."""

    def __init__(self, prefix: PrefixCache, dtype: torch.dtype) -> None:
        backbone = prefix.backbone
        self.embed, self.tail, self.lengths = backbone.embed, prefix.tail, prefix.lengths
        self.tower: TextTower = backbone.text_tower(dtype)
        layers = range(len(self.tower.layers))
        pairs = [prefix.keys_and_values(index) for index in layers]
        self.keys = [key.to(dtype) for key, _ in pairs]
        self.values = [value.to(dtype) for _, value in pairs]
        longest = self.keys[0].shape[1]
        padding = torch.arange(longest, device=self.lengths.device) >= self.lengths[:, None]
        self.padding = padding[:, None, None, :]  # (prompts, 1, 1, prefix)
        # Triton multiplies fp32 in reduced precision, but fp32 results have to be exact.
        fast = backbone.device.type == "cuda" and dtype.itemsize == 2
        self.kernels = _kernels(backbone.text_width // self.tower.heads) if fast else None

    def features(self, candidates: Tensor) -> Tensor:
        """Returns features (candidates, prompts, dim) of token ids (candidates,)."""
        tail = torch.tensor(self.tail, device=candidates.device)
        ids = torch.cat([candidates[:, None], tail.expand(len(candidates), -1)], dim=1)
        hidden = self._with_positions(self.embed(ids)[:, :, None])
        last = len(self.tower.layers) - 1
        for index in range(last):
            hidden = self._layer(hidden, index, hidden.shape[1])
        hidden = self._layer(hidden, last, 1)  # only EOS has to leave the last layer
        return self.tower.project(self._norm(hidden, 2 * last + 2)[:, 0])

    def keys_and_values(self, rows: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Returns each layer's keys and values of token embeddings (1, rows, prompts, width)."""
        hidden = self._with_positions(rows)
        keys, values = [], []
        for index, layer in enumerate(self.tower.layers):
            normed = self._norm(hidden, 2 * index)
            keys.append(layer.key(normed))
            values.append(layer.value(normed))
            if index + 1 < len(self.tower.layers):
                hidden = self._layer(hidden, index, hidden.shape[1])
        return keys, values

    def _with_positions(self, rows: Tensor) -> Tensor:
        """Returns embeddings (candidates, rows, 1 or prompts, width) at each prompt's positions."""
        positions = self.lengths + torch.arange(rows.shape[1], device=self.lengths.device)[:, None]
        return rows.to(self.tower.dtype) + self.tower.positions[positions]

    def _layer(self, hidden: Tensor, index: int, queries: int) -> Tensor:
        """Returns the last `queries` rows of (candidates, rows, prompts, width) after a layer."""
        layer = self.tower.layers[index]
        normed = self._norm(hidden, 2 * index)
        key, value = layer.key(normed), layer.value(normed)
        if queries < hidden.shape[1]:
            hidden, normed = (rows[:, -queries:].contiguous() for rows in (hidden, normed))
        mixed = self._attend(layer.query(normed), key, value, index)
        hidden = self.tower.add(hidden, mixed, layer.out)
        return self.tower.mlp(hidden, self._norm(hidden, 2 * index + 1), index)

    def _norm(self, hidden: Tensor, index: int) -> Tensor:
        if self.kernels is None:
            return self.tower.norm(hidden, index)
        out: Tensor = self.kernels.norm(hidden, self.tower.offsets[index], self.tower.eps)
        return out

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, index: int) -> Tensor:
        """Returns the attention of the query rows to the shared prefix and to their own rows."""
        if self.kernels is not None:
            prefix = (self.keys[index], self.values[index], self.lengths)
            out: Tensor = self.kernels.attend(query, key, value, *prefix, self.tower.heads)
            return out
        count, queries = query.shape[:2]
        rows_each = key.shape[1]
        query, key, value = (self._split(rows) for rows in (query, key, value))
        prefix_key, prefix_value = (
            rows[index].unflatten(-1, (self.tower.heads, -1)).transpose(1, 2)
            for rows in (self.keys, self.values)
        )
        shared = query.flatten(2, 3) @ prefix_key.transpose(-1, -2)
        shared = shared.masked_fill_(self.padding, -torch.inf)
        # Products of a few rows: elementwise is faster than thousands of tiny matrix products.
        private = (query[..., :, None, :] * key[..., None, :, :]).sum(-1)
        future = torch.ones(queries, rows_each, dtype=torch.bool, device=key.device)
        private = private.masked_fill_(future.triu(1 + rows_each - queries), -torch.inf)
        weights = torch.cat([shared, private.flatten(2, 3)], dim=-1).softmax(dim=-1)
        prefix_weights, own_weights = weights.split([shared.shape[-1], rows_each], dim=-1)
        mixed = (prefix_weights @ prefix_value).unflatten(2, (count, queries))
        own_weights = own_weights.unflatten(2, (count, queries))
        for row in range(rows_each):
            mixed = mixed.addcmul_(own_weights[..., row, None], value[..., row, None, :])
        joined: Tensor = mixed.permute(2, 3, 0, 1, 4).flatten(3)
        return joined

    def _split(self, rows: Tensor) -> Tensor:
        """Returns (count, rows, prompts, width) as (prompts, heads, count, rows, head width)."""
        split: Tensor = rows.unflatten(-1, (self.tower.heads, -1))
        return split.permute(2, 3, 0, 1, 4)


@cache
def _kernels(head_width: int) -> ModuleType | None:
    """Returns the Triton kernels; None if they cannot run or do not suit this head width."""
    try:
        from ipl.backbone import search_kernels
    except ImportError:  # not every build of torch has Triton
        return None
    return search_kernels if search_kernels.fits(head_width) else None
