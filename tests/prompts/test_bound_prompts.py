"""Bound prompts, index by index, against prompts written out by hand."""

from __future__ import annotations

import pytest
import torch

from ipl.backbone.backbone import Backbone
from ipl.prompts.bound_prompts import bind, initial_soft
from ipl.prompts.layout import EOS, SOS, ClassName, FixedText, PromptLayout, Soft
from ipl.support.errors import ConfigError, DataError

NAMES = ["cat", "starry night", "pirate ship at sea"]


def test_every_row_is_where_it_should_be(pocket: Backbone) -> None:
    layout = PromptLayout.interleaved(2, 2)
    bound = bind(layout, pocket, NAMES)
    # SOS V V w V V w V V cls... . EOS
    assert bound.soft_rows.tolist() == [[1, 2, 4, 5, 7, 8]] * 3
    assert bound.slot_rows.tolist() == [[3, 6]] * 3
    lengths = [len(pocket.tokenize(name)) for name in NAMES]
    assert [list(rows) for rows in bound.class_rows] == [list(range(9, 9 + n)) for n in lengths]
    assert bound.eos.tolist() == [9 + n + 1 for n in lengths]
    assert bound.embeddings.shape == (3, 9 + max(lengths) + 2, pocket.text_width)
    assert bound.shared == 9
    soft = torch.randn(6, pocket.text_width)
    bound.place_word(layout.slot_slice(1), pocket.embed(pocket.tokenize("furry")))
    rows = bound.assemble(soft)
    zero, furry = (pocket.embed(pocket.tokenize(word)) for word in ("0", "furry"))
    for c, name in enumerate(NAMES):
        by_hand = torch.cat(
            [
                pocket.embed([pocket.sos]),
                soft[0:2],
                zero,
                soft[2:4],
                furry,
                soft[4:6],
                pocket.embed(pocket.tokenize(name)),
                pocket.embed(pocket.tokenize(".")),
                pocket.embed([pocket.eos]),
            ]
        )
        assert torch.equal(rows[c, : len(by_hand)], by_hand)


@pytest.mark.parametrize(
    "layout",
    [
        PromptLayout.interleaved(1, 2),
        PromptLayout((SOS, Soft(2, std=0.02), ClassName(), Soft(1, std=0.02), EOS)),
        PromptLayout((SOS, FixedText("a photo of a"), ClassName(), EOS)),
    ],
    ids=["before the name", "around the name", "none"],
)
def test_split_prompts_are_the_assembled_ones(pocket: Backbone, layout: PromptLayout) -> None:
    bound = bind(layout, pocket, NAMES)
    soft = torch.randn(2, layout.soft_count, pocket.text_width)
    several = bound.split(soft)
    assert several.beginnings.shape[:2] == (2, bound.shared)
    assert torch.equal(several.whole(), bound.assemble(soft).flatten(0, 1))
    assert torch.equal(several.eos, torch.cat([bound.eos, bound.eos]))
    assert torch.equal(bound.split(soft[1]).whole(), bound.assemble(soft[1]))


def test_words_of_several_tokens_are_where_they_should_be(pocket: Backbone) -> None:
    words = ("playfulness", "furry")
    sizes = [len(pocket.tokenize(word)) for word in words]
    assert sizes == [2, 1]
    layout = PromptLayout.interleaved(2, 1).with_slot_sizes(sizes)
    bound = bind(layout, pocket, NAMES)
    # SOS V w w V w V cls... . EOS
    assert bound.soft_rows.tolist() == [[1, 4, 6]] * 3
    assert bound.slot_rows.tolist() == [[2, 3, 5]] * 3
    assert bound.shared == 7
    for slot, word in enumerate(words):
        bound.place_word(layout.slot_slice(slot), pocket.embed(pocket.tokenize(word)))
    soft = torch.randn(3, pocket.text_width)
    rows = bound.assemble(soft)
    playfulness, furry = (pocket.embed(pocket.tokenize(word)) for word in words)
    for c, name in enumerate(NAMES):
        by_hand = torch.cat(
            [
                pocket.embed([pocket.sos]),
                soft[:1],
                playfulness,
                soft[1:2],
                furry,
                soft[2:],
                pocket.embed(pocket.tokenize(f"{name}.")),
                pocket.embed([pocket.eos]),
            ]
        )
        assert torch.equal(rows[c, : len(by_hand)], by_hand)
        assert bound.eos[c] == len(by_hand) - 1


def test_every_row_of_an_empty_slot_holds_the_placeholder(pocket: Backbone) -> None:
    layout = PromptLayout.interleaved(2, 1).with_slot_sizes([2, 1])
    (zero,) = pocket.embed(pocket.tokenize("0"))
    for placeholder, expected in (("token", zero), ("zero", torch.zeros_like(zero))):
        bound = bind(layout, pocket, NAMES, placeholder)
        held = bound.embeddings[:, [2, 3, 5]]  # (classes, rows of slots, width)
        assert torch.equal(held, expected.expand_as(held))


def test_class_names_may_stand_first(pocket: Backbone) -> None:
    """Soft rows then differ from class to class."""
    layout = PromptLayout((SOS, ClassName(), Soft(2), EOS))
    bound = bind(layout, pocket, NAMES)
    lengths = [len(pocket.tokenize(name)) for name in NAMES]
    assert bound.soft_rows.tolist() == [[1 + n, 2 + n] for n in lengths]
    assert bound.shared == 1


def test_plain_prompts_give_the_plain_text_features(pocket: Backbone) -> None:
    """Soft vectors that hold the embeddings of "a photo of a" are that prompt."""
    layout = PromptLayout((SOS, Soft(4, init="a photo of a"), ClassName(), FixedText("."), EOS))
    bound = bind(layout, pocket, NAMES)
    soft = initial_soft(layout, pocket, torch.Generator())
    ours = pocket.encode_text(bound.assemble(soft), bound.eos)
    expected = pocket.encode_texts([f"a photo of a {name}." for name in NAMES])
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=0)


def test_a_zero_placeholder(pocket: Backbone) -> None:
    bound = bind(PromptLayout.interleaved(1, 2), pocket, NAMES, placeholder="zero")
    assert bound.embeddings[:, 3].abs().max() == 0
    with pytest.raises(ConfigError, match="placeholder is 'nil'; allowed are token, zero"):
        bind(PromptLayout.interleaved(1, 2), pocket, NAMES, placeholder="nil")


def test_initial_values(pocket: Backbone) -> None:
    layout = PromptLayout.interleaved(2, 50)
    first = initial_soft(layout, pocket, torch.Generator().manual_seed(1))
    assert first.shape == (150, pocket.text_width)
    assert first[:100].std().item() == pytest.approx(0.01, rel=0.05)
    assert first[100:].std().item() == pytest.approx(0.02, rel=0.05)
    again = initial_soft(layout, pocket, torch.Generator().manual_seed(1))
    assert torch.equal(first, again)


def test_an_initial_text_must_fit_its_group(pocket: Backbone) -> None:
    layout = PromptLayout((SOS, Soft(3, init="a photo of a"), ClassName(), EOS))
    with pytest.raises(ConfigError, match="'a photo of a' is 4 tokens; the soft group has 3"):
        initial_soft(layout, pocket, torch.Generator())


def test_a_class_name_of_300_words_is_refused(pocket: Backbone) -> None:
    long = " ".join(["word"] * 300)
    with pytest.raises(DataError, match=r"is 300 tokens long; the prompt leaves room for 63 of 77"):
        bind(PromptLayout.interleaved(3, 2), pocket, ["cat", long])


def test_more_words_than_positions(pocket: Backbone) -> None:
    with pytest.raises(ConfigError, match="25 words between 52 soft vectors need 81 tokens"):
        bind(PromptLayout.interleaved(25, 2), pocket, ["cat", "dog"])
    bind(PromptLayout.interleaved(23, 2), pocket, ["cat", "dog"])  # 75 tokens


def test_underscores_are_blanks(pocket: Backbone) -> None:
    spaced, scored = (bind(PromptLayout.interleaved(1, 2), pocket, [name, "x"]) for name in
                      ("starry night", "starry_night"))  # fmt: skip
    assert torch.equal(spaced.embeddings, scored.embeddings)
    assert scored.class_names == ("starry night", "x")


@pytest.mark.parametrize("name", ["cat", "U.S.", "x (pill)", "what?", "starry night"])
def test_a_name_and_its_full_stop_are_tokenized_together(name: str, pocket: Backbone) -> None:
    start = Soft(4, init="a photo of a")
    layout = PromptLayout((SOS, start, ClassName(), FixedText("."), EOS))
    prompts = bind(layout, pocket, [name, "dog"])
    soft = initial_soft(layout, pocket, torch.Generator())
    features = pocket.encode_text(prompts.assemble(soft), prompts.eos)
    texts = pocket.encode_texts([f"a photo of a {name}.", "a photo of a dog."])
    torch.testing.assert_close(features, texts, atol=1e-5, rtol=0)
