"""`ipl fit` with empty slots, given or random words, and what other commands make of such runs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.page_check import check_page

Call = Callable[..., Any]
CPU = ("--device", "cpu", "--quiet")
EMPTY = "This prompt has no words: it was trained with empty slots in their places."
GIVEN = "The words were given by a person; no search chose them."
RANDOM = "The words were drawn at random, each about as frequent as one that the search chose."


@pytest.mark.parametrize(
    ("options", "words", "sentence"),
    [
        (("--empty-slots",), [], EMPTY),
        (("--words-given", "Bright, playfulness"), ["bright", "playfulness"], GIVEN),
        (("--random-words", "1"), None, RANDOM),
    ],
    ids=["empty", "given", "random"],
)
def test_other_commands_take_the_run(
    options: tuple[str, ...],
    words: list[str] | None,
    sentence: str,
    fit: Call,
    ipl: Call,
    three_classes: Path,
    home: Path,
) -> None:
    told = fit(three_classes, "--words", "2", *options, "--json", "--out", "run").json
    assert told["words"] == (words if words is not None else told["words"])
    assert len(told["words"]) == (0 if words == [] else 2)
    assert told["selection"] is None
    assert told["prompt"].count("*_*") == (2 if words == [] else 0)
    assert sentence in (home / "run" / "README.md").read_text()

    image = three_classes / "beach" / "0.png"
    predicted = ipl("predict", "run", image, "--classes", "beach,lake", "--json", *CPU).json
    assert {one["name"] for one in predicted["predictions"][0]["classes"]} == {"beach", "lake"}

    values = ipl("report", "run", "--json", "--data", three_classes, *CPU).json
    result = ipl("report", "run", "--data", three_classes, "--plain", "train", *CPU)
    assert result.code == 0, result.err
    assert sentence in result.out  # why the report has no gains
    text = "".join(check_page((home / "run-report.html").read_text()).text)
    assert sentence in text
    assert "without words, trained for comparison" in text
    for word in told["words"]:
        assert f"What “{word}” does" in text

    command = shlex.split(values["made"]["command"])
    assert options[0] in command
    again = ipl(*command[1:], "--out", home / "again", *CPU)
    assert again.code == 0, again.err
    file = "prompt.safetensors"
    assert (home / "again" / file).read_bytes() == (home / "run" / file).read_bytes()

    shown = ipl("export", "run", "--to", "text", "--json").json
    assert sentence in shown["text"]
    assert shown["gains"] == []
    assert ipl("export", "run", "--to", "classifier", "--out", "matrix").code == 0
    compared = ipl("compare", "run", "again", "--data", three_classes, "--json", *CPU)
    assert compared.code == 0, compared.err
    reason = "None of these runs has words" if words == [] else sentence
    assert reason in ipl("rate", "run").error


def test_a_run_with_empty_slots_may_be_the_baseline(
    fit: Call, ipl: Call, run: Path, home: Path
) -> None:
    assert fit("data", "--empty-slots", "--out", "empty").code == 0
    values = ipl("report", run, "--data", "data", "--plain", "empty", "--json", *CPU).json
    assert "its slots for words are empty" in values["plain_learner"]["how"]


def test_the_folder_of_a_run_names_its_slots(fit: Call, three_classes: Path, home: Path) -> None:
    assert fit(three_classes, "--empty-slots").code == 0
    (folder,) = (home / "ipl-runs").iterdir()
    assert folder.name == "data-coop-1w-empty-seed1"
    assert json.loads((folder / "config.json").read_text())["config"]["empty_slots"] is True
