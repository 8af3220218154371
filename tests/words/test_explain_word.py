"""Why a word is in the pool or not."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ipl.support.errors import DataError
from ipl.words.explain_word import explain_word
from ipl.words.pool import Pool


class WholeWords:
    """A tokenizer of another backbone, which keeps every word in one piece."""

    all_special_ids: ClassVar[list[int]] = []

    def encode(self, text: str, *, add_special_tokens: bool, verbose: bool) -> list[int]:
        del text, add_special_tokens, verbose
        return [1]


@pytest.fixture
def no_dictionary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes NLTK and wordfreq away."""
    monkeypatch.setitem(sys.modules, "nltk.corpus", None)
    monkeypatch.setitem(sys.modules, "wordfreq", None)


def test_explain_a_word_that_is_in(tokenizer: Any) -> None:
    dog = explain_word(" DOG ", Pool.bundled(), tokenizer)
    assert (dog.word, dog.in_pool, dog.only_name) == ("dog", True, False)
    assert (dog.rejected_by, dog.unchecked, dog.near) == ((), (), ())
    assert explain_word("Aaron", Pool.bundled(), tokenizer).only_name


@pytest.mark.parametrize(
    ("word", "rejected", "unchecked"),
    [
        ("xylem", ("one token",), ("frequency", "synset")),
        ("ox", ("alphabetic",), ("frequency", "synset")),
        ("crocodile", ("frequency",), ("synset",)),
        ("selfie", ("synset",), ()),
        ("online", (), ()),
    ],
)
def test_explain_names_the_filters_that_reject_without_a_dictionary(
    word: str,
    rejected: tuple[str, ...],
    unchecked: tuple[str, ...],
    tokenizer: Any,
    no_dictionary: None,
) -> None:
    answer = explain_word(word, Pool.bundled(), tokenizer)
    assert not answer.in_pool
    assert answer.rejected_by == rejected
    assert answer.unchecked == unchecked
    assert ("passes all four filters" in answer.sentence) == (rejected == ())


@pytest.mark.parametrize(
    ("word", "rejected", "unchecked"),
    [
        ("xylem", ("frequency",), ("synset",)),
        ("blockchain", ("synset",), ()),
        ("jerseys", (), ()),
    ],
)
def test_explain_asks_the_dictionaries_about_words_of_another_tokenizer(
    word: str, rejected: tuple[str, ...], unchecked: tuple[str, ...], mini_wordnet: Path
) -> None:
    answer = explain_word(word, Pool.bundled(), WholeWords())
    assert (answer.rejected_by, answer.unchecked) == (rejected, unchecked)


def test_explain_suggests_words_that_are_in(tokenizer: Any) -> None:
    answer = explain_word("veterinry", Pool.bundled(), tokenizer)
    assert "veterinary" in answer.near
    assert all(word in Pool.bundled() for word in answer.near)
    assert "veterinary" in answer.sentence


@pytest.mark.parametrize("word", ["ice cream", "cat,dog"])
def test_explain_gives_no_advice_that_fails(word: str, tokenizer: Any) -> None:
    assert "--words-given" not in explain_word(word, Pool.bundled(), tokenizer).sentence


def test_explain_a_name_left_out(tokenizer: Any) -> None:
    answer = explain_word("aaron", Pool.bundled().without_names(), tokenizer)
    assert not answer.in_pool
    assert "no names" in answer.sentence


def test_explain_without_the_extra(no_dictionary: None) -> None:
    unknown = explain_word("blockchain", Pool.bundled(), WholeWords())
    assert unknown.unchecked == ("frequency", "synset")
    assert "pip install 'ipl[data]'" in unknown.sentence
    assert json.loads(json.dumps(unknown.as_dict()))["filters"]["synset"]["passed"] is None


def test_explain_needs_a_word(tokenizer: Any) -> None:
    with pytest.raises(DataError, match="empty"):
        explain_word("  ", Pool.bundled(), tokenizer)
