"""What a word means: its senses in WordNet, where that is installed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ipl.lexicon.filters import FilterUnavailable, look_up
from ipl.lexicon.pool import Pool, proper_names

PARTS = {"n": "noun", "v": "verb", "a": "adjective", "s": "adjective", "r": "adverb"}


@dataclass(frozen=True)
class Sense:
    """The most frequent meaning of a word, or what is known where no dictionary is at hand."""

    part: str | None  # of speech
    definition: str
    others: int = 0  # further meanings in WordNet
    from_wordnet: bool = True


def sense_of(word: str) -> Sense:
    """Returns the sense that WordNet has counted most often in texts, the first if it has none."""
    try:
        synsets = look_up(word)
    except FilterUnavailable as error:
        return Sense(None, f"{_remembered(word)} {error}", from_wordnet=False)
    if not synsets:
        return Sense(None, "WordNet has no meaning for it.")
    # WordNet lists nouns before verbs before adjectives, so its first is not its most frequent.
    best = max(synsets, key=lambda synset: _times(synset, word))
    return Sense(PARTS.get(best.pos(), best.pos()), best.definition(), len(synsets) - 1)


def _times(synset: Any, word: str) -> int:
    """Returns how often the word was counted in this sense."""
    return max((one.count() for one in synset.lemmas() if one.name().lower() == word), default=0)


def _remembered(word: str) -> str:
    """Returns what the frozen pool knows of a word without a dictionary."""
    if word in proper_names():
        return "WordNet knew it only as a proper name when the pool was made."
    if word in Pool.bundled():
        return "It had a meaning in WordNet when the pool was made."
    return "It is a word of your own list, which nobody looked up."
