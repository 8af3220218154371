"""The most frequent sense of a word in WordNet; those of words of one token are in the package."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from ipl.words.filters import FilterUnavailable, synsets_of

PARTS = {"n": "noun", "v": "verb", "a": "adjective", "s": "adjective", "r": "adverb"}
# Of all words that are one token of the bundled backbone, from WordNet 3.0: word, part, other
# senses, definition; a word that has no meaning stands alone.
FILE = "senses.tsv"
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


NO_SENSE = Sense(None, "WordNet has no meaning for it.")


def sense_of(word: str) -> Sense:
    """Returns the sense of a word, or why it cannot be looked up."""
    try:
        return find_sense(word)
    except FilterUnavailable as error:
        return Sense(None, f"It is a word of your own list, and it cannot be looked up. {error}")


def find_sense(word: str) -> Sense:
    """Returns the sense of a word; one that is not in the package needs NLTK and WordNet.

    Raises
    ------
    FilterUnavailable
        If they are not installed.
    """
    row = _bundled_senses().get(word)
    if row is None:
        return look_up_sense(word)
    if not row:
        return NO_SENSE
    part, others, definition = row.split("\t")
    return Sense(part, definition, int(others))


def look_up_sense(word: str) -> Sense:
    """Returns the sense with the highest count in WordNet, or the first if none is counted."""
    synsets = synsets_of(word)
    if not synsets:
        return NO_SENSE
    # WordNet lists nouns before verbs before adjectives, so its first sense is not the commonest.
    best = max(synsets, key=lambda synset: _sense_count(synset, word))
    definition = QUOTED.sub("", " ".join(best.definition().split()))
    return Sense(PARTS.get(best.pos(), best.pos()), definition, len(synsets) - 1)


def senses_file(words: Iterable[str]) -> str:
    """Returns the content of senses.tsv for words, from WordNet."""
    senses = {word: look_up_sense(word) for word in words}
    return "".join(
        f"{word}\n"
        if sense.part is None
        else f"{word}\t{sense.part}\t{sense.others}\t{sense.definition}\n"
        for word, sense in senses.items()
    )


@cache
def _bundled_senses() -> dict[str, str]:
    """Returns the rest of each word's line; "" if it has no meaning."""
    text = (resources.files("ipl.words") / FILE).read_text(encoding="utf-8")
    rows = (line.partition("\t") for line in text.splitlines())
    return {word: rest for word, _, rest in rows}


def _sense_count(synset: Any, word: str) -> int:
    """Returns how often the word was counted in this sense."""
    lemmas = (lemma for lemma in synset.lemmas() if lemma.name().lower() == word)
    return max((lemma.count() for lemma in lemmas), default=0)
