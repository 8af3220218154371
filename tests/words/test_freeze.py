"""The frequencies and meanings that come with the package: of which words, and from where."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

from ipl.words import senses, zipf
from ipl.words.filters import is_alphabetic, is_one_token
from ipl.words.freeze import freeze, one_token_words


def test_every_word_of_one_token_is_in_both_files(tokenizer: Any) -> None:
    vocabulary = tokenizer.get_vocab().values()
    decoded = {tokenizer.decode([token]).strip() for token in vocabulary}
    words = {word for word in decoded if is_alphabetic(word) and is_one_token(word, tokenizer)}
    assert set(zipf._bundled_zipf()) == set(senses._bundled_senses()) == words
    assert words == set(one_token_words())


def test_the_files_are_written_from_the_dictionaries(mini_wordnet: Path, tmp_path: Path) -> None:
    freeze(tmp_path)
    bundled = resources.files("ipl.words")
    assert (tmp_path / zipf.FILE).read_text() == (bundled / zipf.FILE).read_text()
    lines = (tmp_path / senses.FILE).read_text().splitlines()
    assert [line.split("\t")[0] for line in lines] == one_token_words()
    known = {line.split("\t")[0] for line in lines if "\t" in line}
    assert {"dogs", "ran", "paris"} <= known
    assert "cat" not in known  # the small WordNet of the tests does not have it
