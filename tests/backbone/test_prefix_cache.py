"""The text tower and the prefix cache against `transformers`' own CLIP."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor
from transformers import CLIPModel

from ipl.backbone.backbone import Backbone
from ipl.backbone.loading import load_backbone
from ipl.backbone.prefix_cache import PrefixCache
from ipl.support.errors import BackboneError
from tests.helpers.tiny_clip import tiny_clip

pytestmark = pytest.mark.usefixtures("one_thread")
NAMES = ["cat", "starry night", "siamese cat with a very long name", "ox"]
WORDS = ["furry", "blue", "adopt", "visit", "social", "phone", "title"]


@pytest.fixture(scope="module", params=["pocket", "quick_gelu", "gelu", "one layer", "bf16"])
def backbone(request: pytest.FixtureRequest, pocket: Backbone) -> Backbone:
    if request.param == "pocket":
        return pocket
    if request.param == "bf16":  # on a CPU: weights rounded, computed with in fp32
        return load_backbone("pocket", "cpu", "bf16")
    if request.param == "one layer":
        return tiny_clip(pocket, layers=1, heads=2)
    return tiny_clip(pocket, request.param)


@pytest.fixture(scope="module")
def library(backbone: Backbone) -> CLIPModel:
    """Returns the same weights as the library runs them, in fp64."""
    clip = copy.deepcopy(backbone.model).double()
    rows = clip.text_model.embeddings.token_embedding
    rows.weight.copy_(backbone.embed(range(rows.num_embeddings)))  # never rounded to half
    return clip


def beginnings(backbone: Backbone, names: list[str] = NAMES) -> list[list[int]]:
    return [[backbone.sos, *backbone.tokenize(f"a photo of a {name}, with")] for name in names]


def ids_of(backbone: Backbone, words: list[str] = WORDS) -> list[int]:
    return [backbone.tokenize(word)[0] for word in words]


@torch.no_grad()
def library_features(library: CLIPModel, prompts: list[list[int]]) -> Tensor:
    """Returns the features of whole prompts, one at a time, as the library computes them."""
    found = [library.get_text_features(input_ids=torch.tensor([ids])) for ids in prompts]
    return torch.cat([getattr(one, "pooler_output", one) for one in found])


def features(cache: PrefixCache, ids: list[int]) -> Tensor:
    """Returns the features (candidates, prompts, dim)."""
    return torch.cat(list(cache.features(ids)))


def assert_same(ours: Tensor, expected: Tensor, tolerance: float = 1e-5) -> None:
    """Fails unless tensors agree relative to the size of their numbers."""
    size = expected.abs().max().item()
    torch.testing.assert_close(ours.double(), expected.double(), atol=tolerance * size, rtol=0)


@pytest.mark.parametrize("tail", [[], [267], [267, 320, 1125]])
def test_features_are_the_librarys(backbone: Backbone, library: CLIPModel, tail: list[int]) -> None:
    cache = PrefixCache(backbone, beginnings(backbone), tail)
    whole = [
        [*begin, word, *tail, backbone.eos]
        for word in ids_of(backbone)
        for begin in beginnings(backbone)
    ]
    expected = library_features(library, whole).unflatten(0, (len(WORDS), len(NAMES)))
    assert_same(features(cache, ids_of(backbone)), expected)
    apart = (expected[0] - expected[1]).abs().max() / expected.abs().max()
    assert apart > 2e-4  # a word moves a feature by far more than the tolerance


def test_neighbours_do_not_matter(backbone: Backbone) -> None:
    """Neither the order of candidates, nor their number, nor the other prompts change a feature."""
    cache, ids = PrefixCache(backbone, beginnings(backbone)), ids_of(backbone) * 20
    at_once = features(cache, ids)
    order = torch.randperm(len(ids), generator=torch.Generator().manual_seed(0))
    shuffled = features(cache, [ids[i] for i in order])
    assert_same(shuffled, at_once[order], 2e-6)
    assert_same(at_once[:7], at_once[-7:], 2e-6)
    assert_same(torch.cat([features(cache, [i]) for i in ids[:7]]), at_once[:7], 2e-6)
    for row, begin in enumerate(beginnings(backbone)):
        assert_same(features(PrefixCache(backbone, [begin]), ids)[:, 0], at_once[:, row], 2e-6)


def test_prompts_too_long_are_refused(pocket: Backbone) -> None:
    room = pocket.positions - 2  # candidate and EOS
    PrefixCache(pocket, [[5] * room, [6] * 4])
    for length, tail in ((room, [267]), (room + 1, [])):
        with pytest.raises(BackboneError, match="78 tokens does not fit the 77 positions"):
            PrefixCache(pocket, [[5] * length], tail)
