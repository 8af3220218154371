"""The attention of training against plain torch, values and gradients."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from ipl.backbone.shared_prefix import OwnRows, SharedShape, attend_with_torch

pytestmark = pytest.mark.gpu
# Shapes with the width of their heads.
SHAPES = {
    SharedShape(groups=1, shared=1, each=1, own=1, heads=2): 16,
    SharedShape(groups=1, shared=5, each=7, own=3, heads=8): 32,
    SharedShape(groups=3, shared=12, each=50, own=9, heads=4): 64,
    SharedShape(groups=2, shared=40, each=2, own=37, heads=3): 32,
    SharedShape(groups=1, shared=3, each=2, own=70, heads=2): 16,
}


@pytest.fixture(scope="module")
def kernels() -> ModuleType:
    pytest.importorskip("triton")
    from ipl.backbone import training_kernels

    return training_kernels


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("shape", "head"), SHAPES.items(), ids=str)
def test_values_and_gradients(
    kernels: ModuleType, shape: SharedShape, head: int, dtype: torch.dtype
) -> None:
    rows = shape.groups * (shape.shared + shape.each * shape.own)
    generator = torch.Generator().manual_seed(0)
    width = shape.heads * head
    qkv = torch.randn(rows, 3 * width, generator=generator)
    qkv[:, :width] *= head**-0.5  # queries carry the scale
    weight = torch.randn(rows, width, generator=generator, dtype=torch.float64).cuda()
    exact = qkv.cuda().to(dtype).double().requires_grad_()
    expected = attend_with_torch(exact, shape)
    (expected * weight).sum().backward()
    ours = qkv.cuda().to(dtype).requires_grad_()
    found = kernels.attend(ours, shape)
    (found * weight.to(dtype)).sum().backward()
    assert exact.grad is not None
    assert ours.grad is not None
    close = {torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}[dtype]
    scale = float(exact.grad.abs().max())
    assert float((found.double() - expected).abs().max()) < close
    assert float((ours.grad.double() - exact.grad).abs().max()) < close * max(scale, 1.0)


def test_the_same_bits_each_time(kernels: ModuleType) -> None:
    shape, generator = list(SHAPES)[2], torch.Generator().manual_seed(0)
    rows = shape.groups * (shape.shared + shape.each * shape.own)
    qkv = torch.randn(rows, 3 * 4 * 32, generator=generator).cuda().half()
    found = []
    for _ in range(3):
        leaf = qkv.clone().requires_grad_()
        kernels.attend(leaf, shape).square().sum().backward()
        found.append(leaf.grad)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize(("shape", "head"), SHAPES.items(), ids=str)
def test_without_padding(kernels: ModuleType, shape: SharedShape, head: int) -> None:
    """The rows up to each EOS are those that they are with padding behind them."""
    generator = torch.Generator().manual_seed(0)
    counts = torch.randint(1, shape.own + 1, (shape.each,), generator=generator).tolist()
    counts[0] = shape.own
    own = OwnRows.of(counts, torch.device("cuda")).for_groups(shape.groups, shape.own)
    first, width = shape.groups * shape.shared, shape.heads * head
    rows = first + shape.groups * shape.each * shape.own
    kept = torch.cat([torch.arange(first, device="cuda"), first + own.place])
    qkv = torch.randn(rows, 3 * width, generator=generator)
    qkv[:, :width] *= head**-0.5
    weight = torch.randn(len(kept), width, generator=generator, dtype=torch.float64).cuda()
    exact = qkv.cuda().double().requires_grad_()
    expected = attend_with_torch(exact, shape)[kept]
    (expected * weight).sum().backward()
    ours = qkv.cuda()[kept].requires_grad_()
    found = kernels.attend(ours, shape, own)
    (found * weight.float()).sum().backward()
    assert exact.grad is not None
    assert ours.grad is not None
    assert float((found.detach().double() - expected.detach()).abs().max()) < 1e-5
    scale = float(exact.grad.abs().max())
    assert float((ours.grad.double() - exact.grad[kept]).abs().max()) < 1e-5 * max(scale, 1.0)
