"""Why a word is in the pool or not."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any

from ipl.support.errors import DataError
from ipl.words.filters import (
    MIN_LENGTH,
    MIN_ZIPF,
    FilterUnavailable,
    Tokenizer,
    is_alphabetic,
    is_one_token,
)
from ipl.words.pool import Pool, proper_names
from ipl.words.senses import Sense, find_sense, sense_of
from ipl.words.zipf import zipf_of


@dataclass(frozen=True)
class FilterCheck:
    """The result of one filter for a word; `passed` is None if the filter is not available."""

    filter: str
    passed: bool | None
    reason: str  # follows "it" in a sentence, or says how to make the filter available


@dataclass(frozen=True)
class WordExplanation:
    """Whether a word is in a pool, the result of each filter, and similar words of the pool."""

    word: str
    in_pool: bool
    source: str
    only_name: bool
    pool_has_names: bool
    checks: tuple[FilterCheck, ...]
    meaning: Sense | None
    near: tuple[str, ...]

    @property
    def rejected_by(self) -> tuple[str, ...]:
        """Returns the names of the filters that reject the word."""
        return tuple(check.filter for check in self.checks if check.passed is False)

    @property
    def unchecked(self) -> tuple[str, ...]:
        """Returns the names of the filters that are not available."""
        return tuple(check.filter for check in self.checks if check.passed is None)

    @property
    def sentence(self) -> str:
        """Returns the explanation as a few plain sentences."""
        pool = "the pool" if self.source == Pool.bundled().source else f"the pool ({self.source})"
        if self.in_pool:
            name = "; it is only a proper name" if self.only_name else ""
            why = _joined([check.reason for check in self.checks if check.passed])
            first = f"{self.word!r} is in {pool}: it {why}{name}."
            return first if self.meaning is None else f"{first} Most often: {self.meaning}."
        parts = [f"{self.word!r} is not in {pool}: {self._why_out()}."]
        if not self.rejected_by:  # otherwise what is not checked changes nothing
            parts += [
                f"Not checked: {check.filter}. {check.reason}"
                for check in self.checks
                if check.passed is None
            ]
        if self.near:
            parts.append(f"Similar words in the pool: {', '.join(self.near)}.")
        if not re.search(r"[\s,]", self.word):  # which would be several words
            parts.append(f"You can still give it to a prompt yourself: --words-given {self.word}.")
        return " ".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """Returns the explanation as plain values for JSON."""
        return {
            "word": self.word,
            "in_pool": self.in_pool,
            "source": self.source,
            "only_name": self.only_name,
            "filters": {
                check.filter: {"passed": check.passed, "reason": check.reason}
                for check in self.checks
            },
            "rejected_by": list(self.rejected_by),
            "unchecked": list(self.unchecked),
            "meaning": None if self.meaning is None else asdict(self.meaning),
            "near": list(self.near),
            "sentence": self.sentence,
        }

    def _why_out(self) -> str:
        failed = [check.reason for check in self.checks if check.passed is False]
        if failed:
            return f"it {_joined(failed)}"
        if self.only_name and not self.pool_has_names:
            return "it is only a proper name, and this pool contains no names"
        if self.unchecked:
            return "no filter that could be checked rejects it"
        return "it passes all four filters, but was not in the list that this pool was built from"


def explain_word(word: str, pool: Pool, tokenizer: Tokenizer) -> WordExplanation:
    """Explains why a word is in a pool or not.

    Parameters
    ----------
    word : str
        The word, in any case.
    pool : Pool
        The pool.
    tokenizer : Tokenizer
        The tokenizer of the backbone.

    Returns
    -------
    WordExplanation
        The result of each filter, and similar words of the pool.

    Raises
    ------
    DataError
        If the word is empty.
    """
    word = word.strip().lower()
    if not word:
        raise DataError("The word to look up is empty.")
    in_pool = word in pool
    names = proper_names()
    return WordExplanation(
        word=word,
        in_pool=in_pool,
        source=pool.source,
        only_name=word in names,
        pool_has_names=any(name in pool for name in names),
        checks=_checks(word, tokenizer),
        meaning=sense if in_pool and (sense := sense_of(word)).part else None,
        near=() if in_pool else tuple(get_close_matches(word, pool.words, n=3, cutoff=0.7)),
    )


def _checks(word: str, tokenizer: Tokenizer) -> tuple[FilterCheck, ...]:
    checks = [
        FilterCheck("alphabetic", *_alphabetic(word)),
        FilterCheck("one token", *_one_token(word, tokenizer)),
    ]
    # A word that is not in the package needs a dictionary, and WordNet takes seconds to load: each
    # is asked only if no filter before it rejects the word.
    for name, ask in (("frequency", _frequency), ("synset", _synset)):
        rejected = any(check.passed is False for check in checks)
        checks.append(
            FilterCheck(name, None, "It was not checked, because another filter rejects the word.")
            if rejected
            else _dictionary_check(name, ask, word)
        )
    return tuple(checks)


def _dictionary_check(
    name: str, check: Callable[[str], tuple[bool, str]], word: str
) -> FilterCheck:
    """Returns the result of a filter that needs a dictionary, which may not be installed."""
    try:
        return FilterCheck(name, *check(word))
    except FilterUnavailable as error:
        return FilterCheck(name, None, str(error))


def _alphabetic(word: str) -> tuple[bool, str]:
    if is_alphabetic(word):
        return True, f"has at least {MIN_LENGTH} letters and nothing else"
    if word.isalpha():
        return False, f"has fewer than {MIN_LENGTH} letters"
    return False, "is not made of letters only"


def _synset(word: str) -> tuple[bool, str]:
    passed = find_sense(word).part is not None
    return passed, f"has {'a' if passed else 'no'} meaning in the dictionary WordNet"


def _frequency(word: str) -> tuple[bool, str]:
    value = zipf_of(word)
    if value >= MIN_ZIPF:
        return True, f"is frequent enough in English ({_in_a_million(value)} in a million words)"
    return False, (
        f"is too rare in English ({_in_a_million(value)} in a million words; the pool starts at "
        f"{_in_a_million(MIN_ZIPF)})"
    )


def _in_a_million(value: float) -> str:
    """Returns how many words of a million are this one, given its Zipf frequency."""
    count = 10 ** (value - 3)
    return f"{count:,.0f}" if count >= 10 else f"{count:.1f}"


def _one_token(word: str, tokenizer: Tokenizer) -> tuple[bool, str]:
    if is_one_token(word, tokenizer):
        return True, "is read by the backbone in one piece (one token)"
    return False, "is read by the backbone in several pieces (not one token)"


def _joined(reasons: list[str]) -> str:
    """Returns "a", "a and b" or "a; b; and c", because reasons contain commas."""
    if len(reasons) < 3:
        return " and ".join(reasons)
    return "; ".join(reasons[:-1]) + f"; and {reasons[-1]}"
