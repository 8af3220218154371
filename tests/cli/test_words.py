"""`ipl words`: the pool, look-ups with reasons, own lists, and the rebuild."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


def test_count_and_hash(ipl: Call) -> None:
    told = ipl("words", "--json").json
    assert told["words"] == 8900
    listed = ipl("words", "--list", "--json").json["list"]
    assert len(listed) == len(set(listed)) == 8900
    assert told["sha256"] == hashlib.sha256("\n".join(sorted(listed)).encode()).hexdigest()
    text = ipl("words")
    assert text.code == 0
    assert "8,900 words" in text.out
    assert told["sha256"] in text.out


def test_list_prints_a_word_per_line(ipl: Call, words_file: Path) -> None:
    result = ipl("words", "--words-file", words_file, "--list")
    assert result.out.split("\n")[:-1] == words_file.read_text().split()


def test_look_up_in_and_out(ipl: Call) -> None:
    told = ipl("words", "Mountain", "mountainz", "ox", "--json").json["look_up"]
    assert [(entry["word"], entry["in_pool"]) for entry in told] == [
        ("mountain", True),
        ("mountainz", False),
        ("ox", False),
    ]
    assert "mountain" in told[1]["near"]
    assert told[2]["rejected_by"][0] == "alphabetic"
    assert "fewer than 3 letters" in told[2]["sentence"]
    text = ipl("words", "Mountain", "ox").out
    assert "'mountain' is in the pool" in text
    assert "'ox' is not in the pool" in text


def test_no_names(ipl: Call) -> None:
    every = set(ipl("words", "--list", "--json").json["list"])
    told = ipl("words", "--no-names", "--list", "--json").json
    gone = every - set(told["list"])
    assert told["words"] == 8900 - 344 == len(told["list"])
    assert "alaska" in gone
    assert "mountain" not in gone
    (entry,) = ipl("words", "--no-names", "alaska", "--json").json["look_up"]
    assert not entry["in_pool"]
    assert "only a proper name" in entry["sentence"]


def test_own_list_with_reasons_for_what_is_dropped(ipl: Call, home: Path) -> None:
    (home / "own.txt").write_text("Stone\nxy\nwater # wet\nfoot-path\n\nmountainzzz\n")
    told = ipl("words", "--words-file", "own.txt", "--list", "--json").json
    assert told["list"] == ["stone", "water"]
    assert set(told["dropped"]) == {"xy", "foot-path", "mountainzzz"}
    assert "letters" in told["dropped"]["foot-path"]
    assert "token" in told["dropped"]["mountainzzz"]
    text = ipl("words", "--words-file", "own.txt").out
    assert "'xy' is left out" in text
    assert "2 words" in text


def test_out_writes_a_list_that_reads_back(ipl: Call, home: Path) -> None:
    first = ipl("words", "--no-names", "--out", "pool.txt", "--json").json
    assert first["out"] == "pool.txt"
    again = ipl("words", "--words-file", "pool.txt", "--json").json
    assert (again["words"], again["sha256"]) == (first["words"], first["sha256"])
    assert again["dropped"] == {}
    assert [path.name for path in home.iterdir()] == ["pool.txt"]


def test_out_does_not_replace_a_file(ipl: Call, home: Path) -> None:
    (home / "mine.txt").write_text("mine")
    assert "mine.txt already exists" in ipl("words", "--out", "mine.txt").error
    assert (home / "mine.txt").read_text() == "mine"


def test_rebuild_and_own_list_exclude_each_other(ipl: Call, words_file: Path) -> None:
    message = ipl("words", "--rebuild", "--words-file", words_file).error
    assert "--rebuild" in message
    assert "--words-file" in message


def test_rebuild_counts_every_stage(ipl: Call, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = ["Stone", "stone", "ox", "mountainzzz", "the", "water"]
    known = {"stone", "water", "the"}
    monkeypatch.setattr("ipl.cli.words.raw_words_from_nltk", lambda: raw)
    module = import_module("ipl.words.rebuild")  # the package's attribute is the function
    monkeypatch.setattr(module, "is_frequent", lambda word: word != "the")
    monkeypatch.setattr(module, "has_synset", lambda word: word in known)
    monkeypatch.setattr(module, "is_only_name", lambda word: word == "water")
    told = ipl("words", "--rebuild", "--out", "pool.txt", "--json", "--quiet").json
    assert told["funnel"]["raw"] == 6
    assert told["funnel"]["distinct"] == 5
    assert told["words"] == 2
    assert told["against_bundled"] == {"new": 0, "gone": 8898}
    assert (home / "pool.txt").read_text() == "stone\nwater\n"
    assert ipl("words", "--rebuild", "--no-names", "--json", "--quiet").json["words"] == 1


def test_version_and_help(ipl: Call) -> None:
    from ipl import __version__

    assert ipl("--version").out == f"ipl {__version__}\n"
    text = ipl("--help")
    assert text.code == 0
    assert all(command in text.out for command in ("demo", "fit", "predict", "words"))
