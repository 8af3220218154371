"""Rebuilding the pool from a raw list of words, and counting what every filter leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ipl.support.errors import DataError
from ipl.words.filters import (
    INSTALL,
    FilterUnavailable,
    Tokenizer,
    has_synset,
    is_alphabetic,
    is_frequent,
    is_one_token,
    is_only_name,
    nltk_data_hint,
)
from ipl.words.pool import Pool

PROGRESS_EVERY = 1000


@dataclass(frozen=True)
class RebuildResult:
    """A rebuilt pool, its proper names, and the number of words left after every filter."""

    pool: Pool
    names: tuple[str, ...]
    funnel: tuple[tuple[str, int], ...]

    def without_names(self) -> Pool:
        """Returns the rebuilt pool without its proper names."""
        return Pool.from_words(
            set(self.pool.words) - set(self.names), f"{self.pool.source}, no names"
        )

    def difference(self, other: Pool) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Returns the words that only the rebuilt pool has, and those that only the other has."""
        ours, theirs = set(self.pool.words), set(other.words)
        return tuple(sorted(ours - theirs)), tuple(sorted(theirs - ours))

    def as_dict(self) -> dict[str, Any]:
        """Returns counts and hash as plain values for JSON."""
        return {
            "words": len(self.pool),
            "sha256": self.pool.sha256,
            "source": self.pool.source,
            "names": len(self.names),
            "funnel": dict(self.funnel),
        }


def rebuild(
    raw_words: Iterable[str],
    tokenizer: Tokenizer,
    progress: Callable[[int], None] | None = None,
    source: str = "rebuilt",
) -> RebuildResult:
    """Builds a pool from a raw list of words with the four filters.

    Parameters
    ----------
    raw_words : iterable of str
        The words, in any case and order.
    tokenizer : Tokenizer
        The tokenizer of the backbone.
    progress : callable, optional
        Called from time to time, and at the end, with the number of raw words processed so far.
    source : str, default "rebuilt"
        Where the words come from, for reports.

    Returns
    -------
    RebuildResult
        The pool and the number of words left after every filter.

    Raises
    ------
    FilterUnavailable
        If a dictionary is not installed.
    DataError
        If no word passes all filters.
    """
    # The filters do not depend on each other, so the cheapest comes first and WordNet last.
    filters: tuple[tuple[str, Callable[[str], bool]], ...] = (
        ("alphabetic", is_alphabetic),
        ("frequency", is_frequent),
        ("one token", lambda word: is_one_token(word, tokenizer)),
        ("synset", has_synset),
    )
    _check_dictionaries()
    left = dict.fromkeys((name for name, _ in filters), 0)
    distinct: set[str] = set()
    candidates: list[str] = []
    done = 0
    for done, raw in enumerate(raw_words, start=1):
        if progress is not None and done % PROGRESS_EVERY == 0:
            progress(done)
        word = raw.strip().lower()
        if word in distinct:
            continue
        distinct.add(word)
        for name, passes in filters:
            if not passes(word):
                break
            left[name] += 1
        else:
            candidates.append(word)
    if progress is not None:
        progress(done)
    if not candidates:
        raise DataError(f"None of the {done} raw words passes the four filters.")
    pool = Pool.from_words(candidates, source)
    return RebuildResult(
        pool=pool,
        names=tuple(word for word in pool.words if is_only_name(word)),
        funnel=(("raw", done), ("distinct", len(distinct)), *left.items()),
    )


def raw_words_from_nltk() -> list[str]:
    """Returns the raw entries of the NLTK corpus `words`: its lists en and en-basic."""
    try:
        from nltk.corpus import words
    except ImportError as error:
        raise FilterUnavailable(f"The raw word list needs the package nltk: {INSTALL}.") from error
    try:
        return [str(word) for word in words.words(["en", "en-basic"])]
    except (LookupError, OSError) as error:
        raise FilterUnavailable(
            f"NLTK cannot find its word list. {nltk_data_hint('words')}"
        ) from error


def _check_dictionaries() -> None:
    """Raises FilterUnavailable at once, not only when the first word reaches the dictionary."""
    is_frequent("word")
    has_synset("word")
