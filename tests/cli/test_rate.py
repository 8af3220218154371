"""`ipl rate`, as a user calls it; what its page does is tested in rating/ and browser/."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import ipl as ipl_package
from ipl.apps.hosts import listen
from ipl.backbone.backbone import Backbone
from ipl.bench.claims import Claims
from ipl.explain.ratings.raters import Raters
from ipl.explain.ratings.study import read_study
from tests.helpers.page_check import check_page

CPU = ("--device", "cpu", "--quiet")
Ipl = Callable[..., Any]


@pytest.fixture(autouse=True)
def _loaded_once(monkeypatch: pytest.MonkeyPatch, pocket: Backbone) -> None:
    """Lets the many calls of these tests share the backbone; it is frozen."""
    monkeypatch.setattr("ipl.saving.restore.load_backbone", lambda *_, **__: pocket)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, home: Path) -> list[str]:
    """Returns the people who rate as soon as a study is served, and lets no server run."""
    people: list[str] = []

    def serve(app: Any, bound: Any, limits: Any) -> None:
        for folder in home.glob("*-ratings"):
            study = read_study(folder)
            for number, name in enumerate(people):
                for item in sorted(study.items):
                    Raters(folder, study).rate(name, item, 1 + (ord(item[0]) + number) % 5)

    monkeypatch.setattr("ipl.apps.server.run_server", serve)
    return people


@pytest.fixture
def rate(ipl: Ipl, run: Path, words_file: Path) -> Ipl:
    """Returns `ipl rate run` with all that a new study needs."""
    new = ("--data", "data", "--words-file", words_file, "--port", 0, "--device", "cpu")
    return lambda *more: ipl("rate", run.name, *new, *more)


def test_a_study_from_its_making_to_the_report(
    rate: Ipl, ipl: Ipl, run: Path, home: Path, words_file: Path, served: list[str]
) -> None:
    told = rate()
    assert told.code == 0, told.err
    assert "can be rated at http://127.0.0.1:" in told.err
    assert "No one has rated yet." in told.out
    study = read_study(home / "run-ratings")
    assert len(study.items) >= 2
    served += ["Anna", "=Bo"]
    again = rate("--quiet")  # the same command goes on with it
    assert (again.code, again.err) == (0, "")
    assert read_study(home / "run-ratings") == study
    assert "chosen words" in again.out
    assert "Krippendorff's alpha (ordinal) is" in again.out
    rows = list(csv.DictReader((home / "run-ratings" / "ratings.csv").open()))
    assert {row["rater"] for row in rows} == {"Anna", "'=Bo"}
    assert len(rows) == 2 * 3  # two people, a word in each of three lists
    values = ipl("rate", "run-ratings", "--results", "--json", "--quiet").json
    mine = [int(row["rating"]) for row in rows if row["method"] == "chosen"]
    assert values["runs"][0]["lists"][0]["mean"] == sum(mine) / 2
    assert values["done"] == [
        {"rater": "=Bo", "items": len(study.items)},
        {"rater": "Anna", "items": len(study.items)},
    ]
    assert sorted(path.name for path in run.iterdir()) == [
        "README.md",
        "config.json",
        "prompt.safetensors",
    ]
    # The report finds it beside the run, names nobody, and says so if it is of no use.
    report = ("report", "run", "--words-file", words_file, *CPU)
    assert ipl(*report).code == 0
    text = "".join(check_page((home / "run-report.html").read_text()).text)
    assert "What people say" in text
    assert "2 people rated" in text
    assert "Anna" not in text
    printed = ipl(*report, "--json", "--overwrite")
    assert printed.json["people"]["lists"][0]["mean"] == sum(mine) / 2
    assert "Anna" not in printed.out
    side = ipl("compare", "run", "run", "--ratings", "run-ratings", "--json", *CPU)
    assert side.json["runs"][0]["people"]["lists"][0]["mean"] == sum(mine) / 2


def test_a_run_that_was_trained_again(
    rate: Ipl, ipl: Ipl, run: Path, fit: Ipl, words_file: Path, served: list[str]
) -> None:
    assert rate("--quiet").code == 0
    report = ("report", "run", "--words-file", words_file, "--json", *CPU)
    nobody = ipl(*report).json
    assert nobody["people"] is None
    assert "No one has rated words of run" in nobody["missing"][-1]["why"]
    assert fit("data", "--seed", 2, "--out", run, "--overwrite").code == 0
    assert "is a study of other runs" in rate().error
    beside = ipl(*report).json
    assert "does not contain the run run as it is now" in beside["missing"][-1]["why"]
    refused = ipl("report", "run", "--ratings", "run-ratings", *CPU).error
    assert "does not contain the run" in refused


def test_what_is_wrong_is_said_before_anything_is_made(
    rate: Ipl, ipl: Ipl, run: Path, home: Path, words_file: Path, fit: Ipl, served: list[str]
) -> None:
    assert fit("data", "--words", 0, "--out", home / "bare").code == 0
    before = sorted(home.iterdir())
    assert "No saved run at nowhere" in ipl("rate", "nowhere").error
    assert "data is neither a saved run (config.json) nor a study" in ipl("rate", "data").error
    assert "has no words; there is nothing to rate" in ipl("rate", "bare").error
    assert "are the same prompt" in ipl("rate", "run", "run").error
    assert "give the data of the runs with --data" in ipl("rate", "run").error
    assert "give --words-file" in ipl("rate", "run", "--data", "data", "--port", 0, *CPU).error
    assert "No such file or folder: gone." in ipl("rate", "run", "--data", "gone").error
    assert "2 --data given for 1 run;" in rate("--data", "gone").error
    assert "There is no study at run-ratings yet." in ipl("rate", "run", "--results").error
    assert "data holds other files" in rate("--out", "data").error
    assert "is a file; a study is a folder" in rate("--out", words_file).error
    assert "Cannot listen on" in rate("--host", "256.0.0.1").error
    with closing(listen("127.0.0.1", 0)) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        assert f"port {port} of '127.0.0.1'" in rate("--port", port).error
    assert sorted(home.iterdir()) == before


def test_what_is_wrong_with_a_study(
    rate: Ipl, ipl: Ipl, home: Path, served: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = rate("--host", "0.0.0.0", "--quiet")
    assert "0.0.0.0 can be reached from other machines; there is no authentication" in told.err
    assert "give it alone" in ipl("rate", "run-ratings", "run").error
    assert "give it alone" in ipl("rate", "run-ratings", "--out", "x").error
    monkeypatch.setattr(Claims, "take", lambda self, name: False)
    assert "is being served by another process" in ipl("rate", "run-ratings", "--port", 0).error
    (home / "run-ratings" / "study.json").write_text("{")
    assert "study.json is damaged" in ipl("rate", "run-ratings").error
    assert "study.json is damaged" in rate().error


def test_stopped_while_the_study_is_made(
    rate: Ipl, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ipl.explain.ratings.make_study.train_baseline", stop)
    told = rate("--quiet")
    assert (told.code, told.out, told.err) == (130, "", "\nstopped: no study was made.\n")
    assert not (home / "run-ratings").exists()
    assert not [path for path in home.iterdir() if path.name.startswith(".")]


def test_a_learner_without_words_can_be_given(
    rate: Ipl, home: Path, fit: Ipl, served: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fit("data", "--words", 0, "--out", home / "bare").code == 0
    monkeypatch.setattr("ipl.explain.ratings.make_study.train_baseline", None)
    assert rate("--plain", "bare", "--quiet").code == 0
    value = json.loads((home / "run-ratings" / "study.json").read_text())
    assert value["runs"][0]["plain"] == "coop without words, the run bare"


def test_only_the_page_needs_the_extra(
    ipl: Ipl, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)
    for module in ("ipl.apps.rate", "ipl.apps.rate.app"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    message = ipl("rate", "run", "--data", "data").error
    assert "fastapi" in message
    assert "pip install 'ipl[serve]'" in message
    room = Path(ipl_package.__file__).parent / "explain" / "ratings"
    assert not [path.name for path in room.glob("*.py") if "ipl.apps" in path.read_text()]
