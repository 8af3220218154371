"""Attention in plain torch, and of the kernels, against a loop over rows."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from torch import Tensor

from ipl.backbone import ops
from ipl.backbone.backbone import Backbone
from ipl.backbone.ops import Endings, Prefix
from ipl.backbone.prefix_cache import PrefixCache
from ipl.learners.registry import learner_class

pytestmark = pytest.mark.usefixtures("one_thread")
Attend = Callable[[Tensor, int, Endings, Prefix | None], Tensor]
DTYPES = {torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 5e-2}
# Groups, rows of the beginning, rows of each ending, heads, width of a head.
SHAPES = [
    (1, 1, (1,), 2, 16),
    (1, 5, (3,) * 7, 8, 32),
    (3, 12, (9, 4, 7, 1) * 5, 2, 32),
    (2, 0, (2, 5, 1), 2, 16),
    (2, 40, (37, 3), 3, 32),
    (1, 3, (70, 2), 2, 16),
]


@pytest.fixture(scope="module")
def kernels(kernel_device: str) -> ModuleType:
    from ipl.kernels import attention

    return attention


def row_by_row(qkv: Tensor, heads: int, endings: Endings, prefix: Prefix | None) -> Tensor:
    """Returns attention (groups, rows, width), one row after the other."""
    groups, rows, _ = qkv.shape
    query, key, value = (part.unflatten(-1, (heads, -1)) for part in qkv.chunk(3, -1))
    spans = [*zip([0, *endings.starts[:-1]], endings.starts, strict=True)]
    found = []
    for group in range(groups):
        for number, (first, end) in enumerate(spans):
            for row in range(first, end):
                seen = [*range(first, row + 1)]
                if number:  # an ending, not the beginning
                    seen = [*range(endings.shared), *seen]
                keys, values = key[group, seen], value[group, seen]
                if prefix is not None:
                    length = int(prefix.lengths[group])
                    before = [
                        part[group, :length].unflatten(-1, (heads, -1)) for part in prefix[:2]
                    ]
                    keys, values = torch.cat([before[0], keys]), torch.cat([before[1], values])
                weights = torch.einsum("hd,nhd->hn", query[group, row], keys).softmax(-1)
                found.append(torch.einsum("hn,nhd->hd", weights, values).flatten())
    return torch.stack(found).view(groups, rows, -1)


def draw(groups: int, rows: int, heads: int, head: int, size: float = 1.0) -> Tensor:
    qkv = torch.randn(groups, rows, 3 * heads * head, generator=torch.Generator().manual_seed(0))
    qkv[..., : heads * head] *= size * head**-0.5
    return qkv


def check_gradients(
    attend: Attend, shape: tuple[int, int, tuple[int, ...], int, int], dtype: torch.dtype,
    device: str, close: float,
) -> None:  # fmt: skip
    """Asserts that values and gradients are those of the loop."""
    groups, shared, lengths, heads, head = shape
    endings = Endings(shared, lengths, torch.device(device))
    qkv = draw(groups, endings.rows, heads, head).to(dtype)
    weight = torch.randn(groups, endings.rows, heads * head, generator=torch.Generator())
    exact = qkv.double().requires_grad_()
    expected = row_by_row(exact, heads, endings, None)
    (expected * weight).sum().backward()
    ours = qkv.to(device).requires_grad_()
    found = attend(ours, heads, endings, None)
    (found * weight.to(device, dtype)).sum().backward()
    assert found.dtype == dtype
    assert exact.grad is not None
    assert ours.grad is not None
    assert float((found.detach().cpu().double() - expected.detach()).abs().max()) < close
    scale = max(1.0, float(exact.grad.abs().max()))
    assert float((ours.grad.cpu().double() - exact.grad).abs().max()) < close * scale


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_plain_values_and_gradients(
    shape: tuple[int, int, tuple[int, ...], int, int],
) -> None:
    check_gradients(ops._attend, shape, torch.float64, "cpu", 1e-12)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_kernels_values_and_gradients(
    kernels: ModuleType,
    kernel_device: str,
    shape: tuple[int, int, tuple[int, ...], int, int],
    dtype: torch.dtype,
) -> None:
    if dtype == torch.bfloat16 and kernel_device == "cpu":
        pytest.skip("Triton's interpreter has no bfloat16")
    check_gradients(kernels.attend, shape, dtype, kernel_device, DTYPES[dtype])


@pytest.mark.parametrize("size", [0.0, 1.0, 20.0])
@pytest.mark.parametrize(
    ("lengths", "count", "own", "heads", "head"),
    [
        ([1], 1, 1, 1, 16),
        ([9, 1, 14], 40, 2, 3, 64),
        ([40, 1, 33], 35, 3, 2, 32),
        ([15, 16, 17], 17, 4, 2, 128),
    ],
)
def test_endings_behind_a_prefix(
    kernels: ModuleType,
    kernel_device: str,
    lengths: list[int],
    count: int,
    own: int,
    heads: int,
    head: int,
    size: float,
) -> None:
    """Scores of some hundred would overflow a softmax that forgot to take off the largest."""
    endings = Endings(0, [own] * count, torch.device(kernel_device))
    qkv = draw(len(lengths), endings.rows, heads, head, size)
    kept = torch.randn(2, len(lengths), max(lengths), heads * head, generator=torch.Generator())
    for row, length in enumerate(lengths):  # what stands in the padding must not matter
        kept[:, row, length:] = 1000.0
    prefix = Prefix(kept[0], kept[1], torch.tensor(lengths))
    double = Prefix(kept[0].double(), kept[1].double(), prefix.lengths)
    expected = row_by_row(qkv.double(), heads, endings, double)
    found = ops._attend(qkv.double(), heads, endings, double)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    for dtype in (torch.float32, torch.float16):
        here = Prefix(*(part.to(kernel_device, dtype) for part in prefix[:2]), prefix.lengths)
        here = here._replace(lengths=prefix.lengths.to(kernel_device))
        ours = kernels.attend(qkv.to(kernel_device, dtype), heads, endings, here)
        close = DTYPES[dtype] * max(2.0, size)
        assert float((ours.cpu().double() - expected).abs().max()) < close


def test_where_rows_are() -> None:
    endings = Endings(3, [2, 3, 1], torch.device("cpu"))
    assert endings.last.tolist() == [4, 7, 8]
    assert endings.positions.tolist() == [0, 1, 2, 3, 4, 3, 4, 5, 3]
    assert endings.padded.tolist() == [3, 4, 4, 5, 6, 7, 8, 8, 8]
    assert endings.unpadded.tolist() == [0, 1, 3, 4, 5, 6]
    assert endings.firsts.tolist() == [0, 0, 0, 3, 3, 5, 5, 5, 8]


def test_tiles_are_whole_endings() -> None:
    endings = Endings(2, [30, 30, 10, 70, 1, 63, 1], torch.device("cpu"))
    tiles, most = endings.tiles(64)
    assert tiles.tolist() == [0, 2, 62, 72, 142, 206, 207]
    assert most == 70
    tiles, most = Endings(0, [9, 7, 1, 16, 20], torch.device("cpu")).tiles(16)
    assert (tiles.tolist(), most) == ([0, 16, 17, 33, 53], 20)


def test_what_kernels_are_made_for(kernels: ModuleType) -> None:
    def fits(head: int, shared: int, own: int, dtype: torch.dtype = torch.float16) -> bool:
        endings = Endings(shared, [own], torch.device("cpu"))
        qkv = torch.zeros(1, endings.rows, 3 * 2 * head, dtype=dtype)
        return bool(kernels.fits(qkv, 2, endings))

    assert [head for head in range(8, 300) if fits(head, 1, 1)] == [16, 32, 64, 128, 256]
    assert fits(64, 100, 100)
    assert not fits(64, 200, 1)
    assert not fits(64, 1, 100, torch.float32)


@pytest.mark.parametrize("name", ["cocoop", "promptsrc"])
def test_learners_with_the_kernels(
    kernels: ModuleType, pocket: Backbone, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every image has prompts of its own, or every layer."""
    kind, found = learner_class(name), []
    images = torch.randn(2, pocket.feature_dim, generator=torch.Generator().manual_seed(0))
    for ours in (None, kernels):
        monkeypatch.setattr(ops, "find_kernels", lambda *_, ours=ours: ours)
        names = ["cat", "a very old pirate ship", "starry night"]
        learner = kind.from_hyperparameters(pocket, names, 1, kind.hyperparameters(1), seed=3)
        logits = learner.logits(images)
        wanted = [each for part, each in learner.named_parameters() if part != "image"]
        found.append((logits.detach(), torch.autograd.grad(logits.sin().sum(), wanted)))
    (expected, gradients), (mine, my_gradients) = found
    torch.testing.assert_close(mine, expected, atol=1e-3, rtol=1e-4)
    for one, other in zip(my_gradients, gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-3 * float(other.abs().max()), rtol=0)


def test_the_search_with_the_kernels(
    kernels: ModuleType, pocket: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for ours in (None, kernels):
        monkeypatch.setattr(ops, "find_kernels", lambda *_, ours=ours: ours)
        prefixes = [[*pocket.opening, *range(20, 20 + count)] for count in (3, 7, 5)]
        cache = PrefixCache(pocket, prefixes, [267])
        found.append(torch.cat(list(cache.features([5, 6, 7]))))
    torch.testing.assert_close(found[1], found[0], atol=1e-4, rtol=1e-4)
