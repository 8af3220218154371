"""Building the pool again from a raw word list, with what every filter leaves."""

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
    """A pool made from a raw list, its proper names, and the words left after every stage."""

    pool: Pool
    names: tuple[str, ...]
    funnel: tuple[tuple[str, int], ...]

    def without_names(self) -> Pool:
        """Returns the rebuilt pool without its own proper names."""
        return Pool.from_words(
            set(self.pool.words) - set(self.names), f"{self.pool.source}, no names"
        )

    def difference(self, other: Pool) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Returns the words that only the rebuilt pool has and those that only the other has."""
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
    """Returns the pool that the four filters leave of a raw word list.

    `progress` is told from time to time how many raw words are done, and at the end all of them.
    """
    # The filters do not depend on each other, so the cheapest goes first and WordNet last.
    filters: tuple[tuple[str, Callable[[str], bool]], ...] = (
        ("alphabetic", is_alphabetic),
        ("frequency", is_frequent),
        ("one token", lambda word: is_one_token(word, tokenizer)),
        ("synset", has_synset),
    )
    _fail_early()
    left = dict.fromkeys((name for name, _ in filters), 0)
    seen: set[str] = set()
    kept: list[str] = []
    done = 0
    for done, raw in enumerate(raw_words, start=1):
        if progress is not None and done % PROGRESS_EVERY == 0:
            progress(done)
        word = raw.strip().lower()
        if word in seen:
            continue
        seen.add(word)
        for name, passes in filters:
            if not passes(word):
                break
            left[name] += 1
        else:
            kept.append(word)
    if progress is not None:
        progress(done)
    if not kept:
        raise DataError(f"None of the {done} raw words passes the four filters.")
    pool = Pool.from_words(kept, source)
    return RebuildResult(
        pool=pool,
        names=tuple(word for word in pool.words if is_only_name(word)),
        funnel=(("raw", done), ("distinct", len(seen)), *left.items()),
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
            f"NLTK does not find its word list. {nltk_data_hint('words')}"
        ) from error


def _fail_early() -> None:
    # A missing dictionary should be said at once, not after the first words that reach it.
    is_frequent("word")
    has_synset("word")
