"""The search in 8-bit integers: its kernels against plain torch, and the features against fp32."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import layer_norm, normalize, silu

from ipl.backbone import int8_pass
from ipl.backbone.backbone import Backbone
from ipl.backbone.folded_layers import Linear
from ipl.backbone.int8_pass import Int8Pass, int8_kernels
from ipl.backbone.prefix_attention import Prefix
from ipl.backbone.prefix_cache import PrefixCache
from ipl.backbone.text_tower import Int8Matrix
from ipl.words.modes import Search, SearchStep
from ipl.words.pool import Pool
from ipl.words.scorer import SentenceScorer
from tests.helpers.tiny_clip import tiny_clip

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NAMES = ["cat", "starry night", "siamese cat with a very long name"]
WORDS = Pool.bundled().words[::60]


@pytest.fixture(scope="module")
def kernels(kernel_device: str) -> ModuleType:
    pytest.importorskip("triton.tools.tensor_descriptor", reason="needs a newer Triton")
    if kernel_device == "cuda" and torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("needs a Hopper GPU or Triton's interpreter")
    from ipl.backbone import int8_kernels as kernels

    return kernels


@pytest.fixture(scope="module")
def backbone(pocket: Backbone) -> Backbone:
    """Returns a CLIP whose sizes suit the kernels."""
    return tiny_clip(pocket, "quick_gelu", 2, heads=2, width=128, wide=256, device=DEVICE)


def randn(*shape: int, seed: int, size: float = 1.0) -> Tensor:
    values = size * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return values.to(DEVICE)


def matrix(depth: int, width: int, seed: int) -> tuple[Linear, Int8Matrix]:
    """Returns a matrix with a bias in fp16, and the same rounded."""
    weight = randn(depth, width, seed=seed, size=depth**-0.5)
    return Linear(weight.half(), randn(width, seed=seed + 1).half()), Int8Matrix.of(weight)


def test_a_matrix_is_rounded_column_by_column() -> None:
    weight = randn(128, 256, seed=1) * torch.logspace(-3, 3, 256, device=DEVICE)
    weight[:, 5] = 0.0
    rounded = Int8Matrix.of(weight)
    assert rounded.weight.shape == (256, 128)
    back = (rounded.weight * rounded.scale[:, None]).T
    assert torch.all((back - weight).abs() <= weight.abs().amax(0) / 254 * 1.001)


def test_the_norm_is_rounded_around_its_centre(kernels: ModuleType) -> None:
    """Large parts that all rows share do not cost the differences their digits."""
    common = 30 * randn(2, 3, 1, 384, seed=1)
    hidden = (common + randn(2, 3, 128, 384, seed=2)).half()
    expected = layer_norm(hidden.double(), (384,))
    sample = expected[:, :, :50].permute(2, 0, 1, 3).half().contiguous()
    linear, _ = matrix(384, 128, seed=3)
    centre = kernels.centre_of(sample, linear)
    torch.testing.assert_close(centre.rows, sample.float().mean(0).half(), atol=2e-3, rtol=0)
    rounded = torch.empty_like(hidden, dtype=torch.int8)
    scales = torch.empty(hidden.shape[:3], device=DEVICE)
    kernels.norm(rounded, scales, hidden, centre, 1e-5)
    back = rounded.double() * scales[..., None].double() + centre.rows[:, :, None].double()
    difference = expected - centre.rows[:, :, None]
    assert torch.all((back - expected).abs() <= difference.abs().amax(-1, keepdim=True) / 127)
    assert difference.abs().amax() < 0.2 * expected.abs().amax()


def test_products_of_rounded_rows(kernels: ModuleType) -> None:
    rows, prompts, count, depth, width = 2, 2, 256, 256, 384
    linear, rounded_matrix = matrix(depth, width, seed=1)
    sample = randn(40, rows, prompts, depth, seed=2).half()
    centre = kernels.centre_of(sample, linear)
    integers = randn(rows, prompts, count, depth, seed=3, size=40).round().clamp(-127, 127)
    scales = 0.01 + 0.01 * randn(rows, prompts, count, seed=4).abs()
    weight = (rounded_matrix.weight * rounded_matrix.scale[:, None]).double().T
    product = integers.double() * scales[..., None].double() @ weight
    product += centre.product[:, :, None].double()
    ours = torch.empty(rows, prompts, count, width, dtype=torch.float16, device=DEVICE)
    kernels.project(ours, integers.to(torch.int8), scales, rounded_matrix, centre)
    torch.testing.assert_close(ours.double(), product, atol=1e-2, rtol=2e-3)

    next_linear, _ = matrix(width, 128, seed=5)
    after = kernels.centre_of(randn(40, rows, prompts, width, seed=6).half(), next_linear)
    active = torch.empty(rows, prompts, count, width, dtype=torch.int8, device=DEVICE)
    kernels.activate(active, integers.to(torch.int8), scales, rounded_matrix, centre, after)
    difference = silu(product) - after.rows[:, :, None]
    unit = after.unit[:, :, None, None].double()
    cut = (difference / unit).clamp(-127, 127)
    assert (cut.abs() == 127).any()
    assert (active.double() - cut).abs().max() <= 0.6

    hidden = randn(rows, prompts, count, width, seed=7).half()
    by_block = centre.unit[:, :, None, None].double() * integers.double() @ weight
    expected = hidden.double() + by_block + centre.product[:, :, None].double()
    kernels.add_product(hidden, integers.to(torch.int8), rounded_matrix, centre)
    torch.testing.assert_close(hidden.double(), expected, atol=2e-2, rtol=2e-3)


@pytest.mark.parametrize("asking", [1, 2])
def test_attention_of_rows_whose_candidates_are_neighbours(
    kernels: ModuleType, asking: int
) -> None:
    from ipl.backbone.prefix_attention import attend_to_prefix

    rows, prompts, count, width, heads = 2, 3, 128, 128, 2
    qkv = randn(rows, prompts, count, 3 * width, seed=1, size=0.5).half()
    lengths = torch.tensor([9, 1, 14], device=DEVICE)
    keys, values = (randn(prompts, 14, width, seed=seed, size=0.5) for seed in (2, 3))
    prefix = Prefix(keys, values, lengths)
    query, key, value = (part.permute(2, 0, 1, 3).float() for part in qkv.chunk(3, dim=-1))
    expected = attend_to_prefix(query[:, -asking:], key, value, prefix, heads)
    linear, _ = matrix(width, width, seed=4)
    centre = kernels.centre_of(expected.half().contiguous(), linear)
    ours = torch.empty(asking, prompts, count, width, dtype=torch.int8, device=DEVICE)
    kernels.attend(ours, qkv, prefix, heads, centre)
    back = ours.double() * centre.unit[:, :, None, None] + centre.rows[:, :, None]
    back = back.permute(2, 0, 1, 3)
    near = centre.unit[None, ..., None].double() * 0.6 + 2e-3
    assert torch.all((back - expected.double()).abs() <= near)


@pytest.mark.parametrize(("rows", "tail"), [(65536, ""), (512, ", in a photo.")])
def test_features_are_near_those_of_fp32(
    kernels: ModuleType,
    backbone: Backbone,
    monkeypatch: pytest.MonkeyPatch,
    rows: int,
    tail: str,
) -> None:
    """With few rows at once, prompts are run in parts."""
    monkeypatch.setattr(int8_pass, "ROWS_AT_ONCE", {"few prompts": rows, "many prompts": rows})
    prefixes = [[backbone.sos, *backbone.tokenize(f"a photo of a {name},")] for name in NAMES]
    cache = PrefixCache(backbone, prefixes, backbone.tokenize(tail))
    ids = backbone.tokenize_words(WORDS[:70])
    tokens = torch.tensor(ids, device=DEVICE)
    run = Int8Pass(backbone, cache.prefixes, cache.tail, tokens, 2.0, kernels)
    later = Int8Pass(backbone, cache.prefixes, cache.tail, tokens, 2.0, kernels)
    assert run.candidates_at_once % kernels.CANDIDATES == 0
    sample = cache.candidate_pass(torch.float16).features(tokens)
    torch.testing.assert_close(run.sample_features, sample, atol=2e-2, rtol=2e-2)
    with torch.no_grad():
        ours = run.features(tokens).float()
        again = torch.cat([run.features(part) for part in tokens.split(40)]).float()
    assert torch.equal(later.features(tokens).float(), ours)  # measured layer by layer
    assert torch.equal(later.sample_features, run.sample_features)
    exact = torch.cat(list(cache.features(ids)))
    assert ours.shape == exact.shape
    spread = (exact - exact.mean(0)).norm(dim=-1)
    error = (ours - exact).norm(dim=-1) / spread
    assert error.median() < 0.1
    assert error.max() < 1
    # Elsewhere in a chunk, NumPy's last bits may differ in the interpreter, and round differently.
    moved = (ours - again).norm(dim=-1) / spread
    assert (moved > 0).float().mean() < 0.05
    assert moved.max() < 0.1


def test_an_interrupted_pass_is_not_used_again(
    kernels: ModuleType, backbone: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = PrefixCache(backbone, [[backbone.sos, *backbone.tokenize("a cat,")]])
    ids = backbone.tokenize_words(WORDS[:3])
    sample = torch.tensor(ids, device=DEVICE)
    cache._int8 = Int8Pass(backbone, cache.prefixes, cache.tail, sample, 2.0, kernels)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(kernels, "activate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        next(cache.features(ids, torch.int8))
    assert cache._int8 is None


def test_a_cpu_and_other_towers_have_no_kernels(pocket: Backbone) -> None:
    assert int8_kernels(pocket) is None


@pytest.mark.gpu
def test_the_search_in_8_bits_is_exhaustive(
    kernels: ModuleType, backbone: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(int8_pass, "NARROWEST", 128)
    monkeypatch.setattr("ipl.words.scorer.FEWEST_CLASSES", 2)
    assert int8_kernels(backbone) is kernels
    words = Pool.bundled().words[::2]
    texts = normalize(backbone.encode_texts([f"an image of a {name}" for name in NAMES]), dim=-1)
    labels = torch.arange(48) % len(NAMES)
    images = normalize(texts.cpu()[labels] + 0.2 * randn(48, 40, seed=1).cpu(), dim=-1)
    scorer = SentenceScorer(backbone, NAMES, images, labels)
    assert scorer.precisions == (torch.int8, torch.float16)
    monkeypatch.setattr("ipl.words.modes.Exact.MOST_LEFT", 2.0)
    for selected in ((), ("blue",)):
        step = SearchStep(selected, np.zeros(len(words)), scorer.loss(selected), lambda *_: None)
        exact = Search("exact").start(scorer, words).losses(step)
        every = Search("exhaustive").start(scorer, words).losses(step)
        best = np.argsort(every, kind="stable")[:20]
        assert np.isfinite(exact[best]).all()
        np.testing.assert_allclose(exact[best], every[best], atol=2e-6)
        assert np.isfinite(exact).sum() < len(words) / 2
