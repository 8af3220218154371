"""`ipl bench`: a grid from the command line, resumed, listed, refused, stopped."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ipl.bench.runner
from ipl.backbone.backbone import Backbone
from ipl.bench.plan import Plan
from ipl.bench.run import expand
from ipl.bench.runner import RunEnvironment
from ipl.classifier import PromptClassifier
from ipl.cli.bench import carry_out
from ipl.support.errors import ConfigError
from ipl.support.progress import SILENT
from tests.helpers.scenes import open_scene

NAMES = ("beach", "castle", "forest", "lake")
TWO = ("--arms", "words")  # with 0 words and with 1
Bench = Callable[..., Any]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a small EuroSAT of drawn scenes."""
    root = tmp_path_factory.mktemp("root")
    parts: dict[str, list[Any]] = {"train": [], "val": [], "test": []}
    for label, name in enumerate(NAMES):
        (root / "eurosat/2750" / name).mkdir(parents=True)
        for index in range(3):
            open_scene(name, index).save(root / "eurosat/2750" / name / f"{index}.png")
            parts["train" if index < 2 else "test"].append([f"{name}/{index}.png", label, name])
    (root / "eurosat/split_zhou_EuroSAT.json").write_text(json.dumps(parts))
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


def test_without_words_the_baselines_stay(bench: Bench) -> None:
    def titles(*more: object) -> list[str]:
        lines = bench(*more, "--dry-run").out.splitlines()
        return [line.partition("  ")[2].strip().rpartition("  ")[0] for line in lines[:-1]]

    assert titles("--words", "0") == ["eurosat, zero-shot", "eurosat, coop, no words, seed 1"]
    assert titles("--words", "0", "--arms", "plain") == ["eurosat, coop, no words, seed 1"]
    assert titles("--words", "0", "--arms", "zero-shot") == ["eurosat, zero-shot"]
    assert bench("--words", "0", "--dry-run").out.endswith("\n2 runs, 0 done.\n")
    plain = bench("--words", "0", "--arms", "plain", "--dry-run").out
    assert plain.endswith("\n1 run, 0 done.\n")


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
    assert "done    eurosat, coop, 1 word, seed 1" in bench(*TWO, "--dry-run").out
    assert len(list((home / "out/records").iterdir())) == 2


def test_a_failure_is_told_with_exit_code_1_and_done_again_when_asked(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = PromptClassifier.fit

    def fails(self: PromptClassifier, *arguments: Any, **more: Any) -> PromptClassifier:
        if self.words:
            raise RuntimeError("the lights went out")
        return fit(self, *arguments, **more)

    monkeypatch.setattr(PromptClassifier, "fit", fails)
    first = bench(*TWO)
    assert first.code == 1
    assert "1 of 2 runs are done, 1 failed." in first.out
    assert "RuntimeError: the lights went out" in first.out
    monkeypatch.undo()
    assert bench(*TWO).code == 1
    again = bench(*TWO, "--retry-failed", "--json")
    assert (again.code, again.json["failed"]) == (0, {})


def test_a_failure_is_told_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: PromptClassifier, *arguments: Any, **more: Any) -> PromptClassifier:
        raise RuntimeError("the lights went out")

    monkeypatch.setattr(PromptClassifier, "fit", fails)
    plain = ("--arms", "plain", "--words", "0")
    for _ in range(2):  # the second time it has failed before, so that nothing is run
        result = bench(*plain, quiet=False)
        assert (result.out + result.err).count("the lights went out") == 1


def test_ctrl_c_says_what_is_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = PromptClassifier.fit

    def stopped(self: PromptClassifier, *arguments: Any, **more: Any) -> PromptClassifier:
        if self.words:
            raise KeyboardInterrupt
        return fit(self, *arguments, **more)

    monkeypatch.setattr(PromptClassifier, "fit", stopped)
    result = bench(*TWO)
    assert result.code == 130
    assert "stopped: 1 of 2 runs are done." in result.err
    assert "the same command resumes from there" in result.err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--datasets", "eurosatt"], "There is no dataset 'eurosatt'"),
        (["--data", "nowhere"], "data is 'nowhere'; there is no such folder."),
        (["--words", "3"], "more than epochs (T = 2)"),
        (
            ["--seeds", "9" * 20],
            "seed is '99999999999999999999'; it must be a whole number from 0 to 4,294,967,295.",
        ),
        (["--arms", "wrods"], "arms contains 'wrods'; allowed are zero-shot"),
        (["--arms", "words", "--words", "0"], "words is 0, but the arm words needs 1 or more; the"),
        (["--arms", "empty", "--draws", "2"], "--draws is 2, but the arm random is not run; add"),
        (["--given", "nowhere", "--arms", "given", "--words", "0"], "no list of words nowhere"),
    ],
)
def test_bad_options_are_refused(bench: Bench, home: Path, more: list[str], message: str) -> None:
    assert message in bench(*more).error
    assert not (home / "out").exists()


@pytest.mark.parametrize("asked", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--jobs", "0"], "jobs is 0; it must be 1 or more."),
        (["--device", "gpu"], "device is 'gpu'; it must be auto, cpu, cuda, cuda:1 or mps."),
        (["--memory", "-1"], "memory is -1.0; it must be a number above 0."),
    ],
)
def test_how_runs_are_computed_is_checked_first(
    bench: Bench, home: Path, asked: tuple[str, ...], more: list[str], message: str
) -> None:
    assert message in bench(*asked, *more).error
    assert not (home / "out").exists()


@pytest.mark.parametrize(
    ("arms", "warned"),
    [
        ("plain", "--interval, --lambda and --words-file have no effect on the arm plain."),
        (
            "zero-shot,linear-probe",
            "--epochs, --interval, --lambda, --views and --words-file have no effect on the arms "
            "linear-probe and zero-shot.",
        ),
        ("empty", "--lambda and --words-file have no effect on the arm empty."),
        ("words-only", "--epochs, --interval and --views have no effect on the arm words-only."),
        ("plain,words", None),
    ],
)
def test_options_without_effect_are_told(bench: Bench, arms: str, warned: str | None) -> None:
    words = "0" if {*arms.split(",")} <= {"plain", "zero-shot", "linear-probe"} else "1"
    done = bench("--arms", arms, "--words", words, "--lambda", "0.3", "--dry-run")
    assert done.code == 0
    assert done.err == ("" if warned is None else f"warning: {warned}\n")


def test_arms_and_given_words(bench: Bench, home: Path) -> None:
    given = home / "given.yaml"
    given.write_text("eurosat: Sand, playfulness\n")
    options = ("--arms", "linear-probe,words-only,empty,random,given", "--draws", "2")
    options += ("--words", "1", "--given", given)
    listed = bench(*options, "--dry-run").out
    assert "to do   eurosat, coop, given words (sand, playfulness), seed 1" in listed
    assert "to do   eurosat, coop, 1 random word (draw 2), seed 1" in listed
    told = bench(*options, "--json").json
    assert (len(told["done"]), told["failed"]) == (7, {})
    records = [json.loads(path.read_text()) for path in (home / "out/records").iterdir()]
    chosen = {record["id"].rpartition("-seed")[0]: record["chosen"] for record in records}
    assert chosen["eurosat-coop-2w-given"] == ["sand", "playfulness"]
    assert chosen["eurosat-coop-2w-empty"] == []  # as many slots as given words
    assert chosen["eurosat-coop-1w-empty"] == chosen["eurosat-linear-probe-0w"] == []
    assert len(chosen["eurosat-words-only-1w"]) == len(chosen["eurosat-coop-1w-random2"]) == 1


def test_own_data_needs_no_root(ipl: Callable[..., Any], root: Path, home: Path) -> None:
    mine = root / "eurosat" / "2750"
    options = ["--arms", "zero-shot", "--shots", "1", "--seeds", "1", "--device", "cpu"]
    options += ["--out", home / "out", "--quiet", "--json"]
    done = ipl("bench", "base-to-novel", "--datasets", mine, *options)
    assert done.code == 0
    (name,) = done.json["done"]
    assert name.startswith("2750-zero-shot")
    (record,) = (json.loads(path.read_text()) for path in (home / "out/records").iterdir())
    assert record["data"]["test_images"] == {"base": 2 * 2, "novel": 2 * 3}
    refused = ipl("bench", "base-to-novel", "--datasets", "mine", *options)
    assert "no dataset 'mine', nor a folder or CSV file" in refused.error
    (home / "2750").mkdir()
    (home / "2750" / "eurosat.csv").write_text("path,label\n")
    taken = ipl("bench", "base-to-novel", "--datasets", home / "2750" / "eurosat.csv", *options)
    assert "which is a published dataset; rename it" in taken.error


def test_missing_shots_are_refused_whatever_is_asked(bench: Bench, root: Path, home: Path) -> None:
    own = Path(shutil.copytree(root, home / "own"))
    (own / "eurosat/2750/beach/1.png").unlink()
    for more in ((), ("--dry-run",)):
        error = bench("--data", own, *more).error
        assert "eurosat: 1 of the 4 training images that 2 shots and seed 1 draw" in error
    assert not (home / "out").exists()


def test_all_is_what_is_complete(bench: Bench, root: Path) -> None:
    result = bench("--datasets", "all", "--dry-run", "--json")
    assert {run["dataset"] for run in result.json["runs"]} == {"eurosat"}
    assert "dtd: no folder" in result.err


def test_every_run_is_logged(bench: Bench, home: Path) -> None:
    assert "must be NAME:TARGET" in bench("--log-to", "tensorboard").error
    done = bench("--log-to", "tensorboard:logs", "--json").json["done"]
    assert sorted(path.name for path in (home / "logs").iterdir()) == done
    for name in done:
        record = json.loads((home / "logs" / name / "record.json").read_text())
        assert record["id"] == name
    again = bench("--log-to", "tensorboard:others")
    assert f"warning: {len(done)} runs had been done before" in again.err
    assert not (home / "others").exists()


@pytest.mark.parametrize(("learners", "expected"), [("coop", False), ("coop,maple", True)])
def test_crops_are_kept_if_a_run_prompts_images(
    tmp_path: Path, learners: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[RunEnvironment] = []

    def spy(environment: RunEnvironment, *more: object) -> None:
        seen.append(environment)
        raise ConfigError("seen")

    monkeypatch.setattr("ipl.cli.bench.LocalEngine", spy)
    values = {"protocol": "few-shot", "datasets": "scenes", "shots": 1, "learners": learners}
    runs = tuple(expand(Plan.from_values(values)))
    with pytest.raises(ConfigError, match="seen"):
        carry_out(runs, tmp_path, RunEnvironment(""), 1, None, False, SILENT)
    assert [environment.keeps_crops for environment in seen] == [expected]
