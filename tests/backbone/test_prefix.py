"""The prefix cache against whole prompts."""

from __future__ import annotations

import pytest
import torch

from ipl.backbone import prefix_cache as prefix_module
from ipl.backbone.clip import Backbone
from ipl.backbone.prefix_cache import PrefixCache
from ipl.support.errors import BackboneError

WORDS = ["furry", "blue", "adopt", "visit", "social"]
NAMES = ["cat", "starry night", "siamese cat with a very long name"]


def features(cache: PrefixCache, ids: list[int]) -> torch.Tensor:
    """Returns the features (prompts, candidates, dim)."""
    return torch.cat(list(cache.features(ids))).transpose(0, 1)


@pytest.mark.parametrize("tail", ["", ", in a photo."])
@pytest.mark.parametrize("rows", [4096, 8])  # one chunk, and a candidate at a time
def test_features_are_those_of_whole_prompts(
    pocket: Backbone, tail: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(prefix_module.ROWS_AT_ONCE, "cpu", rows)
    prefixes = [[pocket.sos, *pocket.tokenize(f"a photo of a {name}, with")] for name in NAMES]
    cache = PrefixCache(pocket, prefixes, pocket.tokenize(tail))
    ours = features(cache, [pocket.tokenize(word)[0] for word in WORDS])
    whole = [f"a photo of a {name}, with {word}{tail}" for name in NAMES for word in WORDS]
    expected = pocket.encode_texts(whole).view(len(NAMES), len(WORDS), -1)
    torch.testing.assert_close(ours, expected, atol=2e-5, rtol=0)


def test_other_activations_take_the_librarys_mlp(pocket: Backbone) -> None:
    """A tower with plain GELU (as LAION's CLIPs have) is not computed with QuickGELU."""
    import copy

    clip = copy.deepcopy(pocket.clip)
    for layer in clip.text_model.encoder.layers:
        layer.mlp.activation_fn = torch.nn.GELU()
    gelu = Backbone("gelu", clip, pocket.tokenizer, pocket.preprocessing)
    cache = PrefixCache(gelu, [[gelu.sos, *gelu.tokenize("a cat,")]])
    ours = features(cache, [gelu.tokenize("furry")[0]])[0]
    torch.testing.assert_close(ours, gelu.encode_texts(["a cat, furry"]), atol=2e-5, rtol=0)
    assert not torch.allclose(ours, pocket.encode_texts(["a cat, furry"]), atol=1e-3)


def test_a_prefix_without_room_is_refused(pocket: Backbone) -> None:
    PrefixCache(pocket, [[5] * 75])  # 75 + candidate + EOS = 77
    with pytest.raises(BackboneError, match="78 tokens"):
        PrefixCache(pocket, [[5] * 76])
