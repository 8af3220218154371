"""How many threads torch computes with, which decides the last bits of its results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def on_one_thread() -> Iterator[None]:
    """Computes on one thread.

    A fixture of a wider scope than `one_thread` is made before it, with as many threads as there
    are cores: one whose numbers tests compute again has to be made within this context.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
