"""`ipl predict`: classes with probabilities, for one image or many."""

from __future__ import annotations

import gc
import io
import json
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ipl.backbone.zero_shot import zero_shot_logits
from ipl.classifier import PromptClassifier
from ipl.inference import image_encoder
from ipl.inference.stream import predict_stream
from tests.helpers.scenes import open_scene

Call = Callable[..., Any]


@pytest.fixture
def beach(home: Path) -> Path:
    """Returns an image that the saved run has not seen."""
    open_scene("beach", 11).save(home / "new beach.png")
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


def test_zero_shots_answer_stands_beside_where_it_disagrees(
    ipl: Call, home: Path, saved_run: Path
) -> None:
    names = ["lake", "volcano", "skyline", "castle", "sunset", "village"]
    for index, name in enumerate(names * 4):
        open_scene(name, index).save(home / f"{index:02}.png")
    images = sorted(home.glob("*.png"))
    result = ipl("predict", saved_run, *images, "--classes", ",".join(names), "--json")
    assert "Not trained on" in result.err
    classifier = PromptClassifier.from_pretrained(saved_run, device="cpu")
    features, backbone = classifier.encode(images), classifier.learner_.backbone
    best = zero_shot_logits(backbone, names, features, classifier.config.class_template).argmax(1)
    found = [p.get("zero_shot", p["classes"][0]["name"]) for p in result.json["predictions"]]
    assert found == [names[label] for label in best.tolist()]
    assert any("zero_shot" in prediction for prediction in result.json["predictions"])
    trained = ipl("predict", saved_run, *images, "--json")
    assert not any("zero_shot" in prediction for prediction in trained.json["predictions"])
    assert "Not trained on" not in trained.err


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        ('lake,"castle', "cannot be read as names: unexpected end of data"),
        ("lake", "at least two"),
        ("lake,Lake", "same name"),
    ],
)
def test_classes_that_cannot_be(classes: str, said: str, predict: Call, beach: Path) -> None:
    assert said in predict(beach, "--classes", classes).error


def test_pixels_are_limited(predict: Call, beach: Path, home: Path) -> None:
    Image.new("L", (100, 101)).save(home / "large.png")
    open_scene("beach", 11).convert("RGB").resize((100, 100)).save(home / "small.png")
    result = predict("large.png", "small.png", "--json", "--max-pixels", 10_000)
    reason = "the image has 100 x 101 pixels; at most 10,000 are allowed"
    assert result.json["skipped"] == [f"large.png: {reason}"]
    (limited,) = result.json["predictions"]
    (free,) = predict("small.png", "--json").json["predictions"]
    assert limited == free


def test_broken_images_are_named_and_skipped(predict: Call, beach: Path, home: Path) -> None:
    (home / "fake.png").write_text("not an image")
    result = predict(beach, "fake.png", "--json")
    assert result.code == 0
    assert [p["image"] for p in result.json["predictions"]] == [str(beach)]
    assert result.json["skipped"] == ["fake.png: not an image"]
    assert result.err == "warning: skipped fake.png: not an image\n"
    assert "fake.png" in predict(beach, "fake.png", "--strict").error
    alone = predict("fake.png")  # nothing is left to show
    assert (alone.code, alone.err.count("fake.png")) == (2, 1)


# -- many images: patterns, standard input, formats, thresholds, memory ----------------------------


@pytest.fixture
def album(home: Path) -> Path:
    """Returns a folder of three images, one of them in a folder of its own, and a broken file."""
    folder = home / "album"
    (folder / "deep").mkdir(parents=True)
    for index, name in enumerate(("a.png", "b.jpg", "deep/c.png")):
        open_scene("beach", index + 20).save(folder / name)
    (folder / "broken.png").write_text("no image")
    return folder


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Returns what puts bytes onto standard input."""
    return lambda data: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_paths_from_standard_input(
    predict: Call, album: Path, stdin: Callable[[bytes], None]
) -> None:
    lines = f"{album / 'a.png'}\n\n{album / 'nowhere.png'}\r\n{album}\n{album / 'b.jpg'}"
    stdin(lines.encode())
    result = predict("-", "--format", "jsonl")
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert [Path(row["image"]).name for row in rows] == ["a.png", "nowhere.png", "album", "b.jpg"]
    assert [row.get("error") for row in rows] == [None, "no such file", "is a directory", None]
    assert result.code == 0
    assert len(result.err.splitlines()) == 2
    stdin(b"")
    assert predict("-").error == "There is no image to classify."
    assert "stdin or as arguments" in predict("-", album).error


def test_out_is_a_file_that_appears_whole(
    predict: Call, album: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = home / "new" / "rows.csv"
    assert predict(album, "--format", "csv", "--out", target).out == ""
    before = target.read_text()
    assert before == predict(album, "--format", "csv").out
    assert "is a folder" in predict(album, "--format", "csv", "--out", home).error
    assert predict(album, "--out", target).error == (
        f"{target} already exists; choose another file with --out, or replace it with --overwrite."
    )
    assert target.read_text() == before
    assert predict(album / "b.jpg", "--out", target, "--overwrite").code == 0
    assert target.read_text() != before

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    before = target.read_text()
    monkeypatch.setattr("ipl.inference.stream._encode", interrupt)
    assert predict(album, "--out", target, "--overwrite").code == 130
    assert target.read_text() == before
    assert [p.name for p in target.parent.iterdir()] == ["rows.csv"]


def test_the_ending_of_out_is_the_format(predict: Call, album: Path, home: Path) -> None:
    for name, form in (("a.csv", "csv"), ("b.JSONL", "jsonl"), ("c.txt", "table"), ("d", "table")):
        assert predict(album / "a.png", "--out", home / name).code == 0
        shown = predict(album / "a.png", "--format", form).out
        assert (home / name).read_text().split() == shown.split()
    assert "not one of the formats" in predict(album / "a.png", "--out", home / "f.xlsx").error
    assert predict(album / "a.png", "--out", home / "f.csv", "--format", "jsonl").code == 0
    assert json.loads((home / "f.csv").read_text())["image"] == str(album / "a.png")
    said = "--format is 'xml'; allowed are table, csv, jsonl."
    assert said in predict(album, "--format", "xml").error
    assert "does not work with --format" in predict(album, "--format", "csv", "--json").error


def test_many_images_are_neither_kept_nor_taken_ahead(
    saved_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Features, pixels and images of earlier batches are gone when the next one comes."""
    classifier = PromptClassifier.from_pretrained(saved_run, device="cpu")
    seen: list[weakref.ref[Any]] = []
    taken, batches, size = 0, 5, 8
    monkeypatch.setattr("ipl.inference.stream.BATCH", size)
    encode_pixels = image_encoder.encode_pixels

    def watched(*given: Any) -> Any:
        features = encode_pixels(*given)
        seen.append(weakref.ref(features))
        return features

    def images() -> Any:
        nonlocal taken
        for index in range(batches * size):
            taken += 1
            one_image = Image.new("RGB", (32, 32), (index % 256, 9, 9))
            seen.append(weakref.ref(one_image))
            yield one_image

    monkeypatch.setattr(image_encoder, "encode_pixels", watched)
    for number, batch in enumerate(predict_stream(classifier, images()), start=1):
        assert len(batch) == size
        assert taken == number * size
        gc.collect()
        alive = sum(ref() is not None for ref in seen)
        assert alive <= size + 2  # one batch of images, and its features
    assert number == batches


def test_rows_come_while_paths_still_do(
    predict: Call, album: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads may stop early: no error, and nothing more is computed."""
    monkeypatch.setattr("ipl.inference.stream.BATCH", 2)
    asked: list[int] = []

    class Lines(io.BytesIO):
        def read1(self, size: int | None = -1) -> bytes:
            asked.append(len(asked))
            return f"{album / 'a.png'}\n".encode()

    def closed(*_: Any) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Lines()))
    monkeypatch.setattr("ipl.inference.writers.JsonLinesWriter.write", closed)
    result = predict("-", "--format", "jsonl")
    assert (result.code, result.err) == (1, "")
    assert asked == [0, 1]
