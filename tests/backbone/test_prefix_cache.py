"""The text tower and the prefix cache against `transformers`' own CLIP."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from weakref import ref

import pytest
import torch
from torch import Tensor
from transformers import CLIPModel

from ipl.backbone import prefix_cache as prefix_module
from ipl.backbone.backbone import Backbone
from ipl.backbone.clip import causal_text
from ipl.backbone.loading import load_backbone
from ipl.backbone.prefix_cache import PrefixCache
from ipl.backbone.text_tower import TextTower
from ipl.support.errors import BackboneError, ConfigError
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
        return tiny_clip(pocket, "quick_gelu", layers=1, heads=2)
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


@torch.no_grad()
def test_keys_and_values_are_the_librarys(backbone: Backbone, library: CLIPModel) -> None:
    ids = torch.tensor([[backbone.sos, 11, 12, 13, 500, 6], [backbone.sos, 9, 8, 7, 6, 5]])
    seen: list[Tensor] = []
    hooks = [
        getattr(layer.self_attn, name).register_forward_hook(lambda _, __, out: seen.append(out))
        for layer in library.text_model.encoder.layers
        for name in ("k_proj", "v_proj")
    ]
    embeddings = library.text_model.embeddings(input_ids=ids)
    embeddings = embeddings - library.text_model.embeddings.position_embedding.weight[:6]
    library.text_model(input_ids=torch.cat([ids, torch.full((2, 1), backbone.eos)], 1))
    for hook in hooks:
        hook.remove()
    keys, values = TextTower(causal_text(backbone.model), torch.float32).keys_and_values(
        embeddings.float()
    )
    assert len(keys) == len(values) == len(library.text_model.encoder.layers)
    for ours, expected in zip(
        [one for pair in zip(keys, values, strict=True) for one in pair], seen, strict=True
    ):
        assert_same(ours, expected[:, :6])


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


def test_a_tower_is_made_once_per_precision(backbone: Backbone) -> None:
    tower = backbone.text_tower(torch.float32)
    assert backbone.text_tower(torch.float32) is tower
    assert tower.offsets.shape == (2 * len(backbone.text_layers) + 1, backbone.text_width)
    assert not tower.offsets[0].any()


@pytest.mark.parametrize("tail", [[], [267, 320]])
def test_a_cache_that_grew_equals_one_built_anew(
    backbone: Backbone, library: CLIPModel, tail: list[int]
) -> None:
    prefixes = beginnings(backbone)
    grown = PrefixCache(backbone, prefixes, tail)
    for tokens in ([2368, 267], [320], [1125, 539, 320, 1125, 267], [40, 41, 42], [7, 8, 9, 10]):
        features(grown, ids_of(backbone))  # a sweep in between leaves no trace
        grown.extend(tokens)
        prefixes = [[*prefix, *tokens] for prefix in prefixes]
        anew = PrefixCache(backbone, prefixes, tail)
        assert grown.lengths.tolist() == anew.lengths.tolist() == list(map(len, prefixes))
        assert_same(features(grown, ids_of(backbone)), features(anew, ids_of(backbone)))
        for one, other in zip(grown.prefixes, anew.prefixes, strict=True):
            for ours, theirs in ((one.keys, other.keys), (one.values, other.values)):
                for row, length in enumerate(anew.lengths.tolist()):
                    assert_same(ours[row, :length], theirs[row, :length])
    whole = [[*prefix, 50, *tail, backbone.eos] for prefix in prefixes]
    assert_same(features(grown, [50])[0], library_features(library, whole))


def test_prefixes_of_one_token_and_a_single_prompt(backbone: Backbone, library: CLIPModel) -> None:
    cache = PrefixCache(backbone, [backbone.opening])
    expected = library_features(library, [[backbone.sos, 77, backbone.eos]])
    assert_same(features(cache, [77])[0], expected)
    cache.extend([5])
    expected = library_features(library, [[backbone.sos, 5, 77, backbone.eos]])
    assert_same(features(cache, [77])[0], expected)


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


def test_less_memory_gives_smaller_chunks_and_equal_features(pocket: Backbone) -> None:
    backbone = tiny_clip(pocket, "gelu")
    prefixes, ids = beginnings(backbone), ids_of(backbone) * 20
    plenty = features(PrefixCache(backbone, prefixes), ids)
    candidate = 2 * 2 * len(NAMES) * 14 * 4 * backbone.text_width / (1 << 30)  # GiB, half for it
    sizes = []
    for room in (1.0, 7.5, 64.5, 129.0):
        cache = PrefixCache(backbone, prefixes, memory=room * candidate)
        chunks = list(cache.features(ids))
        assert max(map(len, chunks)) == cache.candidates_at_once() <= room
        sizes.append(len(chunks[0]))
        assert_same(torch.cat(chunks), plenty, 2e-6)
    assert sizes == [1, 7, 64, 128]
    half = PrefixCache(backbone, prefixes, memory=candidate)
    assert half.candidates_at_once(torch.float16) == 2


def test_features_are_not_kept_while_the_next_are_computed(backbone: Backbone) -> None:
    memory = 2.0 * len(NAMES) * 2 * 14 * 4 * backbone.text_width / (1 << 30)  # for one candidate
    chunks = PrefixCache(backbone, beginnings(backbone), memory=memory).features(ids_of(backbone))
    first = next(chunks)
    is_alive = ref(first)
    assert not first.requires_grad
    del first
    assert is_alive() is None


def test_too_little_memory_is_said(backbone: Backbone) -> None:
    cache = PrefixCache(backbone, beginnings(backbone), memory=1e-9)
    with pytest.raises(ConfigError, match=r"memory is 1e-09 GiB; 4 prompts need at least") as said:
        list(cache.features([5]))
    needed = float(str(said.value).rstrip(".").split()[-1])
    for share, fits in ((1.1, True), (0.9, False)):  # the number said is rounded
        cache.memory = share * needed
        if fits:
            assert cache.candidates_at_once() == 1
        else:
            with pytest.raises(ConfigError, match="need at least"):
                cache.candidates_at_once()


def test_prompts_too_long_are_refused_and_leave_the_cache_alone(pocket: Backbone) -> None:
    room = pocket.positions - 2  # candidate and EOS
    cache = PrefixCache(pocket, [[5] * (room - 3), [6] * 4])
    before = features(cache, [9])
    with pytest.raises(BackboneError, match="78 tokens does not fit the 77 positions"):
        cache.extend([1, 2, 3, 4])
    assert torch.equal(features(cache, [9]), before)
    cache.extend([1, 2, 3])
    whole = PrefixCache(pocket, [[5] * (room - 3) + [1, 2, 3], [6] * 4 + [1, 2, 3]])
    assert_same(features(cache, [9]), features(whole, [9]))
    with pytest.raises(BackboneError, match="78 tokens"):
        PrefixCache(pocket, [[5] * room], tail=[267])
    with pytest.raises(BackboneError, match="78 tokens"):
        cache.extend([1])


def test_a_sweep_under_way_is_not_disturbed_by_growth(
    pocket: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(prefix_module.ROWS_AT_ONCE, "cpu", 8)
    cache, ids = PrefixCache(pocket, beginnings(pocket)), ids_of(pocket)
    expected = features(cache, ids)
    sweep: Iterator[Tensor] = cache.features(ids)
    first = next(sweep)
    cache.extend([1, 2])
    assert torch.equal(torch.cat([first, *sweep]), expected)
    assert not torch.allclose(features(cache, ids), expected, atol=1e-3)
