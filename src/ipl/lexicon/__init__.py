"""The lexicon: the words that a prompt may be given, and why these."""

from ipl.lexicon.explain import Check, Explanation, explain
from ipl.lexicon.filters import (
    FilterUnavailable,
    Tokenizer,
    has_synset,
    is_alphabetic,
    is_frequent,
    is_one_token,
    is_only_name,
    zipf,
)
from ipl.lexicon.pool import Dropped, Pool, proper_names
from ipl.lexicon.rebuild import RebuildResult, raw_words_from_nltk, rebuild
from ipl.lexicon.senses import Sense, look_up_sense, sense_of, senses_file

__all__ = [
    "Check",
    "Dropped",
    "Explanation",
    "FilterUnavailable",
    "Pool",
    "RebuildResult",
    "Sense",
    "Tokenizer",
    "explain",
    "has_synset",
    "is_alphabetic",
    "is_frequent",
    "is_one_token",
    "is_only_name",
    "look_up_sense",
    "proper_names",
    "raw_words_from_nltk",
    "rebuild",
    "sense_of",
    "senses_file",
    "zipf",
]
