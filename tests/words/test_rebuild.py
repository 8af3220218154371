"""The frozen pool against the filters, and the rebuild's book-keeping."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ipl.support.errors import DataError
from ipl.words.filters import FilterUnavailable, is_alphabetic, is_frequent, is_one_token
from ipl.words.pool import Pool, proper_names
from ipl.words.rebuild import raw_words_from_nltk, rebuild

Table = Callable[[dict[str, str]], None]


def test_a_rebuild_on_a_sample_gives_the_frozen_pool(
    wordnet_sample: list[tuple[str, str]], tokenizer: Any, synsets: Table
) -> None:
    synsets({word.lower(): known for word, known in wordnet_sample})
    result = rebuild((word for word, _ in wordnet_sample), tokenizer)
    bundled = Pool.bundled()
    expected = sorted({word.lower() for word, _ in wordnet_sample if word.lower() in bundled})
    assert list(result.pool.words) == expected
    assert list(result.names) == [word for word in expected if word in proper_names()]
    # Every filter has something to reject in the sample, and names are in it: no empty victory.
    counts = [count for _, count in result.funnel]
    assert all(before - after >= 10 for before, after in pairwise(counts[1:]))
    assert len(result.names) >= 10


def test_the_whole_frozen_pool_passes_the_filters_that_need_no_wordnet(tokenizer: Any) -> None:
    words = Pool.bundled().words
    assert [word for word in words if not is_alphabetic(word)] == []
    assert [word for word in words if not is_frequent(word)] == []
    assert [word for word in words if not is_one_token(word, tokenizer)] == []


def test_funnel_counts_what_each_filter_leaves(tokenizer: Any, synsets: Table) -> None:
    synsets({"dog": "synset", "paris": "name", "xylem": "synset", "ox": "synset"})
    raw = ["Dog", "dog", "Paris", "ox", "xylem", "selfie", "x-ray"]
    result = rebuild(raw, tokenizer)
    assert result.pool.words == ("dog", "paris")
    assert result.names == ("paris",)
    funnel = dict(result.funnel)
    assert list(funnel) == ["raw", "distinct", "alphabetic", "frequency", "one token", "synset"]
    assert (funnel["raw"], funnel["distinct"]) == (7, 6)
    assert funnel["alphabetic"] == 4  # not ox, not x-ray
    assert funnel["frequency"] == 3  # not xylem
    assert funnel["synset"] == 2 == len(result.pool)
    assert result.without_names().words == ("dog",)
    assert result.difference(Pool(("cat", "dog"), "other")) == (("paris",), ("cat",))
    assert result.as_dict()["sha256"] == result.pool.sha256


def test_progress_counts_raw_words_up_to_the_last(tokenizer: Any, synsets: Table) -> None:
    synsets({"dog": "synset"})
    told: list[int] = []
    rebuild(["dog"] * 2500, tokenizer, progress=told.append)
    assert told == [1000, 2000, 2500]


def test_nothing_left_is_an_error(tokenizer: Any, synsets: Table) -> None:
    synsets({})
    with pytest.raises(DataError, match="None of the 2 raw words"):
        rebuild(["dog", "cat"], tokenizer)


@pytest.mark.usefixtures("nltk_folder")
def test_missing_wordnet_is_said_before_the_first_word(tokenizer: Any) -> None:
    def raw() -> Any:
        pytest.fail("a raw word was read")
        yield "dog"

    with pytest.raises(FilterUnavailable, match="WordNet"):
        rebuild(raw(), tokenizer)


def test_raw_words_are_both_lists_of_the_corpus(nltk_folder: Path) -> None:
    folder = nltk_folder / "corpora" / "words"
    folder.mkdir()
    (folder / "en").write_text("Aaron\ndog\n")
    (folder / "en-basic").write_text("able\ndog\n")
    (folder / "README").write_text("not a word\n")
    assert raw_words_from_nltk() == ["Aaron", "dog", "able", "dog"]


@pytest.mark.usefixtures("nltk_folder")
def test_missing_raw_words_say_how_to_get_them() -> None:
    with pytest.raises(FilterUnavailable, match=r"nltk\.downloader words.*NLTK_DATA"):
        raw_words_from_nltk()


def test_missing_nltk_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nltk.corpus", None)
    with pytest.raises(FilterUnavailable, match=r"ipl\[data\]"):
        raw_words_from_nltk()
