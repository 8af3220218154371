"""Prompts that enter again at deeper layers, in place of what the layers before made of them."""

from __future__ import annotations

import torch
from torch import Tensor

from ipl.backbone.backbone import Enter


def replace_rows(start: int, deep: Tensor) -> Enter:
    """Returns what puts deep[i] (rows, width) at row `start` before layer i + 1, for each i.

    A negative start counts from the end. All other rows go through untouched.
    """

    def enter(number: int, hidden: Tensor) -> Tensor:
        if not 1 <= number <= len(deep):
            return hidden
        first = range(hidden.shape[1])[start]
        rows = deep[number - 1].to(hidden.dtype).expand(hidden.shape[0], -1, -1)
        after = hidden[:, first + rows.shape[1] :]
        return torch.cat([hidden[:, :first], rows, after], dim=1)

    return enter
