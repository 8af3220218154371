"""The Triton kernels against plain torch, and the search that uses them."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, layer_norm, normalize

from ipl.backbone import candidate_pass
from ipl.backbone.backbone import Backbone
from ipl.backbone.loading import load_backbone
from ipl.backbone.prefix_cache import PrefixCache
from ipl.words.greedy import greedy_search
from ipl.words.objective import Objective
from ipl.words.pool import Pool
from ipl.words.scorer import SentenceScorer
from ipl.words.selection import Selection

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NORM_TOLERANCE = {torch.float32: 3e-6, torch.float16: 1e-3}
NAMES = ["cat", "starry night", "siamese cat with a very long name", "ox"]
WORDS = Pool.bundled().words[::15]


@pytest.fixture(scope="module")
def kernels(kernel_device: str) -> ModuleType:
    from ipl.backbone import search_kernels as kernels

    return kernels


@pytest.fixture(scope="module")
def cuda() -> Backbone:
    return load_backbone("pocket", DEVICE)


def randn(*shape: int, dtype: torch.dtype, seed: int = 0, size: float = 1.0) -> Tensor:
    values = size * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return values.to(DEVICE, dtype)


# Widths that are and are not powers of two; rows that do and do not fill the last program.
@pytest.mark.parametrize("dtype", list(NORM_TOLERANCE), ids=str)
@pytest.mark.parametrize(
    ("shape", "width"), [((1, 1, 1), 16), ((15, 2, 7), 48), ((64, 4, 2), 512), ((65, 1, 1), 1000)]
)
def test_norm(kernels: ModuleType, shape: tuple[int, ...], width: int, dtype: torch.dtype) -> None:
    hidden, offset = randn(*shape, width, dtype=dtype), randn(width, dtype=dtype, seed=1, size=3.0)
    before = hidden.clone()
    ours = kernels.norm(hidden, offset, 1e-5)
    expected = layer_norm(hidden.double() + offset.double(), (width,), eps=1e-5)
    assert ours.dtype == dtype
    assert torch.equal(hidden, before)
    close = NORM_TOLERANCE[dtype]
    torch.testing.assert_close(ours.double(), expected, atol=close, rtol=close)


def test_norm_of_rows_far_from_zero_and_of_constant_rows(kernels: ModuleType) -> None:
    """The mean goes first, the squares after: no digits are lost to a large mean."""
    hidden = randn(5, 1, 3, 192, dtype=torch.float32) + 3000.0
    offset = torch.zeros(192, device=DEVICE)
    expected = layer_norm(hidden.double(), (192,), eps=1e-5)
    ours = kernels.norm(hidden, offset, 1e-5)
    torch.testing.assert_close(ours.double(), expected, atol=2e-3, rtol=0)
    assert kernels.norm(torch.ones_like(hidden), offset, 1e-5).abs().max() < 1e-3


def plain_attention(
    query: Tensor, key: Tensor, value: Tensor, prefix: tuple[Tensor, Tensor, Tensor], heads: int
) -> Tensor:
    """Returns attention in fp64, one (candidate, prompt, asking row) after the other."""
    count, asking, prompts, width = query.shape
    own, out = key.shape[1], torch.empty(query.shape, dtype=torch.float64)
    query, key, value = (rows.cpu().double() for rows in (query, key, value))
    keys, values = prefix[0].cpu().double(), prefix[1].cpu().double()
    for prompt in range(prompts):
        length = int(prefix[2][prompt])
        for asked in range(asking):
            seen = own - asking + asked + 1
            ks = torch.cat([keys[prompt, :length].expand(count, -1, -1), key[:, :seen, prompt]], 1)
            vs = [values[prompt, :length].expand(count, -1, -1), value[:, :seen, prompt]]
            q = query[:, asked, prompt].view(count, heads, 1, -1)
            ks = ks.unflatten(-1, (heads, -1)).transpose(1, 2)
            weights = (q @ ks.transpose(-1, -2)).softmax(-1)
            mixed = weights @ torch.cat(vs, 1).unflatten(-1, (heads, -1)).transpose(1, 2)
            out[:, asked, prompt] = mixed.reshape(count, width)
    return out


def assert_attention(
    kernels: ModuleType,
    count: int,
    heads: int,
    head: int,
    lengths: list[int],
    own: int,
    asking: int,
    size: float = 1.0,
) -> None:
    dtype = torch.float16
    width, prompts = heads * head, len(lengths)
    query = randn(count, asking, prompts, width, dtype=dtype, seed=1, size=size * head**-0.5)
    key, value = (randn(count, own, prompts, width, dtype=dtype, seed=s) for s in (2, 3))
    keys, values = (randn(prompts, max(lengths), width, dtype=dtype, seed=s) for s in (4, 5))
    for row, length in enumerate(lengths):  # what stands in the padding must not matter
        keys[row, length:], values[row, length:] = 30.0, 1000.0
    prefix = (keys, values, torch.tensor(lengths, device=DEVICE))
    ours = kernels.attend(query, key, value, *prefix, heads)
    assert ours.shape == query.shape
    assert ours.dtype == dtype
    expected = plain_attention(query, key, value, prefix, heads)
    scale = 8e-3 * max(1.0, size)
    torch.testing.assert_close(ours.cpu().double(), expected, atol=scale, rtol=0)


# Counts around the two block sizes, 16 and 64; all rows or only the last one ask.
@pytest.mark.parametrize(
    ("count", "own", "asking"),
    [(1, 1, 1), (15, 2, 2), (16, 2, 1), (17, 3, 3), (63, 4, 1), (64, 4, 4), (130, 2, 2)],
)
def test_attention_of_odd_numbers_of_candidates(
    kernels: ModuleType, count: int, own: int, asking: int
) -> None:
    assert_attention(kernels, count, 3, 64, [9, 1, 14], own, asking)


@pytest.mark.parametrize(
    ("lengths", "heads", "head"),
    [([1], 1, 16), ([15, 16, 17], 2, 64), ([40, 1, 33], 8, 32), ([32], 3, 128)],
)
def test_attention_of_any_prefix_and_heads(
    kernels: ModuleType, heads: int, head: int, lengths: list[int]
) -> None:
    assert_attention(kernels, 15, heads, head, lengths, 2, 2)
    assert_attention(kernels, 65, heads, head, lengths, 3, 1)


@pytest.mark.parametrize("size", [0.0, 20.0])
def test_attention_that_is_flat_or_peaked(kernels: ModuleType, size: float) -> None:
    """Scores of some hundred would overflow a softmax that forgot to take off the largest."""
    assert_attention(kernels, 33, 4, 32, [7, 20], 3, 3, size)


def test_which_heads_fit(kernels: ModuleType) -> None:
    fit = [width for width in range(1, 300) if kernels.fits(width)]
    assert fit == [16, 32, 64, 128, 256]


# -- in the tower ----------------------------------------------------------------------------------


def run(cache: PrefixCache, ids: Tensor, dtype: torch.dtype, fused: bool) -> Tensor:
    """Returns features (candidates, prompts, dim) with the kernels or by torch alone."""
    with pytest.MonkeyPatch.context() as patch:
        if not fused:
            patch.setattr(candidate_pass, "find_kernels", lambda *_: None)
        one = cache.candidate_pass(dtype)
    assert (one.kernels is not None) == fused
    with torch.no_grad():
        return one.features(ids).float()


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("count", "tail"), [(1, ""), (64, ", in a photo."), (65, ""), (130, ", in a photo.")]
)
def test_the_fused_sweep_is_as_good_as_torchs(
    kernels: ModuleType, cuda: Backbone, count: int, tail: str
) -> None:
    prefixes = [[cuda.sos, *cuda.tokenize(f"a photo of a {name}, with")] for name in NAMES]
    cache = PrefixCache(cuda, prefixes, cuda.tokenize(tail))
    ids = torch.tensor([cuda.tokenize(word)[0] for word in WORDS[:count]], device=DEVICE)
    for grown in ([], cuda.tokenize("furry,"), cuda.tokenize("blue, adopt,")):
        if grown:
            cache.extend(grown)
        exact = run(cache, ids, torch.float32, fused=False)
        ours = run(cache, ids, torch.float16, fused=True)
        torchs = run(cache, ids, torch.float16, fused=False)
        off, its = (1 - cosine_similarity(one, exact, dim=-1) for one in (ours, torchs))
        assert off.max() < 1e-4
        assert off.mean() < 3 * its.mean() + 1e-6


def scorer(backbone: Backbone, pocket: Backbone, seed: int) -> SentenceScorer:
    generator = torch.Generator().manual_seed(seed)
    texts = normalize(pocket.encode_texts([f"an image of a {name}" for name in NAMES]), dim=-1)
    labels = torch.arange(24) % len(NAMES)
    noise = 0.3 * torch.randn(24, texts.shape[1], generator=generator)
    images = normalize(texts[labels] + texts.mean(0) + noise, dim=-1)
    return SentenceScorer(backbone, NAMES, images, labels)


def gains(selection: Selection) -> list[dict[str, float]]:
    """Returns each step's best twenty words with their gains."""
    return [
        {step.word: step.gain, **{other.word: other.gain for other in step.runners_up}}
        for step in selection.steps
    ]


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(4))
def test_exact_is_exhaustive_here_and_on_the_cpu(
    cuda: Backbone, pocket: Backbone, seed: int
) -> None:
    pool, objective = Pool.from_words(WORDS, "test"), Objective((0.0, 0.1, 1.0, 0.3)[seed])
    task: Any = scorer(cuda, pocket, seed)
    assert task.half == torch.float16
    found = greedy_search(task, pool, 3, objective, "exact")
    every = greedy_search(task, pool, 3, objective, "exhaustive")
    here = greedy_search(scorer(pocket, pocket, seed), pool, 3, objective, "exact")
    for other in (every, here):
        assert found.words == other.words
        for ours, theirs in zip(gains(found), gains(other), strict=True):
            assert len(ours) == 20
            # In another batch fp32 rounds otherwise: words that close may swap places.
            cut = min(theirs.values()) + 1e-4
            assert {word for word, gain in theirs.items() if gain > cut} <= set(ours)
            for word in set(ours) & set(theirs):
                assert ours[word] == pytest.approx(theirs[word], abs=1e-4)
    assert max(step.checked for step in found.steps) < len(pool) / 2
