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
from ipl.backbone.candidate_pass import CandidatePass
from ipl.backbone.prefix_attention import Prefix
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
        prompts = len(self.lengths)
        rows = prompts * (1 + len(self.tail))  # of one candidate
        # The stream, its norm, the MLP's four widths, and what attention and products need.
        row_bytes = 14 * self.backbone.text_width * dtype.itemsize
        device = self.backbone.device.type
        most_rows = ROWS_AT_ONCE.get(device, ROWS_AT_ONCE["cpu"])
        if device == "cuda":  # as much memory in every precision
            most_rows //= max(1, dtype.itemsize // 2)
        capacity = int(self.memory / 2 * GIB // row_bytes)
        if capacity < rows:
            raise ConfigError(
                f"memory is {self.memory:g} GiB; {prompts} prompts need at least "
                f"{2.02 * rows * row_bytes / GIB:.3g}."
            )
        count = max(1, min(most_rows, capacity) // rows)
        return count - count % BLOCK if count > BLOCK else count

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
        # Without waiting for what the device still has to do.
        ids = torch.as_tensor(candidates, dtype=torch.int32)
        ids = ids.to(self.backbone.device, non_blocking=True)
        run = self.candidate_pass(dtype)
        for chunk in ids.split(self.candidates_at_once(dtype)):
            yield run.features(chunk)  # not kept here while the next are computed

    def candidate_pass(self, dtype: torch.dtype) -> CandidatePass:
        """Returns a pass over candidates in one precision, which extensions do not change."""
        return CandidatePass(self.backbone, self.prefixes, self.tail, dtype)

    @torch.no_grad()
    def extend(self, tokens: Sequence[int]) -> None:
        """Appends the same tokens to every prefix, at the cost of these tokens alone."""
        self._check_room(int(self.lengths.max()) + len(tokens))
        prompts, count = len(self.lengths), len(tokens)
        run = self.candidate_pass(torch.float32)
        rows = self.backbone.embed(tokens)[None, :, None].expand(1, count, prompts, -1)
        new_keys, new_values = run.keys_and_values(rows)
        positions = self.lengths[:, None] + torch.arange(count, device=self.lengths.device)
        prompt = torch.arange(prompts, device=self.lengths.device)[:, None]
        for stored, new in ((self._keys, new_keys), (self._values, new_values)):
            for layer, rows in enumerate(new):
                stored[layer] = pad(stored[layer], (0, 0, 0, count))
                stored[layer][prompt, positions] = rows[0].transpose(0, 1)
        self.lengths = self.lengths + count

    @property
    def prefixes(self) -> list[Prefix]:
        """Returns the keys and values of each layer in fp32."""
        return [Prefix(*pair, self.lengths) for pair in zip(self._keys, self._values, strict=True)]
