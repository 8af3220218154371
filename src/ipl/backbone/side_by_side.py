"""Two computations that a GPU runs at the same time."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def side_by_side(
    first: Callable[[], Tensor], second: Callable[[], Tensor], device: torch.device
) -> tuple[Tensor, Tensor]:
    """What two functions return, neither of which may depend on the other.

    On a GPU the first runs on a stream of its own; elsewhere they run one after the other.
    """
    if device.type != "cuda":
        return first(), second()
    current = torch.cuda.current_stream(device)
    # Of another pool than the stream on which a step is recorded.
    other = torch.cuda.Stream(device, priority=-1)
    other.wait_stream(current)
    with torch.cuda.stream(other):
        one = first()
    two = second()
    current.wait_stream(other)
    one.record_stream(current)
    return one, two
