"""`ipl evaluate`: what it prints and writes, and its exit codes."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


@pytest.fixture
def evaluate(ipl: Call, run: Path) -> Call:
    """Returns `ipl evaluate` with a run of three classes and its data, two of three trained on."""

    def call(*more: object, data: str = "data") -> Any:
        return ipl("evaluate", run, data, "--device", "cpu", "--quiet", *more)

    return call


def test_text_has_the_verdict_the_numbers_and_every_class(evaluate: Call) -> None:
    result = evaluate("--threshold")
    left_out = evaluate("--json").json["left_out"]
    assert len(left_out) == 6
    assert result.code == 0
    assert result.err == ""
    assert "On 3 images (without the 6 images that it was trained on)\n" in result.out
    assert f"Left out as training images: {', '.join(left_out[:3])} and 3 more\n" in result.out
    for word in ("zero-shot", "(ECE)", "beach", "castle", "forest", "none of these"):
        assert word in result.out


def test_json_and_csv_agree(evaluate: Call, home: Path) -> None:
    told = evaluate("--json", "--csv", "classes.csv", "--predictions", "images.csv").json
    assert told["images"] == 3
    rows = list(csv.DictReader((home / "classes.csv").open(encoding="utf-8")))
    assert [row["class"] for row in rows] == ["beach", "castle", "forest"]
    for row, each in zip(rows, told["classes"], strict=True):
        assert int(row["correct"]) == each["correct"]
        assert float(row["f1"]) == pytest.approx(each["f1"], abs=1e-6)
    images = list(csv.DictReader((home / "images.csv").open(encoding="utf-8")))
    assert sum(int(row["correct"]) for row in images) / 3 == pytest.approx(told["accuracy"])
    assert {Path(row["image"]).parent.name for row in images} == {"beach", "castle", "forest"}
    assert sum(map(sum, told["confusion"])) == 3


def test_min_accuracy_decides_the_exit_code(evaluate: Call, home: Path) -> None:
    if evaluate("--json").json["accuracy"] == 1:  # so that there is something to miss
        for one, other in (("beach", "x"), ("castle", "beach"), ("x", "castle")):
            (home / "data" / one).rename(home / "data" / other)
    accuracy = evaluate("--json").json["accuracy"]
    passed = evaluate("--min-accuracy", accuracy)
    assert (passed.code, passed.err) == (0, "")
    for as_json in ((), ("--json",)):
        failed = evaluate("--min-accuracy", min(1.0, accuracy + 0.1), *as_json)
        assert failed.code == 1
        assert failed.err.startswith(f"failed: the accuracy is {accuracy:.4f}, below ")
    assert failed.json["passed"] is False


def test_bad_input_is_code_2(evaluate: Call, home: Path) -> None:
    assert "No such file or folder: nothing" in evaluate(data="nothing").error
    assert evaluate("--min-accuracy", "1.5").code == 2
    assert "which this prompt does not classify" in evaluate("--classes", "sea,sand").error
    (home / "old.csv").write_text("")
    assert "choose another file with --csv" in evaluate("--csv", "old.csv").error
    assert "No such file or folder: nothing" in evaluate("--csv", "old.csv", data="nothing").error
    assert evaluate("--csv", "old.csv", "--overwrite").code == 0
    assert (home / "old.csv").read_text().startswith("class,")


def test_all_images_of_the_training_need_all(evaluate: Call, home: Path) -> None:
    for path in (home / "data").glob("*/2.png"):
        path.unlink()
    told = evaluate("--all", "--json").json
    assert (told["images"], told["left_out"]) == (6, [])
    assert "Left out" not in evaluate("--all").out


def test_the_part_that_was_held_out_is_evaluated_on_unless_another_is_named(
    evaluate: Call, run: Path, home: Path
) -> None:
    parts = ("train", "val", "test")
    rows = [
        f"{path.relative_to(home)},{path.parent.name},{part}\n"
        for name in ("beach", "castle", "forest")
        for path, part in zip(sorted((home / "data" / name).iterdir()), parts, strict=True)
    ]
    (home / "list.csv").write_text("path,label,split\n" + "".join(rows))
    config = json.loads((run / "config.json").read_text())
    config["training"]["image_hashes"] = []  # so that no image is left out
    for trained, options, part in (
        ("test", (), "test"),
        ("test", ("--held-out", "val"), "val"),
        ("val", (), "val"),
        ("val", ("--held-out", "test"), "test"),
    ):
        config["config"]["held_out"] = trained
        (run / "config.json").write_text(json.dumps(config))
        told = evaluate(*options, "--json", data="list.csv").json
        assert (told["images"], told["images_from"]) == (3, f"its {part} part")
    message = evaluate("--held-out", "train").error
    assert "held_out is 'train'; it must be one of test, val." in message
