"""The four filters, each alone, and what is said when a dictionary is missing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from ipl.words.filters import (
    FilterUnavailable,
    has_synset,
    is_alphabetic,
    is_frequent,
    is_one_token,
    is_only_name,
)


@pytest.mark.parametrize("word", ["dog", "zoom", "naïve"])
def test_letters_pass(word: str) -> None:
    assert is_alphabetic(word)


@pytest.mark.parametrize("word", ["", "ox", "x-ray", "dog1", "hot dog", "don't", "123", " dog"])
def test_anything_else_does_not(word: str) -> None:
    assert not is_alphabetic(word)


def test_frequency_splits_where_wordfreq_puts_the_line() -> None:
    from wordfreq import zipf_frequency

    words = ["dog", "furry", "veterinary", "xylem", "touchdown", "qwrtzp", "abaft", "zoning"]
    expected = {word for word in words if zipf_frequency(word, "en") >= 3.5}
    assert {word for word in words if is_frequent(word)} == expected
    assert expected not in (set(), set(words))  # both sides are in the sample


def test_one_token_is_a_whole_entry_of_the_vocabulary(tokenizer: Any) -> None:
    vocabulary = tokenizer.get_vocab()
    words = ["dog", "dogs", "photograph", "xylem", "veterinary", "qwrtzp", "naïve", "waterfall"]
    expected = {word for word in words if word + "</w>" in vocabulary}
    assert {word for word in words if is_one_token(word, tokenizer)} == expected
    assert expected not in (set(), set(words))


def test_special_and_unknown_tokens_are_not_words(tokenizer: Any) -> None:
    class Unknown:
        all_special_ids = (7,)

        def encode(self, text: str, **_: object) -> list[int]:
            return [7] if text == "strange" else [1]

    assert not is_one_token("strange", Unknown())  # type: ignore[arg-type]
    assert is_one_token("dog", Unknown())  # type: ignore[arg-type]
    assert not is_one_token("<|endoftext|>", tokenizer)
    assert not is_one_token("", tokenizer)


@pytest.mark.usefixtures("mini_wordnet")
def test_synsets_count_inflections() -> None:
    assert has_synset("dog")
    assert has_synset("dogs")
    assert has_synset("ran")
    assert not has_synset("selfie")


@pytest.mark.usefixtures("mini_wordnet")
def test_only_name_means_every_synset_is_an_individual() -> None:
    assert is_only_name("paris")
    assert not is_only_name("jersey")  # an island and a shirt
    assert not is_only_name("dog")
    assert not is_only_name("selfie")  # no synset at all


@pytest.mark.usefixtures("nltk_folder")
def test_missing_wordnet_says_how_to_get_it() -> None:
    with pytest.raises(FilterUnavailable, match=r"nltk\.downloader wordnet.*NLTK_DATA"):
        has_synset("dog")


def test_incomplete_wordnet_is_no_traceback(mini_wordnet: Path) -> None:
    (mini_wordnet / "lexnames").unlink()
    with pytest.raises(FilterUnavailable, match="cannot read WordNet"):
        has_synset("dog")


@pytest.mark.parametrize(
    ("module", "ask"), [("nltk.corpus", has_synset), ("wordfreq", is_frequent)]
)
def test_missing_package_names_the_extra(
    module: str, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(FilterUnavailable, match=r"ipl\[data\]"):
        ask("dog")
