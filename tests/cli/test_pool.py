"""`ipl data pool`, and `ipl select --explain`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


def test_size_hash_and_list(ipl: Call, words_file: Path) -> None:
    told = ipl("data", "pool", "--list", "--json").json
    assert told["words"] == len(set(told["list"])) == 8900
    assert told["sha256"] == hashlib.sha256("\n".join(told["list"]).encode()).hexdigest()
    assert told["sha256"] in ipl("data", "pool").out
    listed = ipl("data", "pool", "--words-file", words_file, "--list").out
    assert listed.split("\n")[:-1] == words_file.read_text().split()


def test_a_list_is_piped_and_read_back(ipl: Call, home: Path) -> None:
    first = ipl("data", "pool", "--part", "no-names", "--json").json
    (home / "pool.txt").write_text(ipl("data", "pool", "--part", "no-names", "--list").out)
    again = ipl("data", "pool", "--words-file", "pool.txt", "--json").json
    assert first["words"] == 8900 - 344
    assert (again["sha256"], again["dropped"]) == (first["sha256"], {})


def test_own_list_says_what_is_left_out(ipl: Call, home: Path) -> None:
    (home / "own.txt").write_text("Stone\nxy\nwater # wet\nfoot-path\n\nmountainzzz\n")
    text = ipl("data", "pool", "--words-file", "own.txt").out
    assert all(f"{word!r} is left out" in text for word in ("xy", "foot-path", "mountainzzz"))
    assert "2 words" in text
    assert "--rebuild" in ipl("data", "pool", "--rebuild", "--words-file", "own.txt").error


def test_rebuild(ipl: Call, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = ["Stone", "stone", "ox", "mountainzzz", "the", "water"]
    monkeypatch.setattr("ipl.cli.data.raw_words_from_nltk", lambda: raw)
    rebuild = "ipl.words.rebuild"
    monkeypatch.setattr(f"{rebuild}.wordfreq_zipf", lambda word: 0.0 if word == "the" else 4.0)
    monkeypatch.setattr(f"{rebuild}.synsets", lambda word: [word])
    monkeypatch.setattr(f"{rebuild}.is_only_name", lambda word: word == "water")
    options = ("--rebuild", "--json", "--quiet")
    told = ipl("data", "pool", *options, "--list").json
    assert (told["funnel"]["raw"], told["funnel"]["distinct"], told["words"]) == (6, 5, 2)
    assert (told["new"], len(told["gone"])) == ([], 8898)
    assert told["list"] == ["stone", "water"]


def test_explain(ipl: Call, words_file: Path) -> None:
    words = ("--explain", "Mountain", "--explain", "mountainz", "--explain", "ox")
    told = ipl("select", *words, "--json").json["explained"]
    assert [(entry["word"], entry["in_pool"]) for entry in told] == [
        ("mountain", True),
        ("mountainz", False),
        ("ox", False),
    ]
    assert "mountain" in told[1]["near"]
    assert told[2]["rejected_by"] == "alphabetic"
    assert "'mountain' is in the pool" in ipl("select", *words).out
    (own,) = ipl("select", *words[:2], "--words-file", words_file, "--json").json["explained"]
    assert not own["in_pool"]
    assert "past of steal; (noun) a wide scarf" in ipl("select", "--explain", "stole").out
