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
)
from ipl.lexicon.pool import Dropped, Pool, proper_names
from ipl.lexicon.rebuild import RebuildResult, raw_words_from_nltk, rebuild

__all__ = [
    "Check",
    "Dropped",
    "Explanation",
    "FilterUnavailable",
    "Pool",
    "RebuildResult",
    "Tokenizer",
    "explain",
    "has_synset",
    "is_alphabetic",
    "is_frequent",
    "is_one_token",
    "is_only_name",
    "proper_names",
    "raw_words_from_nltk",
    "rebuild",
]
