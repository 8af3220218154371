"""Pool: the candidate words that the search chooses from."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import resources
from itertools import pairwise
from pathlib import Path

from ipl.support.errors import ConfigError, DataError
from ipl.support.files import write_text
from ipl.words.filters import MIN_LENGTH, Tokenizer, is_alphabetic, is_one_token

# SHA-256 of the words in sorted order, joined by "\n" (none at the end), as UTF-8.
POOL_SHA256 = "e6e7eca82d7524785183747045879ac2ef9e9c969b625ffef77a1bdbb8c22638"
NAMES_SHA256 = "3f50b448da931ae0aad42bffdd2bdf0d31fb17dcd2119fb94ae6c4682708aa6b"


@dataclass(frozen=True)
class Dropped:
    """A word of a user's list that cannot be a candidate, and the reason."""

    word: str
    reason: str


@dataclass(frozen=True)
class Pool:
    """The candidate words that the search chooses from.

    `Pool.bundled()` returns the pool of the package; `Pool.from_words` and `Pool.from_file` build
    one from your own words.

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
        if not isinstance(self.words, tuple) or not self.words:
            raise ConfigError("Pool.words is empty or not a tuple; it must be a tuple of words.")
        for word in self.words:
            if not isinstance(word, str) or not word or word != word.strip().lower():
                raise ConfigError(
                    f"Pool.words contains {word!r}; each must be a word in lower case, without "
                    "blanks around it."
                )
        for before, after in pairwise(self.words):
            if before >= after:
                raise ConfigError(
                    f"Pool.words has {before!r} before {after!r}; words must be sorted and unique."
                )
        if not self.source:
            raise ConfigError("Pool.source is ''; it must say where the words come from.")

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        if not isinstance(word, str):
            return False
        index = bisect_left(self.words, word)
        return index < len(self.words) and self.words[index] == word

    @property
    def sha256(self) -> str:
        """Returns the SHA-256 of the words joined by line feeds, as UTF-8, in hex."""
        return _sha256(self.words)

    @staticmethod
    def bundled() -> Pool:
        """Returns the pool of the package: 8,900 words for CLIP's tokenizer.

        Returns
        -------
        Pool
            The pool; every call returns the same object.

        Raises
        ------
        DataError
            If the file of the package is damaged.
        """
        return _bundled()

    @classmethod
    def from_words(cls, words: Iterable[str], source: str) -> Pool:
        """Returns a pool of words in any order.

        Parameters
        ----------
        words : iterable of str
            The words in lower case; duplicates are ignored.
        source : str
            Where the words come from, for reports.

        Returns
        -------
        Pool
            The pool.

        Raises
        ------
        DataError
            If there are no words.
        """
        distinct = tuple(sorted(set(words)))
        if not distinct:
            raise DataError(f"No candidate word is left in the pool ({source}).")
        return cls(distinct, source)

    @classmethod
    def from_file(cls, path: str | Path, tokenizer: Tokenizer) -> tuple[Pool, tuple[Dropped, ...]]:
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
        dropped : tuple of Dropped
            The words that cannot, with the reasons.

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
        dropped = tuple(Dropped(word, reason) for word, reason in reasons.items() if reason)
        candidates = [word for word, reason in reasons.items() if not reason]
        if not candidates:
            first = dropped[0]
            raise DataError(
                f"None of the {len(dropped)} words in {path} can be a candidate; "
                f"the first, {first.word!r}, is {first.reason}."
            )
        return cls.from_words(candidates, f"the word list {path.name}"), dropped

    def for_tokenizer(self, tokenizer: Tokenizer) -> Pool:
        """Returns the words that are a single token of a tokenizer.

        Parameters
        ----------
        tokenizer : Tokenizer
            The tokenizer of a backbone.

        Returns
        -------
        Pool
            A new pool, or this one if all its words are single tokens.

        Raises
        ------
        DataError
            If no word is left.
        """
        return _single_tokens(self, tokenizer)

    def without_names(self) -> Pool:
        """Returns a copy without words that are only proper names.

        Returns
        -------
        Pool
            The copy.
        """
        return Pool.from_words(set(self.words) - proper_names(), f"{self.source}, no names")

    def save(self, path: str | Path) -> None:
        """Writes the words to a file that `from_file` reads.

        Parameters
        ----------
        path : str or Path
            The file; it is replaced if it exists.
        """
        write_text(Path(path), "\n".join(self.words) + "\n")


@cache
def proper_names() -> frozenset[str]:
    """Returns the words of the bundled pool that WordNet has only as proper names (344)."""
    return frozenset(_read_bundled("names.txt", NAMES_SHA256))


@cache
def _bundled() -> Pool:
    return Pool(_read_bundled("pool.txt", POOL_SHA256), "bundled")


@lru_cache(maxsize=8)  # every fit of a grid asks for the same words
def _single_tokens(pool: Pool, tokenizer: Tokenizer) -> Pool:
    words = tuple(word for word in pool.words if is_one_token(word, tokenizer))
    if words == pool.words:
        return pool
    return Pool.from_words(words, f"{pool.source}, one token each")


def _read_bundled(name: str, sha256: str) -> tuple[str, ...]:
    """Returns the words in a file of the package, whose hash is checked."""
    try:
        text = (resources.files("ipl.words") / name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"The package's file {name} cannot be read: reinstall ipl.") from error
    words = text.split()  # the hash does not depend on line endings
    actual = _sha256(words)
    if actual != sha256:
        raise DataError(
            f"The package's file {name} is damaged (SHA-256 {actual[:12]}, expected "
            f"{sha256[:12]}): reinstall ipl."
        )
    return tuple(words)


def read_word_list(path: Path) -> list[str]:
    """Returns the words of a list, one per line; raises DataError if it cannot be read."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"The word list {path} does not exist.") from None
    except IsADirectoryError:
        raise DataError(f"The word list {path} is a folder; it must be a text file.") from None
    except UnicodeDecodeError:
        raise DataError(f"The word list {path} is not a text file in UTF-8.") from None
    except (OSError, ValueError) as error:
        raise DataError(f"The word list {path} cannot be read: {error}.") from error
    if "\0" in text:
        raise DataError(f"The word list {path} is not a text file in UTF-8.")
    lines = (line.split("#", 1)[0].strip().lower() for line in text.splitlines())
    return list(dict.fromkeys(line for line in lines if line))


def _why_dropped(word: str, tokenizer: Tokenizer) -> str:
    """Returns why a word cannot be a candidate, to follow "it is"; "" if it can be one."""
    if not word.isalpha():
        return "not made of letters only"
    if not is_alphabetic(word):
        return f"shorter than {MIN_LENGTH} letters"
    if not is_one_token(word, tokenizer):
        return "not one token of the backbone's tokenizer"
    return ""


def _sha256(words: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(words).encode("utf-8")).hexdigest()
