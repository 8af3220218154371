"""The frozen pool against a rebuild."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ipl.support.errors import DataError
from ipl.words import rebuild
from ipl.words.lexicon import MIN_ZIPF, is_alphabetic, is_one_token, zipf
from ipl.words.pool import Pool
from ipl.words.rebuild import raw_words_from_nltk, rebuild_pool

# Raw words as the corpus spells them, each with what WordNet 3.0 knows of it: synset, name or none.
SAMPLE = [
    line.split("\t")
    for line in (Path(__file__).parent / "wordnet_sample.tsv").read_text("utf-8").splitlines()
    if not line.startswith("#")
]


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
    tokenizer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {word.lower() for word, kind in SAMPLE if kind != "none"}
    monkeypatch.setattr(rebuild, "synsets", lambda word: [word] if word in known else [])
    raw = [word for word, _ in SAMPLE]
    pool, funnel = rebuild_pool([*raw, raw[0]], tokenizer)
    distinct, bundled = {word.lower() for word in raw}, Pool.bundled()
    assert list(pool.words) == sorted(word for word in distinct if word in bundled)
    names = ["raw", "distinct", "alphabetic", "frequency", "one token", "synset"]
    assert list(funnel) == names
    counts = list(funnel.values())
    assert counts[:2] == [len(raw) + 1, len(distinct)]
    assert counts[-1] == len(pool)
    # Every filter has something to reject in the sample.
    assert all(before - after >= 10 for before, after in pairwise(counts[1:]))
    with pytest.raises(DataError, match="None of the 1 raw words"):
        rebuild_pool(["ox"], tokenizer)


def test_the_frozen_pool_passes_the_filters_that_need_no_wordnet(tokenizer: Any) -> None:
    for word in Pool.bundled().words:
        assert is_alphabetic(word)
        assert (zipf(word) or 0) >= MIN_ZIPF
        assert is_one_token(word, tokenizer)


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
