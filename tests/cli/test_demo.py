"""`ipl demo`: the whole way, shortened."""

from __future__ import annotations

import json
import shlex
import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ipl.classifier import PromptClassifier
from ipl.cli.demo import DemoSize
from ipl.datasets.scenes import CLASSES

Call = Callable[..., Any]
METHODS = {
    "zero-shot": "zero-shot CLIP",
    "linear-probe": "linear probe",
    "plain": "CoOp",
    "empty": "CoOp, empty slots",
    "words": "CoOp + IPL",
}
MEASURES = {"base": "base", "novel": "novel", "hm": "HM"}


@pytest.fixture(scope="module", autouse=True)
def _short(pool_file: Path) -> Iterator[None]:
    """Makes both demos small: few images, few words, few epochs, two seeds or one."""
    settings = {"epochs": 3, "interval": 1, "views": 0, "words_file": str(pool_file)}
    tiny = DemoSize(per_class=2, shots=2, words=3, seeds=(1, 2), settings=settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ipl.cli.demo.FULL", tiny)
        patch.setattr("ipl.cli.demo.QUICK", replace(tiny, seeds=(1,)))
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns where the demo puts everything; its name has a blank."""
    return tmp_path_factory.mktemp("demo") / "my demo"


@pytest.fixture(scope="module")
def first(folder: Path, _short: None, ipl: Call) -> Any:
    """Returns the result of the first demo in the folder."""
    return ipl("demo", "--json", "--quiet", "--device", "cpu", "--out", folder)


def test_json_and_what_is_saved(first: Any, folder: Path) -> None:
    result = first
    assert result.code == 0
    assert all(line.startswith("warning: ") for line in result.err.splitlines())
    told = result.json
    assert told == json.loads((folder / "results.json").read_text())
    assert {row["arm"]: row["method"] for row in told["summary"]} == METHODS
    for row in told["summary"]:
        runs = [run for run in told["runs"] if run["arm"] == row["arm"]]
        seeds = [1] if row["arm"] == "zero-shot" else [1, 2]  # nothing is drawn: one is enough
        assert [run["seed"] for run in runs] == row["seeds"] == seeds
        for measure, name in MEASURES.items():
            values = [100 * run[name] for run in runs if name in run]
            assert bool(values) == (measure in row)
            assert bool(values) == (row["arm"] != "linear-probe" or measure == "base")
            if values:
                assert row[measure]["mean"] == pytest.approx(statistics.mean(values))
                low, high = row[measure]["interval"]
                assert 0 <= low < high <= 100
                assert low - 1e-9 <= row[measure]["mean"] <= high + 1e-9
    for run in told["runs"]:
        base, novel = run["base"], run.get("novel")
        assert 0 <= base <= 1
        if novel is not None:
            assert run["HM"] == pytest.approx(2 * base * novel / (base + novel or 1))
        assert len(run["words"]) == (3 if run["arm"] == "words" else 0)
    accuracy = {method["name"]: method["accuracy"] for method in told["comparison"]["methods"]}
    base = {run["arm"]: run["base"] for run in told["runs"] if run["seed"] == 1}
    arms = {"zero-shot": "zero-shot", "linear-probe": "linear-probe"}
    arms |= {"empty": "without-words", "words": "prompt"}
    assert accuracy == pytest.approx({name: base[arm] for arm, name in arms.items()})
    assert told["verdict"].startswith("What it means for CoOp, on this one dataset (scenes): ")
    assert "words" in told["verdict"]
    assert len(list(Path(told["saved"]["bench"], "records").iterdir())) == len(told["runs"]) == 9
    assert told["words"] == [step["word"] for step in told["selection"]["steps"]]
    run, scenes = (Path(told["saved"][name]) for name in ("run", "scenes"))
    assert sum(1 for _ in scenes.rglob("*.jpg")) == 2 * 2 * len(CLASSES)
    classifier = PromptClassifier.from_pretrained(run, device="cpu")
    assert classifier.prompt_ == told["prompt"]
    assert classifier.classes_ == list(CLASSES[:10])


def test_text_shows_table_words_prompt_and_next_steps_that_work(
    first: Any, folder: Path, ipl: Call
) -> None:
    result = ipl("demo", "--quick", "--out", folder, "--device", "cpu")  # it can be repeated
    assert result.code == 0
    config = json.loads((folder / "run" / "config.json").read_text())
    lines = result.out.splitlines()
    assert "novel ones, seed 1\n" in result.out
    assert "95 % interval over images and seeds (drawn scenes" in result.out
    again = json.loads((folder / "results.json").read_text())
    for row in again["summary"]:
        (line,) = [line for line in lines if line.startswith(row["method"] + "  ")]
        assert all(f"{row[m]['mean']:.1f}" in line for m in MEASURES if m in row)
    assert again["verdict"].split(":")[0] in result.out
    for step in config["selection"]["steps"]:
        assert any(line.startswith(step["word"]) and f"{step['gain']:+.4f}" in line
                   for line in lines)  # fmt: skip
    assert config["prompt"] in result.out
    assert f"coop, 3 words, seed 1 ({', '.join(config['words'])}): base " in result.err
    assert again["runs"] == [run for run in first.json["runs"] if run["seed"] == 1]
    names = ["bench", "results.json", "run", "scenes"]
    assert sorted(path.name for path in folder.iterdir()) == names
    # What it says to type next can be typed: a folder with a blank is quoted.
    (advice,) = [line for line in lines if " predict " in line]
    words = shlex.split(advice)
    told = ipl(*words[words.index("predict") :], "--json", "--device", "cpu", "--quiet").json
    (prediction,) = told["predictions"]
    assert {c["name"] for c in prediction["classes"]} == {"castle", "bridge", "windmill"}


@pytest.mark.parametrize("name", ["run/thesis.txt", "cat/1.jpg"])
def test_a_folder_of_somebody_is_refused_at_once(name: str, ipl: Call, home: Path) -> None:
    path = home / "ipl-demo" / name
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    message = ipl("demo", "--quiet", "--device", "cpu").error
    assert "ipl-demo" in message
    assert path.parent.name in message
    assert path.read_text() == "mine"
    assert not (home / "ipl-demo" / "scenes").exists()  # nothing was unpacked for nothing


def test_ctrl_c_says_what_was_kept(ipl: Call, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ipl.bench.runner.Runner.fit", interrupt)
    result = ipl("demo", "--quiet", "--device", "cpu")
    assert result.code == 130
    assert result.out == ""
    assert "the images in ipl-demo/scenes" in result.err
    assert [p.name for p in (home / "ipl-demo").iterdir()] == ["scenes"]
