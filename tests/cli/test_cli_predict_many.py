"""`ipl predict` on many images: patterns, standard input, formats, thresholds, memory."""

from __future__ import annotations

import csv
import gc
import io
import json
import os
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from ipl.backbone.encode_images import ImageFeatures
from ipl.classifier import PromptClassifier
from ipl.inference.prediction_stream import predict_stream
from ipl_scenes import draw

Call = Callable[..., Any]


@pytest.fixture
def album(home: Path) -> Path:
    """Returns a folder of three images, one of them in a folder of its own, and a broken file."""
    folder = home / "album"
    (folder / "deep").mkdir(parents=True)
    for index, name in enumerate(("a.png", "b.jpg", "deep/c.png")):
        draw("beach", index + 20).save(folder / name)
    (folder / "broken.png").write_text("no image")
    return folder


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Returns what puts bytes onto standard input."""
    return lambda data: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def _images(text: str) -> list[str]:
    return [json.loads(line)["image"] for line in text.splitlines()]


def test_patterns_that_no_shell_has_replaced(predict: Call, album: Path, home: Path) -> None:
    assert _images(predict("album/*.jpg", "--format", "jsonl").out) == ["album/b.jpg"]
    every = predict("album/**/*.png", "album/b.jpg", "--format", "jsonl")
    names = ["album/a.png", "album/broken.png", "album/deep/c.png", "album/b.jpg"]
    assert _images(every.out) == names
    assert predict("album/*.tif").error == "No image matches album/*.tif."
    folders = predict("al*", "--format", "jsonl")  # a folder that matches: all that is in it
    assert sorted(_images(folders.out)) == sorted(names)


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
    assert predict("-").error == "No image was given."
    assert "stdin or as arguments" in predict("-", album).error


def test_paths_between_nuls_from_standard_input(
    predict: Call, album: Path, stdin: Callable[[bytes], None]
) -> None:
    """As `find -print0` writes them, whatever their names hold."""
    names = [b"two\nlines.png", b"not \xff utf-8.png", b"carriage return\r"]
    for name in names:
        (album / os.fsdecode(name)).write_bytes((album / "a.png").read_bytes())
    stdin(b"".join(os.fsencode(album) + b"/" + name + b"\0" for name in names))
    result = predict("-", "--format", "jsonl")
    assert result.code == 0, result.err
    told = ["two\nlines.png", "not \\udcff utf-8.png", "carriage return\r"]
    assert [Path(image).name for image in _images(result.out)] == told


def test_a_name_with_a_line_break_is_one_line_of_a_table(predict: Call, album: Path) -> None:
    (album / "a.png").rename(album / "two\nlines\x1b[31m.png")
    (album / "broken.png").rename(album / "bro\nken.png")
    result = predict(album)
    assert "two\\nlines\\x1b[31m.png " in result.out
    assert len(result.out.splitlines()) == 4
    assert "\x1b" not in result.out
    assert result.err == f"warning: skipped {album}/bro\\nken.png: not an image\n"
    assert predict(album / "bro\nken.png").error.endswith("bro\\nken.png: not an image.")
    told = predict(album, "--json").json
    assert str(album / "two\nlines\x1b[31m.png") in [row["image"] for row in told["predictions"]]


def test_urls_are_not_opened(predict: Call, home: Path) -> None:
    for url in ("https://example.org/cat.jpg", "http://example.org/x?size=[1]", "file:///a.png"):
        assert predict(url).error == (
            f"URLs are not opened; fetch {url} first and give the file's path."
        )


def test_every_format_tells_the_same(predict: Call, album: Path, home: Path) -> None:
    import pyarrow.parquet

    told = predict(album, "--json").json
    expected = [
        (row["image"], rank, ranked["name"], pytest.approx(ranked["probability"], rel=1e-5))
        for row in told["predictions"]
        for rank, ranked in enumerate(row["classes"], start=1)
    ]
    lines = [json.loads(line) for line in predict(album, "--format", "jsonl").out.splitlines()]
    assert [row for row in lines if "classes" in row] == told["predictions"]
    (bad,) = (row for row in lines if "error" in row)
    assert bad == {"image": str(album / "broken.png"), "error": "not an image"}
    assert told["skipped"] == [f"{bad['image']}: {bad['error']}"]

    result = predict(album, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(result.out)))
    good = [
        (r["image"], int(r["rank"]), r["class"], float(r["probability"]))
        for r in rows
        if not r["error"]
    ]
    assert good == expected
    assert [r["error"] for r in rows if r["error"]] == ["not an image"]
    assert result.err == f"warning: skipped {bad['image']}: not an image\n"

    assert predict(album, "--format", "parquet", "--out", home / "p.parquet").code == 0
    table = pyarrow.parquet.read_table(home / "p.parquet").to_pylist()
    kept = [tuple(r[c] for c in ("image", "rank", "class", "probability")) for r in table]
    assert [row for row in kept if row[1] is not None] == expected
    assert [r["error"] for r in table if r["error"]] == ["not an image"]


def test_out_is_a_file_that_appears_whole(
    predict: Call, album: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = home / "new" / "rows.csv"
    assert predict(album, "--format", "csv", "--out", target).out == ""
    before = target.read_text()
    assert before == predict(album, "--format", "csv").out
    assert "is a folder" in predict(album, "--format", "csv", "--out", home).error
    assert predict(album, "--out", target).error == (
        f"{target} is there already; choose another file with --out, or replace it with "
        "--overwrite."
    )
    assert target.read_text() == before
    assert predict(album / "b.jpg", "--out", target, "--overwrite").code == 0
    assert target.read_text() != before

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    before = target.read_text()
    monkeypatch.setattr("ipl.learners.learner.encode_files", interrupt)
    assert predict(album, "--out", target, "--overwrite").code == 130
    assert target.read_text() == before
    assert [p.name for p in target.parent.iterdir()] == ["rows.csv"]


def test_the_ending_of_out_is_the_format(predict: Call, album: Path, home: Path) -> None:
    import pyarrow.parquet

    for name, form in (("a.csv", "csv"), ("b.JSONL", "jsonl"), ("c.txt", "table"), ("d", "table")):
        assert predict(album / "a.png", "--out", home / name).code == 0
        shown = predict(album / "a.png", "--format", form).out
        assert (home / name).read_text().split() == shown.split()
    assert predict(album / "a.png", "--out", home / "e.parquet").code == 0
    assert pyarrow.parquet.read_table(home / "e.parquet").num_rows == 3
    assert predict(album / "a.png", "--out", home / "f.csv", "--format", "jsonl").code == 0
    assert json.loads((home / "f.csv").read_text())["image"] == str(album / "a.png")


def test_a_threshold_leaves_out_what_is_less_probable(predict: Call, album: Path) -> None:
    (row,) = predict(album / "a.png", "--json").json["predictions"]
    values = [ranked["probability"] for ranked in row["classes"]]
    middle = (values[0] + values[1]) / 2
    (cut,) = predict(album / "a.png", "--json", "--threshold", middle).json["predictions"]
    assert cut["classes"] == row["classes"][:1]
    none = predict(album / "a.png", "--threshold", 1.0)
    assert none.code == 0
    assert "(none)" in none.out
    rows = predict(album / "a.png", "--threshold", 1.0, "--format", "csv").out.splitlines()
    assert rows[1] == f"{album / 'a.png'},,,,"
    assert predict(album, "--threshold", 1.5).code == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--format", "xml"], "--format is 'xml'; allowed are table, csv, jsonl, parquet."),
        (["--format", "parquet"], "--out FILE"),
        (["--format", "csv", "--json"], "does not work with --format"),
    ],
)
def test_options_that_cannot_be(options: list[str], said: str, predict: Call, album: Path) -> None:
    assert said in predict(album, *options).error


def test_parquet_without_its_package(
    predict: Call, album: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    message = predict(album, "--format", "parquet", "--out", home / "x.parquet").error
    assert "pip install 'ipl[parquet]'" in message
    assert not (home / "x.parquet").exists()


def test_many_images_are_neither_kept_nor_taken_ahead(
    saved_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Features, pixels and images of earlier batches are gone when the next one comes."""
    classifier = PromptClassifier.from_pretrained(saved_run, device="cpu")
    seen: list[weakref.ref[Any]] = []
    taken, batches, size = 0, 5, 8
    monkeypatch.setattr("ipl.inference.prediction_stream.BATCH", size)
    look = classifier.encode_images

    def watched(sources: Any, *more: Any) -> ImageFeatures:
        found = look(sources, *more)
        seen.append(weakref.ref(found.features))
        return found

    def images() -> Any:
        nonlocal taken
        for index in range(batches * size):
            taken += 1
            one_image = Image.new("RGB", (32, 32), (index % 256, 9, 9))
            seen.append(weakref.ref(one_image))
            yield one_image

    classifier.encode_images = watched  # type: ignore[method-assign]
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
    monkeypatch.setattr("ipl.inference.prediction_stream.BATCH", 2)
    asked: list[int] = []

    class Lines(io.BytesIO):
        def read1(self, size: int | None = -1) -> bytes:
            asked.append(len(asked))
            return f"{album / 'a.png'}\n".encode()

    def closed(*_: Any) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Lines()))
    monkeypatch.setattr("ipl.inference.prediction_writers.JsonLinesWriter.write", closed)
    result = predict("-", "--format", "jsonl")
    assert (result.code, result.err) == (1, "")
    assert asked == [0, 1]
