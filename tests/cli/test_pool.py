"""`ipl data pool`, and `ipl select --explain`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ipl.words.pool import Pool

Call = Callable[..., Any]


def test_size_hash_and_list(ipl: Call, words_file: Path) -> None:
    told = ipl("data", "pool", "--list", "--json").json
    assert told["words"] == len(set(told["list"])) == 8900
    assert told["sha256"] == hashlib.sha256("\n".join(told["list"]).encode()).hexdigest()
    assert told["sha256"] in ipl("data", "pool").out
    listed = ipl("data", "pool", "--words-file", words_file, "--list").out
    assert listed.split("\n")[:-1] == words_file.read_text().split()
    refused = ipl("data", "pool", "--rebuild", "--words-file", words_file)
    assert "--rebuild and --words-file cannot be used together" in refused.error


def test_a_list_is_piped_and_read_back(ipl: Call, home: Path) -> None:
    first = ipl("data", "pool", "--part", "no-names", "--json").json
    (home / "pool.txt").write_text(ipl("data", "pool", "--part", "no-names", "--list").out)
    again = ipl("data", "pool", "--words-file", "pool.txt", "--json").json
    assert first["words"] == 8900 - 344
    assert (again["sha256"], again["dropped"]) == (first["sha256"], {})


def test_a_rebuilt_pool_is_compared_with_the_bundled_one(
    ipl: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    rebuilt = Pool.from_words(("stone",), "nltk"), {"raw": 3}
    monkeypatch.setattr("ipl.cli.data.raw_words_from_nltk", list)
    monkeypatch.setattr("ipl.cli.data.rebuild_pool", lambda *_: rebuilt)
    told = ipl("data", "pool", "--rebuild", "--json", "--quiet").json
    assert (told["funnel"], told["words"]) == ({"raw": 3}, 1)
    assert (told["new"], len(told["gone"])) == ([], 8899)


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
