"""Pool: the candidate words that the search chooses from."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path

from ipl.support.errors import ConfigError, DataError, brief
from ipl.support.files import read_text
from ipl.words.lexicon import MIN_LENGTH, Tokenizer, is_alphabetic, is_one_token, zipf

PARTS = ("all", "no-names", "visible")
EQUALLY_FREQUENT = 200  # words that a random word is drawn from


@dataclass(frozen=True)
class Pool:
    """The candidate words that the search chooses from.

    `Pool.bundled()` is the pool of the package; `Pool.from_words` and `Pool.from_file` build one
    from your own words.

    Parameters
    ----------
    words : tuple of str
        The words in lower case, sorted, each once.
    source : str
        Where the words come from, for reports.

    Raises
    ------
    ConfigError
        If the words are not as described.

    Examples
    --------
    >>> pool = Pool.bundled()
    >>> len(pool), "furry" in pool
    (8900, True)
    """

    words: tuple[str, ...] = field(repr=False)
    source: str

    def __post_init__(self) -> None:
        words = self.words if isinstance(self.words, tuple) else ()
        clean = {word.strip().lower() for word in words if isinstance(word, str)} - {""}
        if not words or words != tuple(sorted(clean)):
            raise ConfigError(
                f"Pool.words is {brief(self.words)}; it must be a tuple of words in lower case, "
                "without blanks around them, sorted, each once; see Pool.from_words."
            )

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.words

    @property
    def sha256(self) -> str:
        """The SHA-256 of the words joined by line feeds, as UTF-8, in hex."""
        return hashlib.sha256("\n".join(self.words).encode("utf-8")).hexdigest()

    @staticmethod
    @cache
    def bundled() -> Pool:
        """The pool of the package: 8,900 words for CLIP's tokenizer."""
        return Pool(_read_bundled("pool.txt"), "bundled")

    @classmethod
    def from_words(cls, words: Iterable[str], source: str) -> Pool:
        """A pool of words in lower case, in any order; duplicates are ignored.

        Raises DataError if there are none.
        """
        distinct = tuple(sorted(set(words)))
        if not distinct:
            raise DataError(f"No candidate word is left in the pool ({source}).")
        return cls(distinct, source)

    @classmethod
    def from_file(cls, path: str | Path, tokenizer: Tokenizer) -> tuple[Pool, dict[str, str]]:
        """Reads a pool from a list of words.

        Parameters
        ----------
        path : str or Path
            A text file with one word per line. Blank lines and comments after # are ignored; case
            does not matter.
        tokenizer : Tokenizer
            The tokenizer of the backbone: a candidate must be a single token.

        Returns
        -------
        pool : Pool
            The words that can be candidates.
        dropped : dict
            The words that cannot, each with the reason.

        Raises
        ------
        DataError
            If the file cannot be read, or no word in it can be a candidate.
        """
        path = Path(path)
        listed = read_word_list(path)
        if not listed:
            raise DataError(f"The word list {path} has no words; it needs one word per line.")
        reasons = {word: _why_dropped(word, tokenizer) for word in listed}
        dropped = {word: reason for word, reason in reasons.items() if reason}
        if len(dropped) == len(listed):
            raise DataError(
                f"None of the {len(dropped)} words in {path} can be a candidate; "
                f"the first, {listed[0]!r}, is {dropped[listed[0]]}."
            )
        return cls.from_words(set(listed) - set(dropped), f"the word list {path.name}"), dropped

    def for_tokenizer(self, tokenizer: Tokenizer) -> Pool:
        """The words that are a single token of a tokenizer."""
        return _single_tokens(self, tokenizer)

    def part(self, name: str, class_names: Sequence[str] = ()) -> Pool:
        """A part of the words, one of `PARTS`; visible words are none of the class names."""
        if name == "all":
            return self
        words = set(self.words)
        if name == "no-names":
            words -= proper_names()
        else:
            words &= visible_words()
            words -= {part for each in class_names for part in re.findall(r"\w+", each.lower())}
        return Pool.from_words(words, f"{self.source}, {name}")

    def draw(self, words: Sequence[str], stream: random.Random) -> tuple[str, ...]:
        """Draws a random word about as frequent in English as each given word, none twice."""
        others, drawn = [word for word in self.words if word not in words], list[str]()
        for word in words:
            near = sorted(others, key=lambda other: abs(_frequency(other) - _frequency(word)))
            free = [other for other in near[:EQUALLY_FREQUENT] if other not in drawn]
            if not free:
                raise ConfigError(
                    f"The pool has {len(self):,} words, too few to draw {len(words)} random ones "
                    "beside those that were chosen."
                )
            drawn.append(stream.choice(free))
        return tuple(drawn)


def _frequency(word: str) -> float:
    return zipf(word) or 0.0  # words that no frequency is known of are taken for equally rare


@cache
def proper_names() -> frozenset[str]:
    """The words of the bundled pool that WordNet has only as proper names (344)."""
    return frozenset(_read_bundled("names.txt"))


@cache
def visible_words() -> frozenset[str]:
    """The words of the bundled pool that most often mean what can be seen (1,500)."""
    return frozenset(_read_bundled("visible.txt"))


@lru_cache(maxsize=8)  # every fit of a grid asks for the same words
def _single_tokens(pool: Pool, tokenizer: Tokenizer) -> Pool:
    words = tuple(word for word in pool.words if is_one_token(word, tokenizer))
    if words == pool.words:
        return pool
    return Pool.from_words(words, f"{pool.source}, one token each")


def _read_bundled(file: str) -> tuple[str, ...]:
    return tuple((resources.files("ipl.words") / file).read_text(encoding="utf-8").split())


def read_word_list(path: Path) -> list[str]:
    """The words of a list, one per line; raises DataError if it cannot be read."""
    text = read_text(path)
    lines = (line.split("#", 1)[0].strip().lower() for line in text.splitlines())
    return list(dict.fromkeys(line for line in lines if line))


def _why_dropped(word: str, tokenizer: Tokenizer) -> str:
    """Why a word cannot be a candidate, to follow "it is"; "" if it can be one."""
    if not word.isalpha():
        return "not made of letters only"
    if not is_alphabetic(word):
        return f"shorter than {MIN_LENGTH} letters"
    if not is_one_token(word, tokenizer):
        return "not one token of the backbone's tokenizer"
    return ""
