"""`ipl report` for one run and for several, as a user calls it."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

from ipl.support import hub
from tests.helpers.page_check import check_page

CPU = ("--device", "cpu", "--quiet")
Ipl = Callable[..., Any]


def test_a_page_beside_the_run(ipl: Ipl, run: Path, home: Path, words_file: Path) -> None:
    before = sorted(path.name for path in run.iterdir())
    more = ("--words-file", words_file, "--resamples", "1")
    result = ipl("report", "run", "--data", "data", *more, *CPU)
    assert result.code == 0, result.err
    assert "Written:  run-report.html" in result.out
    answers = " ".join(result.out.split("\n\n")[0].split())
    assert answers.startswith("What should I use? ")
    assert " How good is it? On 3 held-out images the prompt with its head is right for " in answers
    assert " 95 % intervals over these images" in answers
    assert " Do the words matter? " in answers
    page = check_page((home / "run-report.html").read_text())
    word = json.loads((run / "config.json").read_text())["words"][0]
    assert word in "".join(page.text)
    assert sorted(path.name for path in run.iterdir()) == before
    assert "already exists" in ipl("report", "run", *CPU).error
    assert ipl("report", "run", "--overwrite", *CPU).code == 0
    assert "What this report does not have" in (home / "run-report.html").read_text()
    assert ipl("report", "run", "--out", "other.HTM", *CPU).code == 0
    check_page((home / "other.HTM").read_text())


def test_other_formats_and_the_command_that_repeats_it(
    ipl: Ipl, run: Path, home: Path, words_file: Path
) -> None:
    options = ("--data", "data", "--words-file", words_file, "--resamples", "0", *CPU)
    result = ipl("report", "run", "--json", *options)
    assert result.code == 0, result.err
    values = result.json
    assert not (home / "run-report.html").exists()
    command = shlex.split(values["sections"]["made"]["command"].replace("DATA", "data"))
    again = ipl(*command[1:], "--out", home / "again", *CPU)
    assert again.code == 0, again.err
    file = "prompt.safetensors"
    assert (home / "again" / file).read_bytes() == (run / file).read_bytes()
    assert ipl("report", "run", "--out", "r.JSON", *options).code == 0
    assert json.loads((home / "r.JSON").read_text())["words"] == values["words"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nowhere",), "No saved run at nowhere"),
        (("run", "--data", "nowhere"), "No such file or folder: nowhere."),
        (("run", "--out", "r.pdf"), "--out is r.pdf"),
        (("run", "--resamples", "-1"), "'--resamples': it must be greater than or equal to 0"),
    ],
)
def test_bad_input_gets_one_sentence(
    ipl: Ipl, run: Path, home: Path, arguments: tuple[str, ...], told: str
) -> None:
    before = sorted(home.iterdir())
    assert told in ipl("report", *arguments, *CPU).error
    assert sorted(home.iterdir()) == before


def test_runs_side_by_side(ipl: Ipl, run: Path, home: Path) -> None:
    shutil.copytree(run, home / "other")
    result = ipl("report", "run", "other", "--data", "data", *CPU)
    assert result.code == 0, result.err
    assert result.out.startswith("Held-out accuracy of each run\n")
    rows = [line.split() for line in result.out.splitlines()]
    assert rows[1][:6] == ["run", "accuracy", "95", "%", "interval", "images"]
    assert [row[0] for row in rows[2:4]] == ["run", "other"]
    assert "\nother: not distinguishable from run (" in result.out
    assert "All were scored now on the same 3 images; images that one of them" in result.out
    text = "".join(check_page((home / "ipl-comparison.html").read_text()).text)
    assert "2 prompts side by side" in text
    values = ipl("report", "run", "other", "--json", *CPU).json
    assert [one["name"] for one in values["runs"]] == ["run", "other"]


def test_runs_on_the_hub(ipl: Ipl, run: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "hub_reachable", lambda: True)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, **_: str(run))
    before = {path.name for path in home.iterdir()}
    result = ipl("report", "ada/scenes", *CPU)
    assert result.code == 0, result.err
    assert "Written:  ada-scenes-report.html" in result.out
    assert {path.name for path in home.iterdir()} - before == {"ada-scenes-report.html"}
    assert "What “scenes” has learnt" in (home / "ada-scenes-report.html").read_text()
    values = ipl("report", "run", "ada/scenes", "--json", *CPU).json
    assert [one["run"] for one in values["runs"]] == ["run", "ada/scenes"]
    assert [one["name"] for one in values["runs"]] == ["run", "scenes"]
