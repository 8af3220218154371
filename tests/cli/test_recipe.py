"""`ipl recipe`, `ipl bench --recipe` and `ipl ablate`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.scenes import open_scene

Call = Callable[..., Any]
CLASSES = ("beach", "castle", "desert", "forest")
QUICK = ("--backbone", "pocket", "--shots", 2, "--views", 0, "--epochs", 4, "--device", "cpu")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a small EuroSAT of drawn scenes."""
    folder = tmp_path_factory.mktemp("root")
    parts: dict[str, list[Any]] = {"train": [], "val": [], "test": []}
    for label, name in enumerate(CLASSES):
        (folder / "eurosat" / "2750" / name).mkdir(parents=True)
        for index in range(4):
            open_scene(name, index).save(folder / "eurosat" / "2750" / name / f"{index}.png")
            parts["train" if index < 2 else "test"].append([f"{name}/{index}.png", label, name])
    (folder / "eurosat" / "split_zhou_EuroSAT.json").write_text(json.dumps(parts))
    return folder


@pytest.fixture
def ablate(ipl: Call, root: Path, words_file: Path, home: Path) -> Call:
    """Returns a quick `ipl ablate`; an option given again overrides."""

    def call(name: str, *more: object) -> Any:
        small = ("--datasets", "eurosat", "--seeds", "1,2", "--words-file", words_file)
        return ipl("ablate", name, "--data", root, "--out", home / "out", *QUICK, *small, *more)

    return call


def test_list_and_show(ipl: Call) -> None:
    names = [row["name"] for row in ipl("recipe", "list", "--json").json["recipes"]]
    assert "base-to-novel/coop" in names
    assert "domain/maple-ipl" in names
    shown = ipl("recipe", "list").out
    assert "CoOp + IPL, ImageNet to ten other datasets" in shown
    text = ipl("recipe", "show", "base-to-novel/coop").out
    assert "learners: coop\n" in text
    assert "no recipe 'base-to-novel/cop'" in ipl("recipe", "show", "base-to-novel/cop").error


def test_copy(ipl: Call, home: Path) -> None:
    done = ipl("recipe", "copy", "domain/coop", home / "mine.yaml")
    assert "--recipe" in done.out
    assert (home / "mine.yaml").read_text() == ipl("recipe", "show", "domain/coop").out
    assert "already exists" in ipl("recipe", "copy", "domain/maple", home / "mine.yaml").error
    ipl("recipe", "copy", "domain/maple", home / "mine.yaml", "--overwrite")
    assert "learners: maple" in (home / "mine.yaml").read_text()


def test_bench_runs_a_recipe(ipl: Call, root: Path, home: Path) -> None:
    recipe = ("--recipe", "base-to-novel/coop-ipl", "--data", root, "--dry-run", "--json")
    absent = ipl("bench", *recipe).error
    assert "has no folder of imagenet, caltech101, oxford_pets" in absent
    assert "sun397, dtd and ucf101; `ipl data check` says where" in absent
    runs = ipl("bench", *recipe, "--datasets", "eurosat").json["runs"]
    assert len(runs) == 3
    assert {run["backbone"] for run in runs} == {"openai/clip-vit-base-patch16"}
    short = ("--datasets", "eurosat", "--seeds", "1", *QUICK)
    recipe = ("--recipe", "base-to-novel/coop", "--data", root, "--out", home / "out")
    done = ipl("bench", *recipe, *short, "--quiet")
    assert done.code == 0, done.err
    (path,) = (home / "out" / "records").glob("*.json")
    record = json.loads(path.read_text())
    assert (record["words"], record["settings"]["epochs"], record["shots"]) == (0, 4, 2)
    shown = ipl("table", home / "out", "--json").json["tables"][0]["entries"][0]
    assert "the backbone is pocket, not CLIP ViT-B/16" in shown["differs_from_paper"]
    assert "2 base classes, not 5" in shown["differs_from_paper"]


def test_ablate_k(ablate: Call, home: Path) -> None:
    done = ablate("k", "--interval", 1, "--value", "1,2", "--quiet")
    assert done.code == 0, done.err
    assert "Ablation of the number of words" in done.out
    assert "4 of 4 runs are done" in done.out
    written = {path.name for path in (home / "out" / "ablations").iterdir()}
    assert written == {"k.md", "k.tex", "k.csv", "k.json", "k.svg", "k.png"}
    again = ablate("k", "--interval", 1, "--value", 1, "--value", 2, "--quiet", "--json").json
    assert [row["level"] for row in again["rows"] if row["dataset"] == "eurosat"] == [1, 2]
    assert all(row["seeds"] == [1, 2] for row in again["rows"])
    assert len(list((home / "out" / "records").iterdir())) == 4


def test_ablate_shares_runs_and_can_go_without_a_plot(ablate: Call, home: Path) -> None:
    one = ("--words", 1, "--interval", 1, "--no-plot", "--quiet")
    assert ablate("penalty", *one, "--value", "0,0.1").code == 0
    done = ablate("template", *one, "--value", "a photo of a {cls}, with emphasis on: {words}")
    assert "2 of 2 runs are done, 2 of them earlier." in done.out
    assert not (home / "out" / "ablations" / "template.png").exists()


def test_ablate_lists(ablate: Call, home: Path) -> None:
    listed = ablate(
        "interval", "--learners", "coop", "--words", 1, "--value", "1,2,4", "--dry-run", "--json"
    ).json
    assert [run["settings"]["interval"] for run in listed["runs"]] == [1, 1, 2, 2, 4, 4]
    assert not (home / "out" / "records").exists()


def test_refused(ablate: Call) -> None:
    assert "There is no ablation 'penalti'. Did you mean 'penalty'?" in ablate("penalti").error
    assert "jobs is -2; it must be 1 or more." in ablate("k", "--jobs", -2, "--dry-run").error
    assert "words is what k varies" in ablate("k", "--words", 3).error
    wrong = ablate("interval", "--value", "x").error
    assert wrong == "--value is 'x'; interval must be a whole number from 1 to 1,000,000."
    wrong = ablate("k", "--value", "1," + "9" * 20).error
    assert f"--value is {'9' * 20}; words must be a whole number from 0 to 1,000, or" in wrong
    assert "has no levels of words" in ablate("k", "--recipe", "domain/coop").error
