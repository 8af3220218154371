"""Bound prompts, index by index, against prompts written out by hand."""

from __future__ import annotations

import pytest
import torch

from ipl.backbone.backbone import Backbone
from ipl.prompts.bound_prompts import bind, initial_soft
from ipl.prompts.layout import ClassName, FixedText, PromptLayout, Soft, WordSlot
from ipl.support.errors import ConfigError, DataError
from tests.helpers.library_towers import whole_prompts

NAMES = ["cat", "starry night", "pirate ship at sea"]


def test_every_row_is_where_it_should_be(pocket: Backbone) -> None:
    words = ("playfulness", "furry")
    sizes = [len(pocket.tokenize(word)) for word in words]
    assert sizes == [2, 1]
    layout = PromptLayout.interleaved(2, 1).with_slot_sizes(sizes)
    bound = bind(layout, pocket, NAMES)
    # SOS V w w V w V cls... . EOS
    assert bound.soft_rows.tolist() == [1, 4, 6]
    assert bound.slot_rows.tolist() == [2, 3, 5]
    lengths = [len(pocket.tokenize(name)) + 2 for name in NAMES]
    assert (bound.endings.shared, bound.endings.lengths) == (7, tuple(lengths))
    for slot, word in enumerate(words):
        bound.place_word(layout.slot_slice(slot), pocket.embed(pocket.tokenize(word)))
    soft = torch.randn(3, pocket.text_width)
    playfulness, furry = (pocket.embed(pocket.tokenize(word)) for word in words)
    sos = pocket.embed([pocket.sos])
    beginning = [sos, soft[:1], playfulness, soft[1:2], furry, soft[2:]]
    for name, prompt in zip(NAMES, whole_prompts(bound, soft), strict=True):
        end = pocket.embed([*pocket.tokenize(f"{name}."), pocket.eos])
        assert torch.equal(prompt, torch.cat([*beginning, end]))


def test_every_row_of_an_empty_slot_holds_the_placeholder(pocket: Backbone) -> None:
    layout = PromptLayout.interleaved(2, 1).with_slot_sizes([2, 1])
    (zero,) = pocket.embed(pocket.tokenize("0"))
    for placeholder, expected in (("token", zero), ("zero", torch.zeros_like(zero))):
        bound = bind(layout, pocket, NAMES, placeholder)
        held = bound.rows[[2, 3, 5]]
        assert torch.equal(held, expected.expand_as(held))
    with pytest.raises(ConfigError, match="placeholder is 'q'; it must be token or zero"):
        bind(layout, pocket, NAMES, "q")


def test_class_names_may_stand_first(pocket: Backbone) -> None:
    """Soft vectors and words then have a row in every class."""
    layout = PromptLayout((ClassName(), Soft(2), WordSlot()))
    bound = bind(layout, pocket, NAMES)
    assert bound.endings.shared == 1
    soft = torch.randn(2, pocket.text_width)
    bound.place_word(layout.slot_slice(0), pocket.embed(pocket.tokenize("furry")))
    for name, prompt in zip(NAMES, whole_prompts(bound, soft), strict=True):
        start = pocket.embed([pocket.sos, *pocket.tokenize(name)])
        end = pocket.embed([*pocket.tokenize("furry"), pocket.eos])
        assert torch.equal(prompt, torch.cat([start, soft, end]))


def test_every_group_has_its_soft_vectors(pocket: Backbone) -> None:
    bound = bind(PromptLayout.interleaved(1, 2), pocket, NAMES)
    soft = torch.randn(3, 4, pocket.text_width)
    rows = bound.with_soft_vectors(soft)
    for group, expected in zip(rows, soft, strict=True):
        assert torch.equal(group, bound.with_soft_vectors(expected[None])[0])
        assert torch.equal(group[bound.soft_rows], expected)


@pytest.mark.parametrize("name", ["cat", "U.S.", "x (pill)", "what?", "starry night"])
def test_plain_prompts_give_the_plain_text_features(name: str, pocket: Backbone) -> None:
    """Soft vectors that hold "a photo of a" are that prompt; a name's full stop belongs to it."""
    layout = PromptLayout((Soft(4, init="a photo of a"), ClassName(), FixedText(".")))
    bound = bind(layout, pocket, [name, "dog"])
    soft = initial_soft(layout, pocket, torch.Generator())
    ours = pocket.encode_prompts(bound.with_soft_vectors(soft[None]), bound.endings)[0]
    expected = pocket.encode_texts([f"a photo of a {name}.", "a photo of a dog."])
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=0)


def test_initial_values(pocket: Backbone) -> None:
    layout = PromptLayout.interleaved(2, 50)
    first = initial_soft(layout, pocket, torch.Generator().manual_seed(1))
    assert first.shape == (150, pocket.text_width)
    assert first[:100].std().item() == pytest.approx(0.01, rel=0.05)
    assert first[100:].std().item() == pytest.approx(0.02, rel=0.05)
    layout = PromptLayout((Soft(3, init="a photo of a"), ClassName()))
    with pytest.raises(ConfigError, match="'a photo of a' is 4 tokens; the soft group has 3"):
        initial_soft(layout, pocket, torch.Generator())


def test_what_is_too_long_is_refused(pocket: Backbone) -> None:
    long = " ".join(["word"] * 300)
    with pytest.raises(DataError, match=r"is 300 tokens long; the prompt leaves room for 63 of 77"):
        bind(PromptLayout.interleaved(3, 2), pocket, ["cat", long])
    with pytest.raises(ConfigError, match="25 words between 52 soft vectors need 81 tokens"):
        bind(PromptLayout.interleaved(25, 2), pocket, ["cat", "dog"])
    bind(PromptLayout.interleaved(23, 2), pocket, ["cat", "dog"])  # 75 tokens


def test_underscores_are_blanks(pocket: Backbone) -> None:
    layout = PromptLayout.interleaved(1, 2)
    spaced, scored = (bind(layout, pocket, [name, "x"]) for name in ("dark sky", "dark_sky"))
    assert torch.equal(spaced.rows, scored.rows)
    assert scored.class_names == ("dark sky", "x")
