"""`ipl data list` and `check`."""

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


def test_list_has_every_set(ipl: Call) -> None:
    shown = ipl("data", "list")
    assert shown.code == 0
    assert all(name in shown.out for name in (*BENCHMARKS, "pacs/art_painting"))
    assert "a photo of a {}, a type of pet." in shown.out
    report = ipl("data", "list", "--json").json
    assert [b["name"] for b in report["datasets"]] == list(BENCHMARKS)
    assert report["datasets"][8]["teacher_template"] == "a photo of a {}, a type of texture."
    assert report["domains"][0]["images"]["photo"] == 1_670


def test_check_of_a_complete_set(ipl: Call, tmp_path: Path) -> None:
    root = _pets(tmp_path, 3_669)
    shown = ipl("data", "check", root)
    assert shown.code == 0  # what is there is complete
    row = next(line for line in shown.out.splitlines() if line.startswith("oxford_pets"))
    assert row.split()[:4] == ["oxford_pets", "37", "3,669", "found"]
    assert ipl("data", "check", root, "oxford_pets").code == 0
    both = ipl("data", "check", root, "oxford_pets", "dtd")
    assert both.code == 1
    assert BENCHMARKS["dtd"].home in both.out


def test_check_of_an_incomplete_set(ipl: Call, tmp_path: Path) -> None:
    root = _pets(tmp_path, 3_669)
    (root / "oxford_pets/images/t7.jpg").rename(tmp_path / "elsewhere.jpg")
    shown = ipl("data", "check", root)
    assert shown.code == 1
    assert "1 of 3,669 test images are missing: images/t7.jpg" in shown.out
    report = ipl("data", "check", root, "--json")
    assert report.code == 1
    assert report.json["complete"] is False
    (state,) = [s for s in report.json["datasets"] if s["state"] != "missing"]
    assert state["missing_images"] == {"train": 0, "test": 1}


def test_check_of_nothing(ipl: Call, tmp_path: Path) -> None:
    assert ipl("data", "check", tmp_path, "dtd").code == 1
    assert "No such folder" in ipl("data", "check", tmp_path / "no", "dtd").error
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
    assert ["cat", "2", "2", "0"] in rows
    assert ["dog", "2", "0", "1"] in rows
    assert ["all", "4", "2", "1"] in rows
    assert "4 things to know:" in shown.out
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
    (root / "train/dog/bad.jpg").unlink()
    shown = ipl("data", "check", root, "--quiet")
    assert ["dog", "2", "0"] in [line.split() for line in shown.out.splitlines()]
    assert "unreadable" not in shown.out


def test_a_class_without_a_readable_image_is_an_error_as_in_a_fit(
    ipl: Call, tmp_path: Path
) -> None:
    root = _own_data(tmp_path / "pets")
    (root / "train/bird").mkdir()
    (root / "train/bird/0.png").write_bytes(b"no image")
    shown = ipl("data", "check", root, "--quiet")
    assert shown.code == 2
    note = "1 class has no readable training image: bird; ipl fit cannot use the data."
    assert note in shown.out
    report = ipl("data", "check", root, "--json", "--quiet")
    assert report.code == 2
    assert report.json["findings"][-1]["note"] == note


def test_all_that_a_fit_stops_at_is_named_in_one_go(ipl: Call, tmp_path: Path) -> None:
    root = _own_data(tmp_path / "pets")
    shutil.rmtree(root / "train/dog")
    shutil.rmtree(root / "test/cat")
    (root / "test/cow").mkdir()
    report = ipl("data", "check", root, "--json", "--quiet")
    assert report.code == 2
    findings = [
        (each["kind"], each["names"], each["stops_fit"]) for each in report.json["findings"]
    ]
    assert findings == [
        ("image beside the class folders", [str(root / "train/beside.png")], False),
        ("single class", ["cat"], True),
        ("held-out class without training images", [str(root / "test/cow")], True),
        ("empty part", [str(root / "test")], True),
    ]
    shown = ipl("data", "check", root, "--quiet")
    assert shown.code == 2
    assert ["cat", "2", "0"] in [line.split() for line in shown.out.splitlines()]
    assert "There is only one class (cat), and a classifier needs at least two; " in shown.out
    assert f"- {root / 'test'} contains no image of a class; add some or remove it: " in shown.out
    assert f"training images: {root / 'test/cow'}; ipl fit cannot use the data." in shown.out
    assert "cow is not a class folder" in ipl("fit", root).error  # a fit stops at the first


def test_what_shots_leave(ipl: Call, tmp_path: Path) -> None:
    for name in ("cat/1", "cat/2", "cat/3", "dog/1"):
        path = tmp_path / "pets" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8)).save(path)
    shown = ipl("data", "check", tmp_path / "pets", "--shots", "1", "--quiet")
    assert "left by 1 shot" in shown.out
    report = ipl("data", "check", tmp_path / "pets", "--shots", "1", "--quiet", "--json").json
    assert [(each["train"], each["held_out"]) for each in report["classes"]] == [(3, 2), (1, 0)]


def test_check_of_a_table(ipl: Call, tmp_path: Path) -> None:
    _own_data(tmp_path / "pets")
    table = tmp_path / "list.csv"
    table.write_text("file;class\npets\\train\\cat\\0.png;cat\npets/train/dog/0.png;dog\n")
    shown = ipl("data", "check", table, "--quiet")
    assert shown.code == 0
    assert "1 thing to know:\n- No image is left to measure the accuracy on: 16 of" in shown.out
    rows = [f"pets/train/cat/0.png;{name}" for name in ("cat", "dog") for _ in range(17)]
    table.write_text("\n".join(["file;class", *rows]))
    assert "No image is left" not in ipl("data", "check", table, "--quiet").out
    table.write_text("a,b\n")
    assert "has the columns a, b;" in ipl("data", "check", table).error
