"""The sum of stream and branch and its norm, in one kernel, against plain torch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from ipl.backbone.replaced_rows import EnteringRows

CLOSE = {torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 8e-2}
EPS = 1e-5


def plain(
    rows: Tensor, branch: Tensor | None, entering: EnteringRows | None, eps: float
) -> tuple[Tensor, Tensor]:
    stream = rows if branch is None else rows + branch
    if entering is not None:
        stream = entering.put_into(stream)
    return stream, layer_norm(stream, stream.shape[-1:], eps=eps)


@pytest.mark.parametrize("dtype", CLOSE, ids=str)
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("enters", [False, True])
@pytest.mark.parametrize("stream_is_used", [False, True])
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("shape", [(27, 24), (3, 9, 768)], ids=str)
def test_values_and_gradients(
    kernel_device: str,
    dtype: torch.dtype,
    adds: bool,
    enters: bool,
    stream_is_used: bool,
    parts: int,
    shape: tuple[int, ...],
) -> None:
    from ipl.backbone.norm_kernels import add_and_norm

    generator = torch.Generator().manual_seed(0)
    rows, branch, *weights = (
        torch.randn(shape, generator=generator).to(kernel_device).to(dtype) for _ in range(4)
    )
    new = torch.randn(2, shape[-1], generator=generator).to(kernel_device).to(dtype)
    found = []
    for function, kind in ((plain, torch.float64), (add_and_norm, dtype)):
        given = [value.to(kind).requires_grad_() for value in (rows, branch, new)]
        entering = EnteringRows(given[2], first=3, part=9, parts=parts) if enters else None
        stream, normed = function(given[0], given[1] if adds else None, entering, EPS)
        loss = (normed * weights[0].to(kind)).sum()
        if stream_is_used:
            loss = loss + (stream * weights[1].to(kind)).sum()
        loss.backward()
        found.append([stream.detach(), normed.detach(), *(value.grad for value in given)])
    for ours, expected in zip(found[1], found[0], strict=True):
        assert (ours is None) == (expected is None)
        if ours is not None:
            scale = max(1.0, float(expected.abs().max()))
            assert float((ours.double() - expected).abs().max()) < CLOSE[dtype] * scale
