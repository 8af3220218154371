"""`ipl select`: what it finds, says and refuses, and what it keeps for next time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ipl.backbone.backbone import Backbone
from ipl.select import select_words
from ipl.support.cache import Cache, cache_folder
from ipl.support.progress import Reporter
from ipl.words.pool import Pool
from ipl.words.scorer import SentenceScorer
from ipl.words.selection import Selection

Call = Callable[..., Any]
MODES = ("exact", "exhaustive", "screen", "lazy")


def test_text_shows_words_gains_and_what_is_proved(select: Call, found: Call, home: Path) -> None:
    before = sorted(home.rglob("*"))
    told, text = found(), select("--quiet").out
    for step in told["steps"]:
        (line,) = [line for line in text.splitlines() if line.startswith(step["word"])]
        numbers = (step["gain"], step["certainty"]["low"], step["certainty"]["high"])
        assert all(f"{number:+.4f}" in line for number in numbers)
        assert f"{step['loss']:.4f}" in line
        assert ", ".join(word for word, _ in step["runners_up"][:3]) in line
    assert f"{told['loss_without_words']:.4f}" in text
    assert "Proved (exact): no other word has a higher gain at its step" in text
    assert "the loss of 6 and 5 of 6 words" in text
    assert "gain = utility - 0.1 * redundancy" in text
    assert sorted(home.rglob("*")) == before  # nothing but the cache is written


def test_json_is_the_selection_of_the_library(
    found: Call, three_classes: Path, words_file: Path
) -> None:
    from ipl.backbone.loading import load_backbone
    from ipl.words.pool import Pool

    told = found("--seed", 3, "--no-cache")
    pocket = load_backbone("pocket", "cpu")
    pool, _ = Pool.from_file(words_file, pocket.tokenizer)
    again = select_words(three_classes, 2, backbone=pocket, shots=2, pool=pool, seed=3, cache=False)
    expected = json.loads(json.dumps(again.as_dict()))
    for steps in (told["steps"], expected["steps"]):
        assert all(step.pop("seconds") >= 0 for step in steps)
    asked = {"data": str(three_classes), "backbone": "pocket", "shots": 2, "seed": 3}
    assert told.pop("notes") == list(again.notes)
    assert told == {**asked, "classes": ["beach", "castle", "forest"], **expected}


def test_a_fit_takes_the_words_that_select_shows(
    found: Call, fit: Call, three_classes: Path
) -> None:
    told = found()
    fitted = fit(three_classes, "--words", 2, "--json", "--out", "run")
    assert fitted.json["words"] == told["words"]
    assert fitted.json["selection"]["steps"] == told["steps"]  # times too: they are the kept ones


def test_progress_and_warnings_go_to_standard_error(select: Call, three_classes: Path) -> None:
    (three_classes / "beach" / "list.txt").write_text("notes")
    result = select("--words", 6, "--json")
    assert [step["scored"] for step in result.json["steps"]] == [6, 5, 4, 3, 2, 1]
    assert "Choosing word 1 of 6: 6 of 6" in result.err
    skipped = f"1 file is not an image and was skipped: {three_classes}/beach/list.txt."
    assert f"warning: {skipped}" in result.err
    harmful = [repr(step["word"]) for step in result.json["steps"] if step["gain"] < 0]
    assert harmful  # all six words are never all of use
    assert f"warning: {', '.join(harmful)} ha" in result.err


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_finds_the_best_of_a_few_words(mode: str, select: Call, found: Call) -> None:
    plain, told = found("--search", "exhaustive"), found("--search", mode)
    assert told["words"] == plain["words"]
    assert told["search"] == mode
    assert told["certified"] == (mode in ("exact", "exhaustive"))
    text = select("--search", mode, "--quiet").out
    assert (f"Proved ({mode})" in text) == told["certified"]
    assert (f"Approximate ({mode})" in text) == (not told["certified"])


def test_a_shortlist_and_its_recall(select: Call, found: Call, home: Path) -> None:
    from ipl.words.pool import Pool

    (home / "many.txt").write_text("\n".join(Pool.bundled().words[::150]))
    more = ("--words-file", home / "many.txt", "--search", "screen")
    told = found(*more, "--shortlist", 20)
    assert [step["scored"] for step in told["steps"]] == [20, 20]
    assert told["recall"] is None
    recalled = found(*more, "--shortlist", 20, "--recall")
    assert recalled["words"] == told["words"]
    best = found("--words-file", home / "many.txt")
    hit = [step["recalled"] for step in recalled["steps"]]
    assert hit[0] == (best["words"][0] == told["words"][0])
    assert recalled["recall"] == sum(hit) / 2
    said = f"The shortlist contained the true winner at {sum(hit)} of 2 steps"
    assert said in select(*more, "--shortlist", 20, "--recall", "--quiet").out


def test_options_arrive(found: Call, home: Path) -> None:
    plain = found()
    for options, field, value in (
        (("--lambda", 0.5), "lambda_", 0.5),
        (("--preset", "reference"), "preset", "reference"),
        (("--word-embedding", "token"), "word_embedding", "token"),
        (("--template", "{cls}: {words}."), "template", "{cls}: {words}."),
    ):
        told = found(*options)
        assert told[field] == value != plain[field]
        assert told["steps"] != plain["steps"]
    assert found("--shots", 1)["loss_without_words"] != plain["loss_without_words"]
    assert found("--precision", "bf16")["loss_without_words"] != plain["loss_without_words"]
    (home / "named.txt").write_text("stone\nwater\nutah\n")
    assert found("--words-file", home / "named.txt")["pool_size"] == 3
    assert found("--words-file", home / "named.txt", "--no-names")["pool_size"] == 2


def test_little_memory_finds_the_same(found: Call) -> None:
    a, b = found("--no-cache"), found("--no-cache", "--memory", 0.001)
    assert [step["word"] for step in a["steps"]] == [step["word"] for step in b["steps"]]
    assert [step["loss"] for step in a["steps"]] == pytest.approx(
        [step["loss"] for step in b["steps"]], abs=1e-5
    )


def test_no_words(select: Call, found: Call) -> None:
    assert select("--words", 0, "--quiet").out == "The number of words is 0.\n"
    assert found("--words", 0)["words"] == []


def test_help_says_what_there_is(ipl: Call) -> None:
    text = " ".join(ipl("select", "--help").out.replace("│", " ").split())
    assert "path,label[,split]" in text  # typer takes brackets for markup
    for option in ("--words", "--recall", "--shortlist", "--memory", "--no-cache", "--json"):
        assert option in text
    assert all(mode in text for mode in MODES)
    assert "select" in ipl("--help").out


# -- what it refuses ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--words", -1), ["words is -1"]),
        (("--words", 7), ["words is 7", "the pool has 6 words"]),
        (("--words", 100_000), ["words is 100000"]),
        (("--memory", 0), ["memory is 0"]),
        (("--memory", -1), ["memory is -1"]),
        (("--memory", "nan"), ["memory is nan"]),
        (("--memory", "inf"), ["memory is inf"]),
        (("--memory", 1e-6), ["memory is", "at least"]),
        (("--search", "foo"), ["search is 'foo'", *MODES]),
        (("--search", "screeen"), ["search is 'screeen'", "exact, exhaustive, screen, lazy"]),
        (("--search", "screen", "--shortlist", 1), ["shortlist is 1", "20 or more"]),
        (("--recall",), ["recall", "'screen'"]),
        (("--template", "a {cls}"), ["template is 'a {cls}'", "{words}"]),
        (("--template", "{words} {cls}"), ["{cls} must come before {words}"]),
        (("--shots", 0), ["shots is 0"]),
        (("--lambda", "nan"), ["lambda"]),
        (("--preset", "x"), ["preset"]),
        (("--word-embedding", "x"), ["--word-embedding is 'x'"]),
        (("--backbone", "pockt"), ["'pocket'"]),
        (("--device", "quantum"), ["quantum"]),
        (("--precision", "fp8"), ["fp8"]),
        (("--words-file", "none.txt"), ["none.txt"]),
    ],
)
def test_bad_values_get_one_sentence(
    options: tuple[object, ...], named: list[str], select: Call
) -> None:
    message = select("--quiet", *options).error
    assert all(part in message for part in named), message
    assert not list(Cache().entries("selections"))


@pytest.mark.parametrize("words", ["three", "1.5", " ", "auto", "9" * 5000])
def test_what_is_no_number(words: str, select: Call) -> None:
    result = select("--words", words)
    assert (result.code, result.out) == (2, "")
    assert "it must be a whole number" in result.error
    assert len(result.error) < 200


def test_no_such_data(ipl: Call, home: Path) -> None:
    assert "nowhere" in ipl("select", home / "nowhere").error
    assert ipl("select").code == 2


def test_strict_fails_on_a_file_that_is_no_image(select: Call, three_classes: Path) -> None:
    (three_classes / "beach" / "list.txt").write_text("notes")
    assert "list.txt" in select("--strict", "--quiet").error


# -- what is kept for next time --------------------------------------------------------------------

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
    for method in ("features", "loss"):
        monkeypatch.setattr(f"ipl.words.scorer.SentenceScorer.{method}", _must_not_run)
    monkeypatch.setattr("ipl.backbone.clip.ClipBackbone.encode_image", _must_not_run)


def _must_not_run(*_: Any, **__: Any) -> None:
    raise AssertionError("computed anew")


def _stop_at(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Makes Ctrl-C come while the word of that number is looked for."""
    real = SentenceScorer.features

    def features(self: SentenceScorer, selected: Any, *rest: Any) -> Iterator[Any]:
        if len(selected) == number - 1:
            raise KeyboardInterrupt
        return real(self, selected, *rest)

    monkeypatch.setattr(SentenceScorer, "features", features)


def test_the_second_time_nothing_is_computed(
    select: Call, found: Call, request: pytest.FixtureRequest
) -> None:
    first = found("--words", 3)
    request.getfixturevalue("no_search")
    assert found("--words", 3) == first
    assert found("--words", 1)["steps"] == first["steps"][:1]
    warnings = "".join(f"warning: {note}\n" for note in first["notes"])
    assert select("--words", 3).err == f"The words are in the cache.\n{warnings}"
    assert select("--words", 3, "--quiet").err == warnings


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
    assert "stopped: the search resumes when you run the same command again." in stopped.err
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
    assert "stopped: nothing was saved." in stopped.err
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
    assert result.err.count("\n") == 1 + result.err.count("a negative gain: more words")
    assert (tmp_path / "file").read_text() == "mine"


def test_two_at_once(three_classes: Path, pocket: Backbone) -> None:
    pool = Pool.from_words(WORDS, "test")
    ear = Ear()

    def run(_: int) -> Selection:
        more = {"shots": 2, "backbone": pocket, "pool": pool, "reporter": ear}
        return select_words(three_classes, 3, **more)

    with ThreadPoolExecutor(4) as threads:
        selections = list(threads.map(run, range(4)))
    (words,) = {selection.words for selection in selections}
    # Nothing about the cache: only what each selection says of its words.
    assert ear.heard == [note for selection in selections for note in selection.notes]
    (entry,) = Cache().entries("selections")
    assert tuple(entry.facts["words"]) == words
