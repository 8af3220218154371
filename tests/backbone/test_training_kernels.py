"""The attention of training against plain torch, values and gradients."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from ipl.backbone import shared_prefix
from ipl.backbone.backbone import Backbone
from ipl.backbone.shared_prefix import OwnRows, SharedShape, attend_with_torch
from ipl.learners.registry import learner_class

# Shapes with the width of their heads.
SHAPES = {
    SharedShape(groups=1, shared=1, each=1, own=1, heads=2): 16,
    SharedShape(groups=1, shared=5, each=7, own=3, heads=8): 32,
    SharedShape(groups=3, shared=12, each=20, own=9, heads=4): 64,
    SharedShape(groups=2, shared=40, each=2, own=37, heads=3): 32,
    SharedShape(groups=1, shared=3, each=2, own=70, heads=2): 16,
}


@pytest.fixture(scope="module")
def kernels(kernel_device: str) -> ModuleType:
    from ipl.backbone import training_kernels

    return training_kernels


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("shape", "head"), SHAPES.items(), ids=str)
def test_values_and_gradients(
    kernels: ModuleType, kernel_device: str, shape: SharedShape, head: int, dtype: torch.dtype
) -> None:
    if dtype == torch.bfloat16 and kernel_device == "cpu":
        pytest.skip("Triton's interpreter does not multiply bfloat16")
    rows = shape.groups * (shape.shared + shape.each * shape.own)
    generator = torch.Generator().manual_seed(0)
    width = shape.heads * head
    qkv = torch.randn(rows, 3 * width, generator=generator)
    qkv[:, :width] *= head**-0.5  # queries carry the scale
    weight = torch.randn(rows, width, generator=generator, dtype=torch.float64).to(kernel_device)
    exact = qkv.to(kernel_device).to(dtype).double().requires_grad_()
    expected = attend_with_torch(exact, shape)
    (expected * weight).sum().backward()
    ours = qkv.to(kernel_device).to(dtype).requires_grad_()
    found = kernels.attend(ours, shape)
    (found * weight.to(dtype)).sum().backward()
    assert exact.grad is not None
    assert ours.grad is not None
    close = {torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}[dtype]
    scale = float(exact.grad.abs().max())
    assert float((found.detach().double() - expected.detach()).abs().max()) < close
    assert float((ours.grad.double() - exact.grad).abs().max()) < close * max(scale, 1.0)


def test_the_same_bits_each_time(kernels: ModuleType, kernel_device: str) -> None:
    shape, generator = list(SHAPES)[2], torch.Generator().manual_seed(0)
    rows = shape.groups * (shape.shared + shape.each * shape.own)
    qkv = torch.randn(rows, 3 * 4 * 32, generator=generator).to(kernel_device).half()
    found = []
    for _ in range(3):
        leaf = qkv.clone().requires_grad_()
        kernels.attend(leaf, shape).square().sum().backward()
        found.append(leaf.grad)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize(("shape", "head"), SHAPES.items(), ids=str)
def test_without_padding(
    kernels: ModuleType, kernel_device: str, shape: SharedShape, head: int, dtype: torch.dtype
) -> None:
    """The rows up to each EOS are those that they are with padding behind them."""
    generator, device = torch.Generator().manual_seed(0), torch.device(kernel_device)
    counts = torch.randint(1, shape.own + 1, (shape.each,), generator=generator).tolist()
    counts[0] = shape.own
    own = OwnRows.of(counts, device, dtype).for_groups(shape.groups, shape.own)
    first, width = shape.groups * shape.shared, shape.heads * head
    rows = first + shape.groups * shape.each * shape.own
    kept = torch.cat([torch.arange(first, device=device), first + own.place])
    qkv = torch.randn(rows, 3 * width, generator=generator)
    qkv[:, :width] *= head**-0.5
    qkv = qkv.to(device, dtype)
    weight = torch.randn(len(kept), width, generator=generator).to(device, dtype)
    exact = qkv.double().requires_grad_()
    expected = attend_with_torch(exact, shape)[kept]
    (expected * weight.double()).sum().backward()
    ours = qkv[kept].requires_grad_()
    found = kernels.attend(ours, shape, own)
    (found * weight).sum().backward()
    assert exact.grad is not None
    assert ours.grad is not None
    close = {torch.float32: 1e-5, torch.float16: 5e-3}[dtype]
    assert float((found.detach().double() - expected.detach()).abs().max()) < close
    scale = float(exact.grad.abs().max())
    assert float((ours.grad.double() - exact.grad[kept]).abs().max()) < close * max(scale, 1.0)


@pytest.mark.parametrize("name", ["cocoop", "promptsrc"])
def test_prompts_of_learners(
    kernels: ModuleType, pocket: Backbone, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every image has prompts of its own, or every layer."""
    kind, found = learner_class(name), []
    images = torch.randn(2, pocket.feature_dim, generator=torch.Generator().manual_seed(0))
    for ours in (False, True):
        if ours:
            monkeypatch.setattr(shared_prefix, "_attention", lambda *of: kernels.attend)
        names = ["cat", "a very old pirate ship", "starry night"]
        learner = kind.from_hyperparameters(pocket, names, 1, kind.hyperparameters(1), seed=3)
        logits = learner.logits(images)
        wanted = [each for part, each in learner.named_parameters() if part != "image"]
        found.append((logits.detach(), torch.autograd.grad(logits.sin().sum(), wanted)))
    (expected, gradients), (mine, my_gradients) = found
    torch.testing.assert_close(mine, expected, atol=1e-3, rtol=1e-4)
    for one, other in zip(my_gradients, gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-3 * float(other.abs().max()), rtol=0)
