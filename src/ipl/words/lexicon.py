"""What is known about English words: their frequency and their meaning.

The package knows all words that are one token of CLIP's tokenizer; docs/words.md says where from.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Protocol

MIN_LENGTH = 3
MIN_ZIPF = 3.5  # a word of the pool is at least this frequent
FREQUENCIES = "zipf.tsv"  # word, frequency
# Word, part of speech, other senses, definition, inflection if it has one; or the word alone.
SENSES = "senses.tsv"


class Tokenizer(Protocol):
    """The part of a `transformers` tokenizer that is used here."""

    @property
    def all_special_ids(self) -> list[int]: ...

    def encode(self, text: str, *, add_special_tokens: bool, verbose: bool) -> list[int]: ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class Sense:
    """The most frequent meaning of a word; `part` is None if no meaning is known."""

    part: str | None  # of speech
    definition: str  # or the reason why there is none
    others: int = 0  # further meanings in WordNet
    form: str = ""  # "past of steal", for a word that is mostly an inflected form

    def __str__(self) -> str:
        if self.part is None:
            return self.definition
        return f"{self.form}; ({self.part}) {self.definition}".removeprefix("; ")


NO_SENSE = Sense(None, "WordNet has no meaning for it.")
UNKNOWN_SENSE = Sense(None, "It is a word of your own, which ipl's dictionary does not have.")


def is_alphabetic(word: str) -> bool:
    return len(word) >= MIN_LENGTH and word.isalpha()


def is_one_token(word: str, tokenizer: Tokenizer) -> bool:
    ids = tokenizer.encode(word, add_special_tokens=False, verbose=False)
    # A tokenizer may return a single "unknown" token for a word that it cannot spell.
    return len(ids) == 1 and ids[0] not in tokenizer.all_special_ids


def zipf(word: str) -> float | None:
    """The Zipf frequency in English (3 is once per million words); None if it is not known."""
    return _frequencies().get(word)


def sense_of(word: str) -> Sense:
    """The most frequent sense of a word, or why there is none."""
    row = _senses().get(word)
    if row is None:
        return UNKNOWN_SENSE
    if not row:
        return NO_SENSE
    part, others, definition, *form = row.split("\t")
    return Sense(part, definition, int(others), *form)


@cache
def _frequencies() -> dict[str, float]:
    rows = (line.split("\t") for line in _lines(FREQUENCIES) if not line.startswith("#"))
    return {word: float(value) for word, value in rows}


@cache
def _senses() -> dict[str, str]:
    """The rest of each word's line; "" if it has no meaning."""
    rows = (line.partition("\t") for line in _lines(SENSES))
    return {word: rest for word, _, rest in rows}


def _lines(file: str) -> list[str]:
    return (resources.files("ipl.words") / file).read_text(encoding="utf-8").splitlines()
