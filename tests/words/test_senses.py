"""What words mean: kept for the bundled pool, looked up for others."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from ipl.words.filters import FilterUnavailable
from ipl.words.pool import Pool
from ipl.words.senses import NO_SENSE, Sense, find_sense, look_up_sense, sense_of, senses_file


class _Lemma:
    def __init__(self, name: str, times: int) -> None:
        self._name, self._times = name, times

    def name(self) -> str:
        return self._name

    def count(self) -> int:
        return self._times


class _Synset:
    def __init__(self, part: str, text: str, times: int) -> None:
        self.part, self.text, self.times = part, text, times

    def pos(self) -> str:
        return self.part

    def definition(self) -> str:
        return self.text

    def lemmas(self) -> list[_Lemma]:
        return [_Lemma("far", 99), _Lemma("Remote", self.times)]


def test_the_sense_that_is_used_most_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [_Synset("n", "a device", 1), _Synset("s", "not near", 7), _Synset("v", "away", 7)]
    monkeypatch.setattr("ipl.words.senses.synsets_of", lambda word: known)
    sense = look_up_sense("remote")
    assert (sense.part, sense.definition, sense.others) == ("adjective", "not near", 2)
    monkeypatch.setattr("ipl.words.senses.synsets_of", lambda word: known[:1])
    assert look_up_sense("remote").definition == "a device"
    monkeypatch.setattr("ipl.words.senses.synsets_of", lambda word: [])
    assert look_up_sense("remote").definition == "WordNet has no meaning for it."
    assert str(look_up_sense("remote")) == "WordNet has no meaning for it."


@pytest.mark.parametrize("left", ["; ; - Mark Twain", ";", "; -Melville; - Yeats", ""])
def test_quotations_are_left_out(monkeypatch: pytest.MonkeyPatch, left: str) -> None:
    known = [_Synset("s", f"not near;  far - off{left}", 1)]
    monkeypatch.setattr("ipl.words.senses.synsets_of", lambda word: known)
    assert look_up_sense("remote").definition == "not near; far - off"


def _missing(word: str) -> list[object]:
    raise FilterUnavailable("NLTK does not find WordNet.")


def test_every_word_of_the_pool_has_a_sense_without_wordnet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ipl.words.senses.synsets_of", _missing)
    senses = [sense_of(word) for word in Pool.bundled().words]
    assert {sense.part for sense in senses} == {"noun", "verb", "adjective", "adverb"}
    assert all(sense.definition.strip() == sense.definition != "" for sense in senses)
    assert sense_of("furry") == Sense("adjective", "covered with a dense coat of fine silky hairs")
    assert sense_of("selfie") == NO_SENSE


def test_a_word_of_ones_own_says_why_it_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ipl.words.senses.synsets_of", _missing)
    sense = sense_of("xqx")
    assert sense.part is None
    assert str(sense).endswith(
        "your own list, and it cannot be looked up. NLTK does not find WordNet."
    )


def test_the_file_is_written_from_wordnet(mini_wordnet: Path) -> None:
    lines = senses_file(["dog", "jersey", "run", "unheard"]).splitlines()
    assert [line.split("\t")[:3] for line in lines] == [
        ["dog", "noun", "0"],
        ["jersey", "noun", "1"],
        ["run", "verb", "0"],
        ["unheard"],
    ]


def test_the_file_of_the_package_has_what_wordnet_has(
    wordnet_sample: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ipl.words.senses.synsets_of", _missing)
    expected, found = {}, {}
    for word, known in wordnet_sample:
        with suppress(FilterUnavailable):  # not one token
            found[word] = find_sense(word.lower()).part is not None
            expected[word] = known != "none"
    assert found == expected
    assert sum(expected.values()) >= 100
    assert len(expected) - sum(expected.values()) >= 10
