"""Why a word is in the pool or not."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from ipl.support.errors import DataError
from ipl.words.explain_word import explain_word
from ipl.words.pool import Pool

Table = Callable[[dict[str, str]], None]


def test_explain_a_word_that_is_in(tokenizer: Any, synsets: Table) -> None:
    synsets({"dog": "synset", "aaron": "name"})
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
def test_explain_names_the_filters_that_reject_and_asks_no_dictionary_after_that(
    word: str,
    rejected: tuple[str, ...],
    unchecked: tuple[str, ...],
    tokenizer: Any,
    synsets: Table,
) -> None:
    synsets({"xylem": "synset", "ox": "synset", "online": "synset"})
    answer = explain_word(word, Pool.bundled(), tokenizer)
    assert not answer.in_pool
    assert answer.rejected_by == rejected
    assert answer.unchecked == unchecked
    assert ("passes all four filters" in answer.sentence) == (rejected == ())


def test_explain_suggests_words_that_are_in(tokenizer: Any, synsets: Table) -> None:
    synsets({})
    answer = explain_word("veterinry", Pool.bundled(), tokenizer)
    assert "veterinary" in answer.near
    assert all(word in Pool.bundled() for word in answer.near)
    assert "veterinary" in answer.sentence


def test_explain_a_name_left_out(tokenizer: Any, synsets: Table) -> None:
    synsets({"aaron": "name"})
    answer = explain_word("aaron", Pool.bundled().without_names(), tokenizer)
    assert not answer.in_pool
    assert "no names" in answer.sentence


def test_explain_without_the_extra(tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nltk.corpus", None)
    monkeypatch.setitem(sys.modules, "wordfreq", None)
    known = explain_word("dog", Pool.bundled(), tokenizer)
    assert known.unchecked == ()
    unknown = explain_word("selfie", Pool.bundled(), tokenizer)
    assert unknown.unchecked == ("frequency", "synset")
    assert "pip install 'ipl[lexicon]'" in unknown.sentence
    assert json.loads(json.dumps(unknown.as_dict()))["filters"]["synset"]["passed"] is None


def test_explain_needs_a_word(tokenizer: Any) -> None:
    with pytest.raises(DataError, match="empty"):
        explain_word("  ", Pool.bundled(), tokenizer)
