"""Why a word is in the pool or not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches

from ipl.support.errors import DataError
from ipl.words.lexicon import (
    MIN_LENGTH,
    MIN_ZIPF,
    NO_SENSE,
    Tokenizer,
    is_alphabetic,
    is_one_token,
    sense_of,
    zipf,
)
from ipl.words.pool import Pool, proper_names


@dataclass(frozen=True)
class WordExplanation:
    """Whether a word is in a pool, which filter rejects it, its meaning, and similar words."""

    word: str
    in_pool: bool
    rejected_by: str | None
    meaning: str
    near: tuple[str, ...]
    sentence: str


def explain_word(word: str, pool: Pool, tokenizer: Tokenizer) -> WordExplanation:
    """Explains why a word, in any case, is in a pool or not."""
    word = word.strip().lower()
    if not word:
        raise DataError("The word to explain is empty.")
    name = "the pool" if pool.source == Pool.bundled().source else f"the pool ({pool.source})"
    rejected_by, why = _ask_filters(word, tokenizer)
    sense = sense_of(word)
    if word in pool:
        meaning = "" if sense.part is None else str(sense)
        sentence = f"{word!r} is in {name}: it {why}."
        if word in proper_names():
            sentence += " It is only a proper name."
        if meaning:
            sentence += f" Most often: {meaning}."
        return WordExplanation(word, True, None, meaning, (), sentence)
    if rejected_by is None and word in Pool.bundled():
        why = "is in the bundled pool, but not among the words of it that were asked for"
    elif rejected_by is None:
        why = f"is not in the list of words that this pool was built from; it {why}"
    sentence = f"{word!r} is not in {name}: it {why}."
    near = tuple(get_close_matches(word, pool.words, n=3, cutoff=0.7))
    if near:
        sentence += f" Similar words in the pool: {', '.join(near)}."
    if not re.search(r"[\s,]", word):  # which would be several words
        sentence += f" You can still give it to a prompt yourself: --words-given {word}."
    return WordExplanation(word, False, rejected_by, "", near, sentence)


def _ask_filters(word: str, tokenizer: Tokenizer) -> tuple[str | None, str]:
    """The first filter of the pool that rejects a word, and what follows "it" in a sentence."""
    if not is_alphabetic(word):
        return "alphabetic", f"does not have at least {MIN_LENGTH} letters and nothing else"
    if not is_one_token(word, tokenizer):
        return "one token", "is several tokens of the backbone, not one"
    frequency = zipf(word)
    if frequency is None:
        return None, "is one token of the backbone, but not in ipl's dictionary"
    per_million, least = (f"{10 ** (number - 3):.1f}" for number in (frequency, MIN_ZIPF))
    how_rare = f"in English ({per_million} in a million words; the pool starts at {least})"
    if frequency < MIN_ZIPF:
        return "frequency", f"is too rare {how_rare}"
    if sense_of(word) == NO_SENSE:
        return "synset", "has no meaning in the dictionary WordNet"
    return None, f"is one token of the backbone, has a meaning and is frequent enough {how_rare}"
