"""How frequent words are in English; the frequencies of the bundled pool are in the package."""

from __future__ import annotations

from functools import cache
from importlib import resources

from ipl.words.filters import zipf
from ipl.words.pool import Pool


def zipf_of(word: str) -> float:
    """Returns the Zipf frequency of a word; one outside the bundled pool needs wordfreq."""
    value = _bundled_zipf().get(word)
    return zipf(word) if value is None else value


@cache
def _bundled_zipf() -> dict[str, float]:
    text = (resources.files("ipl.words") / "zipf.txt").read_text(encoding="utf-8")
    values = [float(line) for line in text.splitlines() if not line.startswith("#")]
    return dict(zip(Pool.bundled().words, values, strict=True))
