"""The frozen pool against a rebuild."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ipl.support.errors import DataError
from ipl.words import rebuild
from ipl.words.lexicon import MIN_ZIPF, is_alphabetic, is_one_token, zipf
from ipl.words.pool import Pool, proper_names
from ipl.words.rebuild import raw_words_from_nltk, rebuild_pool

Table = Callable[[dict[str, str]], None]


@pytest.fixture
def nltk_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns an empty folder that NLTK takes all its data from, with no corpus loaded yet."""
    import nltk
    from nltk.corpus.reader import WordListCorpusReader, WordNetCorpusReader
    from nltk.corpus.util import LazyCorpusLoader

    folder = tmp_path / "nltk_data"
    (folder / "corpora").mkdir(parents=True)
    monkeypatch.setattr(nltk.data, "path", [str(folder)])
    # NLTK's own loaders turn into the corpus they have once found, whatever the path is now.
    monkeypatch.setattr(
        nltk.corpus, "wordnet", LazyCorpusLoader("wordnet", WordNetCorpusReader, object())
    )
    monkeypatch.setattr(
        nltk.corpus, "words", LazyCorpusLoader("words", WordListCorpusReader, r"(?!README|\.).*")
    )
    return folder


def test_a_rebuild_on_a_sample_gives_the_frozen_pool(
    wordnet_sample: list[tuple[str, str]], tokenizer: Any, synsets: Table
) -> None:
    synsets({word.lower(): known for word, known in wordnet_sample})
    result = rebuild_pool((word for word, _ in wordnet_sample), tokenizer)
    bundled = Pool.bundled()
    expected = sorted({word.lower() for word, _ in wordnet_sample if word.lower() in bundled})
    assert list(result.pool.words) == expected
    assert list(result.names) == [word for word in expected if word in proper_names()]
    # Every filter has something to reject in the sample, and names are in it.
    counts = list(result.funnel.values())
    assert all(before - after >= 10 for before, after in pairwise(counts[1:]))
    assert len(result.names) >= 10


def test_the_frozen_pool_passes_the_filters_that_need_no_wordnet(tokenizer: Any) -> None:
    for word in Pool.bundled().words:
        assert is_alphabetic(word)
        assert (zipf(word) or 0) >= MIN_ZIPF
        assert is_one_token(word, tokenizer)


def test_the_funnel_counts_what_each_filter_leaves(tokenizer: Any, synsets: Table) -> None:
    synsets({"dog": "synset", "paris": "name", "xylem": "synset", "ox": "synset"})
    raw = ["Dog", "dog", "Paris", "ox", "xylem", "selfie", "x-ray"]
    result = rebuild_pool(raw, tokenizer)
    assert (result.pool.words, result.names) == (("dog", "paris"), ("paris",))
    assert result.funnel == {
        "raw": 7,
        "distinct": 6,
        "alphabetic": 4,  # not ox, not x-ray
        "frequency": 3,  # not xylem
        "one token": 3,
        "synset": 2,
    }
    assert result.difference(Pool(("cat", "dog"), "other")) == (["paris"], ["cat"])
    with pytest.raises(DataError, match="None of the 1 raw words"):
        rebuild_pool(["ox"], tokenizer)


@pytest.mark.usefixtures("nltk_folder")
def test_a_missing_wordnet_is_an_error_before_the_first_word(tokenizer: Any) -> None:
    raw = iter(["dog"])
    with pytest.raises(DataError, match=r"nltk\.downloader wordnet"):
        rebuild_pool(raw, tokenizer)
    assert next(raw) == "dog"


def test_missing_packages_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nltk", None)
    monkeypatch.setitem(sys.modules, "wordfreq", None)
    for look_up in (rebuild.synsets, rebuild.wordfreq_zipf):
        with pytest.raises(DataError, match=r"ipl\[data\]"):
            look_up("dog")


def test_raw_words_are_both_lists_of_the_corpus(nltk_folder: Path) -> None:
    with pytest.raises(DataError, match=r"nltk\.downloader words"):
        raw_words_from_nltk()
    folder = nltk_folder / "corpora" / "words"
    folder.mkdir()
    (folder / "en").write_text("Aaron\ndog\n")
    (folder / "en-basic").write_text("able\ndog\n")
    (folder / "README").write_text("not a word\n")
    assert raw_words_from_nltk() == ["Aaron", "dog", "able", "dog"]
