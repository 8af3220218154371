"""What a word means: its most frequent sense in WordNet, kept for the bundled pool."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from ipl.words.filters import FilterUnavailable, look_up

PARTS = {"n": "noun", "v": "verb", "a": "adjective", "s": "adjective", "r": "adverb"}
FILE = "senses.tsv"  # of the bundled pool, from WordNet 3.0: word, part, other senses, definition
QUOTED = re.compile(r"\s*;\s*($|[;-].*)")  # what NLTK leaves of a quotation: "; ; - its author"


@dataclass(frozen=True)
class Sense:
    """The most frequent meaning of a word; `part` is None where no meaning is known."""

    part: str | None  # of speech
    definition: str  # or why there is none
    others: int = 0  # further meanings in WordNet

    def __str__(self) -> str:
        return self.definition if self.part is None else f"({self.part}) {self.definition}"


def sense_of(word: str) -> Sense:
    """Returns the sense of a word of the bundled pool; others need NLTK and its WordNet."""
    if (kept := _kept().get(word)) is not None:
        return kept
    try:
        return look_up_sense(word)
    except FilterUnavailable as error:
        return Sense(None, f"It is a word of your own list, which nobody looked up. {error}")


def look_up_sense(word: str) -> Sense:
    """Returns the sense that WordNet has counted most often in texts, the first if it has none."""
    synsets = look_up(word)
    if not synsets:
        return Sense(None, "WordNet has no meaning for it.")
    # WordNet lists nouns before verbs before adjectives, so its first is not its most frequent.
    best = max(synsets, key=lambda synset: _times(synset, word))
    definition = QUOTED.sub("", " ".join(best.definition().split()))
    return Sense(PARTS.get(best.pos(), best.pos()), definition, len(synsets) - 1)


def senses_file(words: Iterable[str]) -> str:
    """Returns the lines of senses.tsv for words that WordNet has a meaning for."""
    found = {word: look_up_sense(word) for word in words}
    return "".join(
        f"{word}\t{sense.part}\t{sense.others}\t{sense.definition}\n"
        for word, sense in found.items()
        if sense.part is not None
    )


@cache
def _kept() -> dict[str, Sense]:
    text = (resources.files("ipl.words") / FILE).read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines())
    return {word: Sense(part, definition, int(others)) for word, part, others, definition in rows}


def _times(synset: Any, word: str) -> int:
    """Returns how often the word was counted in this sense."""
    return max((one.count() for one in synset.lemmas() if one.name().lower() == word), default=0)
