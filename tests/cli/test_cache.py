"""`ipl cache`: what is listed, what is removed, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipl.support.cache import KINDS, Cache, cache_folder, key_of

Call = Callable[..., Any]

SELECTION = {
    "classes": ["cat", "dog", "fox", "owl"],
    "words": ["furry", "[red]adopt[/red]"],
    "template": "a photo of a {cls}, with emphasis on: {words}",
    "backbone": "pocket",
}


@pytest.fixture
def filled() -> Cache:
    """Returns the cache with three images, one piece of words and one selection."""
    cache = Cache()
    for number in range(3):
        feature = np.full(512, number, dtype=np.float32)
        cache.put("images", key_of(number=number), {"feature": feature}, {})
    cache.put("words", key_of(number=0), {"losses": np.zeros((20, 512))}, {})
    cache.put("selections", key_of(number=0), {}, SELECTION)
    return cache


def test_a_missing_cache_is_empty(ipl: Call) -> None:
    told = ipl("cache", "--json").json
    assert told == {
        "folder": str(cache_folder()),
        "kinds": {kind: {"entries": 0, "bytes": 0} for kind in KINDS},
        "selections": [],
    }
    text = ipl("cache")
    assert text.code == 0
    assert str(cache_folder()) in text.out
    assert text.out.count("0 entries") == len(KINDS)
    assert "--clear" not in text.out
    cleared = ipl("cache", "--clear")
    assert cleared.code == 0
    assert "Removed 0 entries" in cleared.out
    assert not cache_folder().exists()  # looking makes nothing


def test_listing(ipl: Call, filled: Cache) -> None:
    told = ipl("cache", "--json").json
    usage = filled.usage()
    assert told["kinds"] == {k: {"entries": n, "bytes": b} for k, (n, b) in usage.items()}
    assert told["kinds"]["images"]["entries"] == 3
    (selection,) = told["selections"]
    assert selection["key"] == key_of(number=0)
    assert selection["bytes"] == usage["selections"][1]
    assert selection["facts"] == SELECTION
    text = ipl("cache").out
    assert "3 entries" in text
    assert "1 entry" in text
    assert "kB" in text
    (line,) = [line for line in text.splitlines() if "furry" in line]
    assert "furry, [red]adopt[/red]; 4 classes (cat, dog, fox, ...); pocket" in line
    assert SELECTION["template"] in line
    assert "cache --clear" in text


def test_the_environment_names_the_folder(
    ipl: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("IPL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert ipl("cache", "--json").json["folder"] == str(tmp_path / "ipl")


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"words": None, "classes": 7, "template": ["a"], "backbone": {}},
        {"words": "furry", "classes": {"cat": 1}},
        {"words": [1, None, ["a"]], "classes": []},
        {"something": "else"},
    ],
)
def test_selections_that_tell_little(ipl: Call, facts: dict[str, Any]) -> None:
    Cache().put("selections", key_of(of="little"), {}, facts)
    text = ipl("cache")
    assert text.code == 0
    assert "Finished selections" in text.out
    assert ipl("cache", "--json").json["selections"][0]["facts"] == facts


def test_selections_that_look_alike_share_a_line(ipl: Call) -> None:
    for of in ("one", "other"):
        Cache().put("selections", key_of(of=of), {}, {"words": ["furry"]})
    assert ipl("cache").out.count("furry (2 of these)") == 1
    assert len(ipl("cache", "--json").json["selections"]) == 2


def test_a_damaged_selection_is_listed_without_facts(ipl: Call, filled: Cache) -> None:
    (entry,) = filled.entries("selections")
    entry.path.write_bytes(entry.path.read_bytes()[:90])
    result = ipl("cache")
    assert result.code == 0
    assert "words unknown" in result.out
    assert ipl("cache", "--json").json["selections"][0]["facts"] == {}
    assert entry.path.exists()  # looking removes nothing


def test_clear(ipl: Call, filled: Cache) -> None:
    size = sum(size for _, size in filled.usage().values())
    foreign = filled.folder / "images" / "mine.jpg"
    foreign.write_text("mine")
    told = ipl("cache", "--clear", "--json").json
    assert told["folder"] == str(filled.folder)
    assert told["removed"] == {"kind": None, "entries": 5, "bytes": size}
    assert [path for path in filled.folder.rglob("*") if path.is_file()] == [foreign]


@pytest.mark.parametrize(("kind", "removed"), [("images", "3 entries"), ("words", "1 entry")])
def test_clear_one_kind(ipl: Call, filled: Cache, kind: str, removed: str) -> None:
    before = filled.usage()
    result = ipl("cache", "--clear", "--kind", kind)
    assert result.code == 0
    assert f"Removed {removed} of {kind}" in result.out
    assert result.out.strip().endswith(f"from {filled.folder}.")
    assert filled.usage() == {**before, kind: (0, 0)}


def test_wrong_options_are_refused_and_remove_nothing(ipl: Call, filled: Cache) -> None:
    before = filled.usage()
    assert "--clear" in ipl("cache", "--kind", "images").error
    assert "'images'" in ipl("cache", "--clear", "--kind", "image").error
    message = ipl("cache", "--clear", "--kind", "xyz").error
    assert all(kind in message for kind in KINDS)
    assert "'../words'" in ipl("cache", "--clear", "--kind", "../words").error
    assert filled.usage() == before


def test_a_file_where_the_folder_should_be(
    ipl: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("mine")
    monkeypatch.setenv("IPL_CACHE", str(tmp_path / "file"))
    for options in ((), ("--clear",), ("--json",)):
        assert "is a file" in ipl("cache", *options).error
    assert (tmp_path / "file").read_text() == "mine"


def test_what_cannot_be_removed_is_said(
    ipl: Call, filled: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Any, **_: Any) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr("ipl.support.cache.os.unlink", refuse)
        message = ipl("cache", "--clear").error
    assert "Permission denied" in message
    assert filled.usage()["images"][0] == 3


def test_ctrl_c(ipl: Call, filled: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(self: Cache, kind: str | None = None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Cache, "clear", stop)
    result = ipl("cache", "--clear")
    assert result.code == 130
    assert "stopped" in result.err


def test_help_names_the_kinds(ipl: Call) -> None:
    text = " ".join(ipl("cache", "--help").out.split())
    for word in ("--clear", "--kind", "--json", *KINDS):
        assert word in text
    assert "cache" in ipl("--help").out


def test_json_is_whole_for_odd_facts(ipl: Call) -> None:
    facts = {"words": ["é\n\x1b[31m"], "classes": ["a"] * 1000}
    Cache().put("selections", key_of(of="odd"), {}, facts)
    assert json.loads(ipl("cache", "--json").out)["selections"][0]["facts"] == facts
    assert "\x1b" not in ipl("cache").out
