"""The four filters that a word passes to become a candidate, each a function from word to bool.

Words are given in lower case. The two filters that read a dictionary import it only when called, so
that the frozen pool works without the extra `ipl[lexicon]`.
"""

from __future__ import annotations

from typing import Any, Protocol

from ipl.support.errors import DataError

MIN_LENGTH = 3
MIN_ZIPF = 3.5
INSTALL = "pip install nltk wordfreq (the extra ipl[lexicon])"


class FilterUnavailable(DataError):
    """A filter that cannot be asked here: its package or its data is not installed."""


class Tokenizer(Protocol):
    """What the lexicon needs of a backbone's tokenizer; those of `transformers` all have it."""

    @property
    def all_special_ids(self) -> list[int]: ...

    def encode(self, text: str, *, add_special_tokens: bool, verbose: bool) -> list[int]: ...


def is_alphabetic(word: str) -> bool:
    """Returns whether the word is at least three characters long and nothing but letters."""
    return len(word) >= MIN_LENGTH and word.isalpha()


def is_frequent(word: str) -> bool:
    """Returns whether the word's Zipf frequency in English is at least 3.5."""
    return zipf(word) >= MIN_ZIPF


def is_one_token(word: str, tokenizer: Tokenizer) -> bool:
    """Returns whether the tokenizer turns the word into exactly one token of its own."""
    ids = tokenizer.encode(word, add_special_tokens=False, verbose=False)
    # A tokenizer may answer one "unknown" token for a word it cannot spell: that is no word of its.
    return len(ids) == 1 and ids[0] not in tokenizer.all_special_ids


def has_synset(word: str) -> bool:
    """Returns whether WordNet has a meaning for the word or for the word it is inflected from."""
    return bool(_synsets(word))


def is_only_name(word: str) -> bool:
    """Returns whether every meaning of the word in WordNet is one individual person, place or work.

    This is not one of the four filters: names stay in the pool unless they are asked out of it.
    """
    synsets = _synsets(word)
    return bool(synsets) and all(synset.instance_hypernyms() for synset in synsets)


def zipf(word: str) -> float:
    """Returns the word's Zipf frequency in English: 3 is once per million words, 6 per thousand."""
    try:
        from wordfreq import zipf_frequency
    except ImportError as error:
        raise FilterUnavailable(
            f"Word frequencies need the package wordfreq: {INSTALL}."
        ) from error
    return float(zipf_frequency(word, "en"))


def nltk_data_hint(corpus: str) -> str:
    """Returns a sentence on how to get an NLTK corpus."""
    return (
        f"Get it with `python -m nltk.downloader {corpus}`, or set NLTK_DATA to a folder that "
        f"holds corpora/{corpus}."
    )


def look_up(word: str) -> list[Any]:
    """Returns WordNet's synsets of the word, the most frequent first; [] if it has none."""
    return _synsets(word)


def _synsets(word: str) -> list[Any]:
    return list(_wordnet().synsets(word))


def _wordnet() -> Any:
    try:
        from nltk.corpus import wordnet
    except ImportError as error:
        raise FilterUnavailable(f"WordNet needs the package nltk: {INSTALL}.") from error
    try:
        wordnet.ensure_loaded()
    except LookupError as error:
        raise FilterUnavailable(
            f"NLTK does not find WordNet. {nltk_data_hint('wordnet')}"
        ) from error
    except (OSError, ValueError, AssertionError) as error:
        raise FilterUnavailable(
            f"NLTK finds WordNet but cannot read it ({error}). {nltk_data_hint('wordnet')}"
        ) from error
    return wordnet
