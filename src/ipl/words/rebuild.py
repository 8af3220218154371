"""Builds the pool of words anew from NLTK's word list, WordNet and wordfreq."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ipl.support.errors import DataError
from ipl.words.lexicon import MIN_ZIPF, Tokenizer, is_alphabetic, is_one_token
from ipl.words.pool import Pool

ADVANCE_EVERY = 1000  # raw words
INSTALL = "pip install 'ipl[data]'"


def rebuild_pool(
    raw_words: Iterable[str], tokenizer: Tokenizer, advance: Callable[[int], None] | None = None
) -> tuple[Pool, dict[str, int]]:
    """The pool of raw words in any case and order, and how many are left after every filter.

    `advance` gets the number of words processed.
    """
    # The filters do not depend on each other, so the cheapest comes first and WordNet last.
    filters: dict[str, Callable[[str], bool]] = {
        "alphabetic": is_alphabetic,
        "frequency": lambda word: wordfreq_zipf(word) >= MIN_ZIPF,
        "one token": lambda word: is_one_token(word, tokenizer),
        "synset": lambda word: bool(synsets(word)),
    }
    wordfreq_zipf("word"), synsets("word")  # if one is missing, say so at once
    funnel = dict.fromkeys(("raw", "distinct", *filters), 0)
    distinct: set[str] = set()
    candidates = []
    for raw in raw_words:
        funnel["raw"] += 1
        if advance is not None and funnel["raw"] % ADVANCE_EVERY == 0:
            advance(ADVANCE_EVERY)
        word = raw.strip().lower()
        if word in distinct:
            continue
        distinct.add(word)
        for name, passes in filters.items():
            if not passes(word):
                break
            funnel[name] += 1
        else:
            candidates.append(word)
    funnel["distinct"] = len(distinct)
    if not candidates:
        raise DataError(f"None of the {funnel['raw']} raw words passes the four filters.")
    return Pool.from_words(candidates, "rebuilt"), funnel


# -- the dictionaries -----------------------------------------------------------------------------


def raw_words_from_nltk() -> list[str]:
    """The entries of the NLTK corpus `words`."""
    corpus = _nltk_corpus("words")
    return [str(word) for word in corpus.words(["en", "en-basic"])]


def wordfreq_zipf(word: str) -> float:
    try:
        from wordfreq import zipf_frequency
    except ImportError as error:
        raise DataError(f"Word frequencies need the package wordfreq: {INSTALL}.") from error
    return float(zipf_frequency(word, "en"))


def synsets(word: str) -> list[Any]:
    """The meanings of a word or of its base form, in WordNet's order."""
    return list(_nltk_corpus("wordnet").synsets(word))


def _nltk_corpus(name: str) -> Any:
    try:
        from nltk import corpus
    except ImportError as error:
        raise DataError(f"The corpus {name} needs the package nltk: {INSTALL}.") from error
    found = getattr(corpus, name)
    try:
        found.ensure_loaded()
    except (LookupError, OSError, ValueError, AssertionError) as error:
        raise DataError(
            f"NLTK cannot read its corpus {name}. Install it with "
            f"`python -m nltk.downloader {name}`, or set NLTK_DATA to a folder that contains "
            f"corpora/{name}."
        ) from error
    return found
