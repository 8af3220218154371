"""`ipl select`: what it keeps for next time, and what a stopped search leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ipl.backbone.backbone import Backbone
from ipl.support.cache import Cache, cache_folder
from ipl.support.progress import Reporter
from ipl.words.pool import Pool
from ipl.words.scorer import CandidateScorer
from ipl.words.select import select_words

Call = Callable[..., Any]
WORDS = ("bright", "dark", "sand", "stone", "wall", "water")


class Ear(Reporter):
    """Keeps what is warned of."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.heard: list[str] = []

    def warn(self, message: str) -> None:
        self.heard.append(message)


@pytest.fixture
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes any look at a prompt or at an image a failure."""
    for place in ("ipl.words.CandidateScorer.features", "ipl.words.CandidateScorer.loss",
                  "ipl.backbone.clip.ClipBackbone.encode_image"):  # fmt: skip
        monkeypatch.setattr(place, _must_not_run)


def _must_not_run(*_: Any, **__: Any) -> None:
    raise AssertionError("computed anew")


def _stop_at(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Makes Ctrl-C come while the word of that number is looked for."""
    real = CandidateScorer.features

    def features(self: CandidateScorer, selected: Any, *rest: Any) -> Iterator[Any]:
        if len(selected) == number - 1:
            raise KeyboardInterrupt
        return real(self, selected, *rest)

    monkeypatch.setattr(CandidateScorer, "features", features)


def test_the_second_time_nothing_is_computed(
    select: Call, found: Call, request: pytest.FixtureRequest
) -> None:
    first = found("--words", 3)
    request.getfixturevalue("no_search")
    assert found("--words", 3) == first
    assert found("--words", 1)["steps"] == first["steps"][:1]
    assert select("--words", 3).err == "The words were in the cache.\n"
    assert select("--words", 3, "--quiet").err == ""


def test_more_words_go_on_from_those_there_are(select: Call, found: Call) -> None:
    first = found("--words", 2)
    result = select("--words", 3, "--json")
    assert result.json["steps"][:2] == first["steps"]
    assert "Choosing word 3 of 3" in result.err
    assert "Choosing word 1" not in result.err
    assert "Choosing word 2" not in result.err


def test_ctrl_c_in_the_second_word_keeps_the_first(
    select: Call, found: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = found("--no-cache")
    with monkeypatch.context() as patch:
        _stop_at(patch, 2)
        stopped = select()
    assert (stopped.code, stopped.out) == (130, "")
    assert "stopped: words that were finished, if any, are in the cache." in stopped.err
    assert "Traceback" not in stopped.err
    again = select("--json")
    assert "Choosing word 1" not in again.err
    assert "Choosing word 2 of 2" in again.err
    assert again.json["words"] == whole["words"]


def test_no_cache_keeps_nothing_and_says_so(
    select: Call, found: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    found("--no-cache")
    assert not cache_folder().exists()
    _stop_at(monkeypatch, 2)
    stopped = select("--no-cache")
    assert stopped.code == 130
    assert "stopped: nothing was kept." in stopped.err
    assert not cache_folder().exists()


def test_no_cache_reads_nothing(select: Call, found: Call) -> None:
    found()
    assert "Choosing word 1 of 2" in select("--no-cache").err


def test_the_cache_lists_what_was_found(found: Call, ipl: Call, three_classes: Path) -> None:
    words = found()["words"]
    found("--search", "lazy")
    listed = [entry["facts"] for entry in ipl("cache", "--json").json["selections"]]
    assert [facts["words"] for facts in listed] == [words, words]
    text = ipl("cache").out
    for mode in ("exact", "lazy"):
        of = "3 classes (beach, castle, forest) in 6 images; pocket; a photo of a {cls}, "
        assert f"{', '.join(words)}; {mode} search in 6 words, lambda 0.1; {of}" in text


@pytest.mark.parametrize("inside", ["", "/x"])
def test_a_cache_that_cannot_be_written_is_only_a_warning(
    inside: str, select: Call, found: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = found()["words"]
    (tmp_path / "file").write_text("mine")
    monkeypatch.setenv("IPL_CACHE", f"{tmp_path}/file{inside}")
    result = select("--json", "--quiet")
    assert result.code == 0
    assert result.json["words"] == words
    assert result.err.count("warning: The cache ") == 1
    assert result.err.count("\n") == 1 + result.err.count("warning: More words")
    assert (tmp_path / "file").read_text() == "mine"


def test_two_at_once(three_classes: Path, pocket: Backbone) -> None:
    pool = Pool.from_words(WORDS, "test")
    ear = Ear()

    def run(_: int) -> tuple[str, ...]:
        more = {"shots": 2, "backbone": pocket, "pool": pool, "reporter": ear}
        return select_words(three_classes, 3, **more).words

    with ThreadPoolExecutor(4) as threads:
        answers = set(threads.map(run, range(4)))
    assert len(answers) == 1
    assert ear.heard == []
    (entry,) = Cache().entries("selections")
    assert tuple(entry.facts["words"]) in answers
