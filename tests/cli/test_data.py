"""`ipl data check`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

from ipl.datasets.benchmarks import BENCHMARKS

Call = Callable[..., Any]


def _pets(root: Path, tests: int) -> Path:
    """Returns a root with OxfordPets in its published number of classes; files are empty."""
    (root / "oxford_pets/images").mkdir(parents=True)
    classes = range(BENCHMARKS["oxford_pets"].classes)
    split = {
        "train": [[f"{n}.jpg", n, f"class {n}"] for n in classes],
        "test": [
            [f"t{n}.jpg", n % len(classes), f"class {n % len(classes)}"] for n in range(tests)
        ],
    }
    for rows in split.values():
        for name, _, _ in rows:
            (root / "oxford_pets/images" / name).touch()
    (root / "oxford_pets/split_zhou_OxfordPets.json").write_text(json.dumps(split))
    return root


def test_check_of_published_sets(ipl: Call, tmp_path: Path) -> None:
    root = _pets(tmp_path, 3_669)
    shown = ipl("data", "check", root)
    assert shown.code == 0  # what is there is complete
    row = next(line for line in shown.out.splitlines() if line.startswith("oxford_pets"))
    assert row.split()[:4] == ["oxford_pets", "37", "3,669", "found"]
    both = ipl("data", "check", root, "oxford_pets", "dtd")
    assert both.code == 1
    assert BENCHMARKS["dtd"].home in both.out
    (root / "oxford_pets/images/t7.jpg").rename(tmp_path / "elsewhere.jpg")
    report = ipl("data", "check", root, "--json")
    assert report.code == 1
    assert report.json["complete"] is False
    (state,) = [s for s in report.json["datasets"] if s["state"] != "missing"]
    assert "images/t7.jpg" in state["problems"][0]
    assert "Did you mean 'dtd'" in ipl("data", "check", tmp_path, "dtdd").error


def _own_data(root: Path) -> Path:
    """Returns a folder of images with one of everything that is worth a note."""
    for part, name, count in (("train", "cat", 2), ("train", "dog", 2), ("test", "cat", 1)):
        (root / part / name).mkdir(parents=True)
        for index in range(count):
            color = (len(name + part) * 9, index * 99, ord(name[0]))
            Image.new("RGB", (8, 8), color).save(root / part / name / f"{index}.png")
    shutil.copy(root / "train/cat/0.png", root / "test/cat/copy.png")
    (root / "train/dog/bad.jpg").write_bytes(b"no image")
    (root / "train/beside.png").write_bytes(b"")
    return root


def test_check_of_your_own_data(ipl: Call, tmp_path: Path) -> None:
    root = _own_data(tmp_path / "pets")
    shown = ipl("data", "check", root, "--quiet")
    assert (shown.code, shown.err) == (0, "")
    rows = [line.split() for line in shown.out.splitlines()]
    assert rows[0] == ["class", "training", "images", "held-out", "images", "unreadable"]
    assert [row for row in rows if row and row[0] in ("cat", "dog", "all")] == [
        ["cat", "2", "2", "0"],
        ["dog", "2", "0", "1"],
        ["all", "4", "2", "1"],
    ]
    report = ipl("data", "check", root, "--json", "--quiet").json
    assert report["classes"][1] == {"name": "dog", "train": 2, "held_out": 0, "unreadable": 1}
    assert [(each["kind"], each["names"]) for each in report["findings"]] == [
        ("image beside the class folders", [str(root / "train/beside.png")]),
        ("class without held-out images", ["dog"]),
        (
            "copy in training and held-out images",
            [f"{root / 'train/cat/0.png'} = {root / 'test/cat/copy.png'}"],
        ),
        ("unreadable image", [f"{root / 'train/dog/bad.jpg'}: not an image"]),
    ]
    assert all(each["note"] in shown.out for each in report["findings"])


def test_all_that_a_fit_stops_at_is_named_in_one_go(ipl: Call, tmp_path: Path) -> None:
    root = _own_data(tmp_path / "pets")
    shutil.rmtree(root / "train/dog")
    shutil.rmtree(root / "test/cat")
    (root / "test/cow").mkdir()
    report = ipl("data", "check", root, "--json", "--quiet")
    assert report.code == 2
    stopping = {
        each["kind"]: each["names"] for each in report.json["findings"] if each["stops_fit"]
    }
    assert stopping == {
        "only one class": ["cat"],
        "held-out class without training images": [str(root / "test/cow")],
        "empty part": [str(root / "test")],
    }
    assert ipl("data", "check", root, "--quiet").out.count("ipl fit cannot use the data.") == 3
    assert "nly one class: cat" in ipl("fit", root).error  # a fit stops at the first
