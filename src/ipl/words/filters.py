"""The four filters of the pool: a word becomes a candidate if it passes all of them.

Each is a function from a word in lower case to bool. The two that need a dictionary import it only
when they are called, so that the bundled pool works without the extra `ipl[data]`.
"""

from __future__ import annotations

from typing import Any, Protocol

from ipl.support.errors import DataError

MIN_LENGTH = 3
MIN_ZIPF = 3.5
INSTALL = "pip install 'ipl[data]'"


class FilterUnavailable(DataError):
    """A filter whose package or data is not installed."""


class Tokenizer(Protocol):
    """The part of a `transformers` tokenizer that the filters use."""

    @property
    def all_special_ids(self) -> list[int]: ...

    def encode(self, text: str, *, add_special_tokens: bool, verbose: bool) -> list[int]: ...

    def __hash__(self) -> int: ...


def is_alphabetic(word: str) -> bool:
    """Returns whether the word has at least three characters, all of them letters."""
    return len(word) >= MIN_LENGTH and word.isalpha()


def is_frequent(word: str) -> bool:
    """Returns whether the word's Zipf frequency in English is at least 3.5."""
    return zipf(word) >= MIN_ZIPF


def is_one_token(word: str, tokenizer: Tokenizer) -> bool:
    """Returns whether the word is a single token of the tokenizer."""
    ids = tokenizer.encode(word, add_special_tokens=False, verbose=False)
    # A tokenizer may return a single "unknown" token for a word that it cannot spell.
    return len(ids) == 1 and ids[0] not in tokenizer.all_special_ids


def has_synset(word: str) -> bool:
    """Returns whether WordNet has a meaning for the word or for its base form."""
    return bool(synsets_of(word))


def is_only_name(word: str) -> bool:
    """Returns whether every meaning of the word in WordNet is an individual person, place or work.

    This is not one of the four filters: names are in the pool unless it is built without them.
    """
    synsets = synsets_of(word)
    return bool(synsets) and all(synset.instance_hypernyms() for synset in synsets)


def zipf(word: str) -> float:
    """Returns the word's Zipf frequency in English: 3 is once per million words."""
    try:
        from wordfreq import zipf_frequency
    except ImportError as error:
        raise FilterUnavailable(
            f"Word frequencies need the package wordfreq: {INSTALL}."
        ) from error
    return float(zipf_frequency(word, "en"))


def nltk_data_hint(corpus: str) -> str:
    """Returns a sentence that says how to install an NLTK corpus."""
    return (
        f"Install it with `python -m nltk.downloader {corpus}`, or set NLTK_DATA to a folder that "
        f"contains corpora/{corpus}."
    )


def synsets_of(word: str) -> list[Any]:
    """Returns the word's synsets in the order of WordNet; [] if it has none."""
    return list(_wordnet().synsets(word))


def _wordnet() -> Any:
    try:
        from nltk.corpus import wordnet
    except ImportError as error:
        raise FilterUnavailable(f"WordNet needs the package nltk: {INSTALL}.") from error
    try:
        wordnet.ensure_loaded()
    except LookupError as error:
        raise FilterUnavailable(f"NLTK cannot find WordNet. {nltk_data_hint('wordnet')}") from error
    except (OSError, ValueError, AssertionError) as error:
        raise FilterUnavailable(
            f"NLTK cannot read WordNet ({error}). {nltk_data_hint('wordnet')}"
        ) from error
    return wordnet
