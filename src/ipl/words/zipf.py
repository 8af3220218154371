"""How frequent words are in English; the frequencies of those of one token are in the package."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import metadata, resources

from ipl.words.filters import zipf

FILE = "zipf.tsv"  # of all words that are one token of the bundled backbone: word, frequency


def zipf_of(word: str) -> float:
    """Returns the Zipf frequency of a word; one that is not in the package needs wordfreq."""
    value = _bundled_zipf().get(word)
    return zipf(word) if value is None else value


def zipf_file(words: Iterable[str]) -> str:
    """Returns the content of zipf.tsv for words, from wordfreq."""
    lines = [f"{word}\t{zipf(word):.2f}\n" for word in words]
    return (
        f"# Zipf frequencies in English from wordfreq {metadata.version('wordfreq')}\n"
        "# by Robyn Speer and others; the data of wordfreq is licensed under CC BY-SA 4.0.\n"
    ) + "".join(lines)


@cache
def _bundled_zipf() -> dict[str, float]:
    text = (resources.files("ipl.words") / FILE).read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines() if not line.startswith("#"))
    return {word: float(value) for word, value in rows}
