"""Features of prompts that differ in one candidate word, at the cost of their endings alone.

A causal tower computes a row from the rows before it. What stands before a candidate word is the
same for every candidate, so its keys and values are stored once per prompt and layer; for each
(candidate, prompt) only the candidate, the tail and EOS are run. All candidates of a prompt are
multiplied with the same prefix keys in one product; nothing is copied per candidate. When a
candidate has been chosen, the cache is extended by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from ipl.backbone.backbone import Backbone
from ipl.backbone.prefix_attention import Prefix, attend_to_prefix, find_kernels
from ipl.backbone.text_tower import TextTower
from ipl.support.errors import BackboneError, ConfigError

# Rows run at once: enough to keep matrix products busy, few enough to stay in a CPU's cache.
ROWS_AT_ONCE = {"cpu": 4096, "cuda": 65536}
BLOCK = 64  # candidates per GPU program; chunks are multiples of it, so that no program is partial
GIB = 1 << 30
MEMORY = 2.0  # default of a search's working memory in GiB


def candidates_at_once(
    backbone: Backbone, rows: int, prompts: int, dtype: torch.dtype, memory: float
) -> int:
    """Returns how many candidates of so many rows each are run together in `memory` GiB."""
    # The stream, its norm, the MLP's four widths, and what attention and products need.
    row_bytes = 14 * backbone.text_width * dtype.itemsize
    most_rows = ROWS_AT_ONCE.get(backbone.device.type, ROWS_AT_ONCE["cpu"])
    capacity = int(memory / 2 * GIB // row_bytes)
    if capacity < rows:
        raise ConfigError(
            f"memory is {memory:g} GiB; {prompts} prompts need at least "
            f"{2.02 * rows * row_bytes / GIB:.3g}."
        )
    count = max(1, min(most_rows, capacity) // rows)
    return count - count % BLOCK if count > BLOCK else count


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
        prompts = len(self.lengths)
        rows = prompts * (1 + len(self.tail))  # of one candidate
        return candidates_at_once(self.backbone, rows, prompts, dtype, self.memory)

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
        self.prefixes = [Prefix(k.to(dtype), v.to(dtype), self.lengths) for k, v in pairs]
        head_width = backbone.text_width // self.tower.heads
        self.kernels = find_kernels(backbone.device, dtype, head_width)

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
        hidden = self._attention(hidden, index, queries)
        return self.tower.mlp(hidden, self._norm(hidden, 2 * index + 1), index)

    def _attention(self, hidden: Tensor, index: int, queries: int) -> Tensor:
        """Returns these rows after a layer's attention."""
        layer = self.tower.layers[index]
        normed = self._norm(hidden, 2 * index)
        key, value = layer.key(normed), layer.value(normed)
        if queries < hidden.shape[1]:
            hidden, normed = (rows[:, -queries:].contiguous() for rows in (hidden, normed))
        mixed = attend_to_prefix(
            layer.query(normed), key, value, self.prefixes[index], self.tower.heads, self.kernels
        )
        return self.tower.add(hidden, mixed, layer.out)

    def _norm(self, hidden: Tensor, index: int) -> Tensor:
        if self.kernels is None:
            return self.tower.norm(hidden, index)
        out: Tensor = self.kernels.norm(hidden, self.tower.offsets[index], self.tower.eps)
        return out
