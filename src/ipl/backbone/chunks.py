"""Many prompts in parts, so that what their gradients need does not have to fit at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

ACTIVATIONS = 4 << 30  # bytes kept for gradients; beyond it parts are run twice and keep nothing

# (embeddings, eos, groups) to features
Encode = Callable[[Tensor, Tensor, int], Tensor]


def in_parts(encode: Encode, rows: Tensor, eos: Tensor, groups: int, each_bytes: int) -> Tensor:
    """Returns encode(rows, eos, groups), in parts if the prompts' `each_bytes` are too many.

    A part is run again when its gradients are wanted. Parts are whole groups, or some prompts of
    one group.
    """
    fit = ACTIVATIONS // each_bytes
    if not (torch.is_grad_enabled() and rows.requires_grad) or len(rows) <= fit:
        return encode(rows, eos, groups)
    features = []
    for part, count in _parts(len(rows), groups, max(1, fit // 4)):
        features.append(
            checkpoint(
                encode, rows[part], eos[part], count, use_reentrant=False, preserve_rng_state=False
            )
        )
    return torch.cat(features)


def _parts(prompts: int, groups: int, at_once: int) -> Iterator[tuple[slice, int]]:
    """Yields slices of at most `at_once` prompts, and how many groups are in each."""
    each = prompts // groups
    whole = at_once // each  # groups in a part
    if whole:
        for first in range(0, groups, whole):
            last = min(first + whole, groups)
            yield slice(first * each, last * each), last - first
        return
    for start in range(0, prompts, each):
        for first in range(start, start + each, at_once):
            yield slice(first, min(first + at_once, start + each)), 1
