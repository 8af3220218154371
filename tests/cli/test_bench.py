"""`ipl bench`: a grid from the command line, resumed, listed, refused, stopped."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ipl.bench.runner
from ipl.backbone.backbone import Backbone
from ipl.classifier import PromptClassifier
from tests.helpers.scenes import draw_split

NAMES = ("beach", "castle", "forest", "lake")
TWO = ("--arms", "words")  # with 0 words and with 1
Bench = Callable[..., Any]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a small EuroSAT of drawn scenes."""
    root = tmp_path_factory.mktemp("root")
    draw_split(root / "eurosat/2750", root / "eurosat/split_zhou_EuroSAT.json", NAMES, test=1)
    return root


@pytest.fixture(autouse=True)
def _pocket_is_loaded(pocket: Backbone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ipl.bench.runner, "load_backbone", lambda *how: pocket)


@pytest.fixture
def bench(ipl: Callable[..., Any], root: Path, home: Path, words_file: Path) -> Bench:
    """Returns a quick `ipl bench base-to-novel`; an option given again overrides."""

    def call(*more: object, protocol: str = "base-to-novel", quiet: bool = True) -> Any:
        quick = "--shots 2 --seeds 1 --words 0,1 --epochs 2 --interval 1 --views 0 --device cpu"
        where = ["--data", root, "--datasets", "eurosat", "--out", home / "out"]
        options = [*quick.split(), *where, "--words-file", words_file, *more]
        return ipl("bench", protocol, *options, *(["--quiet"] if quiet else []))

    return call


def test_runs_are_done_once_and_told(bench: Bench, home: Path) -> None:
    listed = bench(*TWO, "--dry-run", "--json").json["runs"]
    assert [run["status"] for run in listed] == ["to do", "to do"]
    assert not (home / "out").exists()
    first = bench(*TWO, "--json").json
    assert sorted(first["done"]) == sorted(run["id"] for run in listed)
    assert first["new"] == first["done"]
    second = bench(*TWO)
    assert second.code == 0
    assert "2 of 2 runs are done, 2 of them earlier." in second.out
    assert "table" in second.out
    assert "done    eurosat-coop-1w-seed1-" in bench(*TWO, "--dry-run").out
    assert len(list((home / "out/records").iterdir())) == 2


def stop_at_words(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Lets every fit with words end with an error."""
    fit = PromptClassifier.fit

    def stopped(self: PromptClassifier, *arguments: Any, **more: Any) -> PromptClassifier:
        if self.words:
            raise error
        return fit(self, *arguments, **more)

    monkeypatch.setattr(PromptClassifier, "fit", stopped)


def test_a_failure_is_told_with_exit_code_1_and_done_again_when_asked(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_at_words(monkeypatch, RuntimeError("the lights went out"))
    first = bench(*TWO)
    assert first.code == 1
    assert "1 of 2 runs are done, 1 failed." in first.out
    assert "RuntimeError: the lights went out" in first.out
    monkeypatch.undo()
    assert bench(*TWO).code == 1
    again = bench(*TWO, "--retry-failed", "--json")
    assert (again.code, again.json["failed"]) == (0, {})


def test_ctrl_c_says_what_is_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_at_words(monkeypatch, KeyboardInterrupt())
    result = bench(*TWO)
    assert result.code == 130
    assert "stopped: 1 of 2 runs are done." in result.err
    assert "the same command resumes from there" in result.err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--datasets", "eurosatt"], "There is no dataset 'eurosatt'"),
        (["--data", "nowhere"], "data is 'nowhere'; there is no such folder."),
        (["--given", "nowhere", "--arms", "given", "--words", "0"], "No such file: nowhere"),
    ],
)
def test_bad_options_are_refused(bench: Bench, home: Path, more: list[str], message: str) -> None:
    assert message in bench(*more).error
    assert not (home / "out").exists()


def test_every_run_is_logged(bench: Bench, home: Path) -> None:
    assert "must be NAME:TARGET" in bench("--log-to", "tensorboard").error
    done = bench("--log-to", "tensorboard:logs", "--json").json["done"]
    assert sorted(path.name for path in (home / "logs").iterdir()) == done
    again = bench("--log-to", "tensorboard:others")
    assert f"warning: {len(done)} runs had been done before" in again.err
    assert not (home / "others").exists()


def test_a_setting_varies(bench: Bench) -> None:
    vary = ("--words", "1", *TWO, "--vary")
    listed = bench(*vary, "lambda=0,paper,0.3", "--dry-run", "--json").json["runs"]
    assert [run["settings"]["lambda_"] for run in listed] == [0, 0.1, 0.3]
    sentence = "a {cls}, with: {words}"
    listed = bench(*vary, f"template={sentence}", "--dry-run", "--json").json["runs"]
    assert [run["settings"]["template"] for run in listed] == [sentence]
    assert "lambda is 'x'" in bench(*vary, "lambda=x").error
    assert "vary is 'lambda'" in bench(*vary, "lambda").error
    assert "one setting can vary" in bench(*vary, "lambda=1", "--vary", "m=1").error


def test_recipes_run_with_the_data_that_is_there(bench: Bench) -> None:
    def runs(*names: str) -> Any:
        options = [option for name in names for option in ("--recipe", name)]
        return bench(*options, "--words", "1", "--learners", "coop", "--dry-run", "--json")

    one, both = runs("base-to-novel"), runs("base-to-novel", "penalty")
    assert (len(one.json["runs"]), len(both.json["runs"])) == (3, 4)  # lambda 0 is new


def test_the_whole_paper_names_what_is_missing(ipl: Callable[..., Any], root: Path) -> None:
    result = ipl("bench", "--recipe", "paper", "--data", root, "--shots", 2, "--dry-run", "--json")
    assert {run["dataset"] for run in result.json["runs"]} == {"eurosat"}
    for missing in ("dtd: no folder", "recipe cross-dataset is left out", "recipe domain is left"):
        assert missing in result.err
    refused = ipl("bench", "--recipe", "domain", "--data", root, "--dry-run")
    assert refused.code == 2


def test_prompts_are_kept_and_can_be_rated(
    bench: Bench, ipl: Callable[..., Any], home: Path, words_file: Path
) -> None:
    done = bench("--arms", "plain,empty,words", "--words", "1", "--save-prompts", "--json")
    kept = sorted(path.name for path in (home / "out" / "prompts").iterdir())
    assert kept == done.json["done"]
    plain, words = (home / "out" / "prompts" / name for name in kept if "empty" not in name)
    rated = ipl("rate", words, plain, "--words-file", words_file, "--out", "sheet.csv", "--quiet")
    assert rated.code == 0, rated.err
    keys = json.loads((home / "sheet.key.json").read_text())
    assert [key["method"] for key in keys] == ["prompt", "nearest", "random"]
