"""`ipl predict`: classes with probabilities for files, folders and other class lists."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipl.classifier import PromptClassifier
from ipl_scenes import draw

Call = Callable[..., Any]


@pytest.fixture
def beach(home: Path) -> Path:
    """Returns an image that the saved run has not seen."""
    draw("beach", 11).save(home / "new beach.png")
    return home / "new beach.png"


def test_json_agrees_with_python(predict: Call, beach: Path, saved_run: Path) -> None:
    result = predict(beach, "--json")
    assert result.code == 0
    assert result.err == ""
    classifier = PromptClassifier.from_pretrained(saved_run, device="cpu")
    (expected,) = classifier.predict_proba([beach])
    (prediction,) = result.json["predictions"]
    assert prediction["image"] == str(beach)
    names = [ranked["name"] for ranked in prediction["classes"]]
    assert names == [classifier.classes_[i] for i in np.argsort(-expected)]
    values = [ranked["probability"] for ranked in prediction["classes"]]
    assert values == pytest.approx(sorted(expected, reverse=True), abs=1e-6)
    assert sum(values) == pytest.approx(1, abs=1e-5)
    assert result.json["words"] == classifier.words_
    assert result.json["prompt"] == classifier.prompt_
    assert result.json["skipped"] == []


def test_text_shows_image_and_percentages(predict: Call, beach: Path) -> None:
    result = predict(beach)
    (prediction,) = predict(beach, "--json").json["predictions"]
    assert str(beach) in result.out
    for ranked in prediction["classes"]:
        assert f"{ranked['name']} {100 * ranked['probability']:.1f} %" in result.out


@pytest.mark.parametrize(("top", "shown"), [(1, 1), (2, 2), (5, 3), (10**6, 3)])
def test_top(top: int, shown: int, predict: Call, beach: Path) -> None:
    (prediction,) = predict(beach, "--json", "--top", top).json["predictions"]
    assert len(prediction["classes"]) == shown


def test_top_below_1_is_refused(predict: Call, beach: Path) -> None:
    result = predict(beach, "--top", 0)
    assert result.code == 2
    assert "--top" in result.err


def test_other_classes_from_a_list_and_from_a_file(
    predict: Call, beach: Path, home: Path, saved_run: Path
) -> None:
    names = ["lake", "starry night", "volcano"]
    text = "\ufefflake\n\n # by night\n  starry_night \n#island\nvolcano\n"
    (home / "names.txt").write_text(text, encoding="utf-8")
    listed = predict(beach, "--classes", "lake, starry night ,volcano", "--json").json
    filed = predict(beach, "--classes", home / "names.txt", "--json").json
    assert filed == listed
    other = PromptClassifier.from_pretrained(saved_run, device="cpu").with_classes(names)
    expected = dict(zip(names, other.predict_proba([beach])[0], strict=True))
    (prediction,) = listed["predictions"]
    found = {ranked["name"]: ranked["probability"] for ranked in prediction["classes"]}
    assert found == pytest.approx(expected, abs=1e-6)


def test_a_class_in_quotes_may_hold_a_comma(predict: Call, beach: Path) -> None:
    told = predict(beach, "--classes", '"castle, old", "castle, new",5" pipe', "--json").json
    (prediction,) = told["predictions"]
    names = {ranked["name"] for ranked in prediction["classes"]}
    assert names == {"castle, old", "castle, new", '5" pipe'}


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        ('lake,"castle', "cannot be read as names: unexpected end of data"),
        ("", "at least two"),
        ("lake", "at least two"),
        ("lake,,volcano", "empty name"),
        ("lake,Lake", "same name"),
        ("lake,café", "not ASCII"),
        ("lake," + "very " * 300, "300 tokens"),
    ],
)
def test_classes_that_cannot_be(classes: str, said: str, predict: Call, beach: Path) -> None:
    assert said in predict(beach, "--classes", classes).error


@pytest.mark.parametrize("text", ["", "one name\n"])
def test_a_class_file_with_too_few_names(text: str, predict: Call, beach: Path, home: Path) -> None:
    (home / "names.txt").write_text(text)
    message = predict(beach, "--classes", home / "names.txt").error
    assert "names.txt" in message
    assert "at least two" in message
    assert "no file" not in message  # it is one


def test_a_class_file_that_is_no_text(predict: Call, beach: Path, home: Path) -> None:
    (home / "names.txt").write_bytes(b"\xff\xfe\x00")
    assert "names.txt" in predict(beach, "--classes", home / "names.txt").error


def test_a_folder_means_all_images_in_it(predict: Call, home: Path) -> None:
    names = ["album/b.JPG", "album/deep/c.png", "album/é [final].png"]
    (home / "album" / "deep").mkdir(parents=True)
    for index, name in enumerate(names):
        draw("castle", index).save(home / name)
    (home / "album" / "notes.txt").write_text("no image")
    told = predict("album", "--json").json
    assert sorted(p["image"] for p in told["predictions"]) == sorted(names)
    assert told["skipped"] == []


def test_a_folder_leaves_out_hidden_files_and_folders_named_like_images(
    predict: Call, home: Path
) -> None:
    (home / "album" / "trip.jpg").mkdir(parents=True)
    (home / "album" / ".cache").mkdir()
    draw("castle", 0).save(home / "album" / "a.png")
    draw("castle", 0).save(home / "album" / ".cache" / "thumb.png")
    (home / "album" / "._a.png").write_bytes(b"a resource fork of macOS")
    told = predict("album", "--json").json
    assert [p["image"] for p in told["predictions"]] == ["album/a.png"]
    assert told["skipped"] == []


@pytest.mark.parametrize("name", ["photo[final].png", "a[b/c].png", "[red]x.png"])
def test_brackets_in_a_name_are_shown(name: str, predict: Call, home: Path) -> None:
    (home / name).parent.mkdir(exist_ok=True)
    draw("castle", 0).save(home / name)
    result = predict(name)
    assert result.code == 0
    assert name in result.out


def test_brackets_in_a_class_are_shown(predict: Call, beach: Path) -> None:
    result = predict(beach, "--classes", "[bold]lake,forest [dark]")
    assert "[bold]lake " in result.out
    assert "forest [dark] " in result.out


def test_broken_images_are_named_and_skipped(predict: Call, beach: Path, home: Path) -> None:
    (home / "fake.png").write_text("not an image")
    result = predict(beach, "fake.png", "--json")
    assert result.code == 0
    assert [p["image"] for p in result.json["predictions"]] == [str(beach)]
    assert result.json["skipped"] == ["fake.png: not an image"]
    assert result.err == "warning: skipped fake.png: not an image\n"
    assert "fake.png" in predict(beach, "fake.png", "--strict").error
    assert "fake.png" in predict("fake.png").error  # nothing is left to show


def test_missing_images_are_refused(predict: Call, home: Path) -> None:
    assert "nowhere.png" in predict("nowhere.png").error
    assert "x" * 300 in predict("x" * 300).error
    (home / "empty").mkdir()
    assert "no images" in predict("empty").error


def test_ctrl_c_stops_with_130(predict: Call, beach: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ipl.learners.learner.encode_files", interrupt)
    result = predict(beach)
    assert result.code == 130
    assert "nothing was written" in result.err


def test_a_run_with_more_words_than_the_default_schedule_has_time_for(
    ipl: Call, fit: Call, images: Call, home: Path
) -> None:
    from ipl.words.pool import Pool

    (home / "many.txt").write_text("\n".join(Pool.bundled().words[:12]))
    data = images(beach=1, castle=1)
    options = ["--words", 12, "--epochs", 12, "--m", 1, "--words-file", home / "many.txt"]
    assert fit(data, *options, "--out", home / "run").code == 0
    result = ipl("predict", home / "run", data, "--device", "cpu", "--quiet", "--json")
    assert result.code == 0, result.err
    assert len(result.json["words"]) == 12


def test_the_backbone_option_says_where_the_weights_are(
    ipl: Call, beach: Path, saved_run: Path, home: Path
) -> None:
    run = shutil.copytree(saved_run, home / "run")
    config = json.loads((run / "config.json").read_text())
    config["backbone"]["name"] = "/another/machine/clip"
    (run / "config.json").write_text(json.dumps(config))
    message = ipl("predict", run, beach, "--quiet").error
    assert "/another/machine/clip" in message
    assert "--backbone" in message  # the way out
    moved = ipl("predict", run, beach, "--backbone", "pocket", "--quiet", "--json")
    assert moved.json["predictions"] == ipl(
        "predict", saved_run, beach, "--quiet", "--json"
    ).json["predictions"]  # fmt: skip
