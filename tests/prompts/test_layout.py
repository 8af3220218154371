"""Layouts: segments, groups, slots, and the way to a line of text and back."""

from __future__ import annotations

import pytest

from ipl.prompts.layout import ClassName, FixedText, PromptLayout, Soft
from ipl.support.errors import ConfigError

MAPLE_LIKE = PromptLayout((Soft(2), FixedText("of a"), ClassName(), FixedText(".")))


@pytest.mark.parametrize("k", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("m", [1, 2, 4])
def test_interleaved_has_a_group_before_every_word_and_one_before_the_class(k: int, m: int) -> None:
    layout = PromptLayout.interleaved(k, m)
    assert layout.slots == k
    assert [group.size for group in layout.groups] == [m] * (k + 1)
    assert [group.std for group in layout.groups] == [0.01] * k + [0.02]
    assert layout.soft_count == (k + 1) * m
    assert layout.group_slice(-1) == slice(k * m, (k + 1) * m)
    assert layout.group_slice(0) == slice(0, m)


def test_slots_of_several_tokens() -> None:
    layout = PromptLayout.interleaved(3, 2)
    assert layout.slot_sizes == (1, 1, 1)
    wide = layout.with_slot_sizes([2, 1, 3])
    assert (wide.slots, wide.slot_sizes) == (3, (2, 1, 3))
    assert [wide.slot_slice(slot) for slot in range(3)] == [slice(0, 2), slice(2, 3), slice(3, 6)]
    assert wide.groups == layout.groups
    assert wide.readable(["playfulness"]) == layout.readable(["playfulness"])
    assert layout.with_slot_sizes([4]).slot_sizes == (4, 1, 1)  # the others stay as they are
    assert layout.with_slot_sizes([]) == layout


def test_readable() -> None:
    layout = PromptLayout.interleaved(2, 2)
    assert layout.readable() == "[V V] *_* [V V] *_* [V V] {cls}."
    assert layout.readable(["furry"]) == "[V V] *furry* [V V] *_* [V V] {cls}."
    assert MAPLE_LIKE.readable() == "[V V] of a {cls}."
    with pytest.raises(ConfigError, match="3 words do not fit into 2 slots"):
        layout.readable(["a", "b", "c"])


@pytest.mark.parametrize("words", [(), ("furry",), ("furry", "blue", "adopt")])
@pytest.mark.parametrize("layout", [PromptLayout.interleaved(3, 2), PromptLayout.interleaved(3, 1)])
def test_round_trip_with_words(layout: PromptLayout, words: tuple[str, ...]) -> None:
    again, found = PromptLayout.parse(layout.readable(words))
    assert found == words
    assert [type(segment) for segment in again.segments] == [type(s) for s in layout.segments]
    assert again.readable(words) == layout.readable(words)
    assert PromptLayout.parse(MAPLE_LIKE.readable()) == (MAPLE_LIKE, ())


@pytest.mark.parametrize("line", ["[V V] {cls", "[V W] {cls}", "*two words* {cls}", "{name}"])
def test_a_line_that_is_no_prompt(line: str) -> None:
    with pytest.raises(ConfigError):
        PromptLayout.parse(line)


def test_what_is_no_layout() -> None:
    for segments in ((), (Soft(2), FixedText(".")), (ClassName(), ClassName())):
        with pytest.raises(ConfigError, match="names the class once"):
            PromptLayout(segments)
    with pytest.raises(ConfigError, match="m is 0"):
        PromptLayout.interleaved(1, 0)
