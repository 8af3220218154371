"""What is known about words, and why a word is in the pool."""

from __future__ import annotations

from typing import Any

import pytest

from ipl.support.errors import DataError
from ipl.words import lexicon
from ipl.words.explain_word import explain_word
from ipl.words.lexicon import NO_SENSE, Sense, is_alphabetic, is_one_token, sense_of, zipf
from ipl.words.pool import Pool


@pytest.mark.parametrize("word", ["", "ox", "x-ray", "dog1", "hot dog", "don't", "123", " dog"])
def test_only_letters_are_alphabetic(word: str) -> None:
    assert not is_alphabetic(word)
    assert is_alphabetic("naïve")


def test_one_token_is_a_whole_entry_of_the_vocabulary(tokenizer: Any) -> None:
    vocabulary = tokenizer.get_vocab()
    words = ["dog", "dogs", "photograph", "xylem", "veterinary", "qwrtzp", "naïve", "waterfall"]
    expected = {word for word in words if word + "</w>" in vocabulary}
    assert {word for word in words if is_one_token(word, tokenizer)} == expected
    assert not is_one_token("<|endoftext|>", tokenizer)
    assert not is_one_token("", tokenizer)


def test_every_word_of_one_token_is_in_both_files(tokenizer: Any) -> None:
    vocabulary = tokenizer.get_vocab().values()
    decoded = {tokenizer.decode([token]).strip() for token in vocabulary}
    words = {word for word in decoded if is_alphabetic(word) and is_one_token(word, tokenizer)}
    assert set(lexicon._frequencies()) == set(lexicon._senses()) == words


def test_every_word_of_the_pool_has_a_sense() -> None:
    senses = [sense_of(word) for word in Pool.bundled().words]
    assert {sense.part for sense in senses} == {"noun", "verb", "adjective", "adverb"}
    assert all(sense.definition.strip() == sense.definition != "" for sense in senses)
    assert sense_of("furry") == Sense("adjective", "covered with a dense coat of fine silky hairs")
    assert sense_of("selfie") == NO_SENSE
    assert sense_of("xqx").part is None
    assert zipf("xqx") is None


# -- why a word is in the pool ---------------------------------------------------------------------


def test_explain_a_word_of_the_pool(tokenizer: Any) -> None:
    dog = explain_word(" DOG ", Pool.bundled(), tokenizer)
    assert (dog.word, dog.in_pool, dog.rejected_by, dog.near) == ("dog", True, None, ())
    assert "only a proper name" in explain_word("Aaron", Pool.bundled(), tokenizer).sentence


@pytest.mark.parametrize(
    ("word", "rejected"),
    [
        ("xylem", "one token"),
        ("ox", "alphabetic"),
        ("crocodile", "frequency"),
        ("selfie", "synset"),
        ("online", None),
    ],
)
def test_explain_names_the_filter_that_rejects(
    word: str, rejected: str | None, tokenizer: Any
) -> None:
    explanation = explain_word(word, Pool.bundled(), tokenizer)
    assert not explanation.in_pool
    assert explanation.rejected_by == rejected


def test_explain_gives_advice_that_works(tokenizer: Any) -> None:
    misspelt = explain_word("veterinry", Pool.bundled(), tokenizer)
    assert "veterinary" in misspelt.near
    for word in ("ice cream", "cat,dog"):
        assert "--words-given" not in explain_word(word, Pool.bundled(), tokenizer).sentence
    visible = Pool.bundled().part("visible")
    assert "is in the bundled pool" in explain_word("aaron", visible, tokenizer).sentence
    with pytest.raises(DataError, match="empty"):
        explain_word("  ", Pool.bundled(), tokenizer)
