"""The most frequent sense of a word in WordNet; those of the bundled pool are in the package."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from ipl.words.filters import FilterUnavailable, synsets_of

PARTS = {"n": "noun", "v": "verb", "a": "adjective", "s": "adjective", "r": "adverb"}
FILE = "senses.tsv"  # of the bundled pool, from WordNet 3.0: word, part, other senses, definition
QUOTED = re.compile(
    r"\s*;\s*($|[;-].*)"
)  # remains of a quotation in NLTK's text: "; ; - its author"


@dataclass(frozen=True)
class Sense:
    """The most frequent meaning of a word; `part` is None if no meaning is known."""

    part: str | None  # of speech
    definition: str  # or the reason why there is none
    others: int = 0  # further meanings in WordNet

    def __str__(self) -> str:
        return self.definition if self.part is None else f"({self.part}) {self.definition}"


def sense_of(word: str) -> Sense:
    """Returns the sense of a word; words outside the bundled pool need NLTK and WordNet."""
    if (row := _bundled_senses().get(word)) is not None:
        part, others, definition = row.split("\t")
        return Sense(part, definition, int(others))
    try:
        return look_up_sense(word)
    except FilterUnavailable as error:
        return Sense(None, f"It is a word of your own list, and it cannot be looked up. {error}")


def look_up_sense(word: str) -> Sense:
    """Returns the sense with the highest count in WordNet, or the first if none is counted."""
    synsets = synsets_of(word)
    if not synsets:
        return Sense(None, "WordNet has no meaning for it.")
    # WordNet lists nouns before verbs before adjectives, so its first sense is not the commonest.
    best = max(synsets, key=lambda synset: _sense_count(synset, word))
    definition = QUOTED.sub("", " ".join(best.definition().split()))
    return Sense(PARTS.get(best.pos(), best.pos()), definition, len(synsets) - 1)


def senses_file(words: Iterable[str]) -> str:
    """Returns the content of senses.tsv for those words that WordNet has a meaning for."""
    senses = {word: look_up_sense(word) for word in words}
    return "".join(
        f"{word}\t{sense.part}\t{sense.others}\t{sense.definition}\n"
        for word, sense in senses.items()
        if sense.part is not None
    )


@cache
def _bundled_senses() -> dict[str, str]:
    """Returns the rest of each word's line."""
    text = (resources.files("ipl.words") / FILE).read_text(encoding="utf-8")
    rows = (line.partition("\t") for line in text.splitlines())
    return {word: rest for word, _, rest in rows}


def _sense_count(synset: Any, word: str) -> int:
    """Returns how often the word was counted in this sense."""
    lemmas = (lemma for lemma in synset.lemmas() if lemma.name().lower() == word)
    return max((lemma.count() for lemma in lemmas), default=0)
