"""Features of prompts that differ in one candidate word, at the cost of their endings alone.

A causal tower computes a row from the rows before it. What stands before a candidate word is the
same for every candidate, so its keys and values are kept once per prompt and layer; for each
(candidate, prompt) only the candidate, the tail and EOS are run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import torch
from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.ops import Endings, Prefix
from ipl.backbone.tower import run

# Rows run at once: enough to keep matrix products busy, few enough to stay in a CPU's cache.
ROWS_AT_ONCE = {"cpu": 4096, "cuda": 65536}
BLOCK = 64  # chunks are multiples of it, so that the programs of a kernel are full


class PrefixCache:
    """Keys and values of prompts up to the candidate word, on a backbone with a causal text tower.

    Raises BackboneError if a prompt with a candidate is longer than the backbone's positions.
    """

    def __init__(
        self,
        backbone: Backbone,
        prefixes: Sequence[Sequence[int]],  # token ids of each prompt, from the opening token on
        tail: Sequence[int] = (),  # between the candidate and EOS, the same for every prompt
    ) -> None:
        self.backbone = backbone
        self.tail = torch.tensor([*tail, backbone.eos], device=backbone.device)
        lengths = [len(prefix) for prefix in prefixes]
        longest = max(lengths)
        backbone.check_length(longest + 1 + len(self.tail))
        padded = [[*p, *[backbone.eos] * (longest - len(p))] for p in prefixes]
        self.lengths = torch.tensor(lengths, device=backbone.device)
        text = backbone.text_tower(torch.float32)
        rows = backbone.embed(torch.tensor(padded)) + text.positions[:longest]
        layers: list[tuple[Tensor, Tensor]] = []
        no_row = self.lengths.new_zeros(0)
        with torch.no_grad():
            run(text.tower, rows, last=no_row, keys_values=layers)
        self.prefixes = [
            Prefix(keys.contiguous(), values.contiguous(), self.lengths) for keys, values in layers
        ]

    def candidates_at_once(self, dtype: torch.dtype = torch.float32) -> int:
        """The number of candidates that are run together."""
        rows = len(self.lengths) * (1 + len(self.tail))  # of one candidate
        device = self.backbone.device.type
        most_rows = ROWS_AT_ONCE.get(device, ROWS_AT_ONCE["cpu"])
        if device == "cuda":  # as much memory in every precision
            most_rows //= max(1, dtype.itemsize // 2)
        count = max(1, most_rows // rows)
        return count - count % BLOCK if count > BLOCK else count

    def features(
        self, candidates: Sequence[int], dtype: torch.dtype = torch.float32
    ) -> Iterator[Tensor]:
        """Yields features (chunk, prompts, dim) of every prompt with each candidate."""
        # Without waiting for what the device still has to do.
        ids = torch.as_tensor(candidates, dtype=torch.int32)
        ids = ids.to(self.backbone.device, non_blocking=True)
        prefixes = [Prefix(k.to(dtype), v.to(dtype), each) for k, v, each in self.prefixes]
        for chunk in ids.split(self.candidates_at_once(dtype)):
            yield self._features(chunk, prefixes, dtype)  # not kept here while the next is computed

    @torch.no_grad()
    def _features(
        self, candidates: Tensor, prefixes: Sequence[Prefix], dtype: torch.dtype
    ) -> Tensor:
        """Features (candidates, prompts, dim) of token ids (candidates,)."""
        text, lengths = self.backbone.text_tower(dtype), prefixes[0].lengths
        ids = torch.cat([candidates[:, None], self.tail.expand(len(candidates), -1)], dim=1)
        endings = _endings(*ids.shape, self.backbone.device)
        after = lengths[:, None] + torch.arange(ids.shape[1], device=lengths.device)
        # (prompts, candidates, tokens, width)
        rows = self.backbone.embed(ids).to(dtype) + text.positions[after][:, None]
        ends = run(text.tower, rows.flatten(1, 2), endings, prefixes, last=endings.last)
        return text.project(ends).transpose(0, 1)


@lru_cache(maxsize=8)
def _endings(count: int, length: int, device: torch.device) -> Endings:
    """Endings of equal length, made once for chunks of the same size."""
    return Endings(0, [length] * count, device)
