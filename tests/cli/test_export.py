"""`ipl export`: what is written where, and what is refused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

from ipl.support import hub

Call = Callable[..., Any]


def test_text_goes_to_the_screen_or_a_file(ipl: Call, saved_run: Path, home: Path) -> None:
    shown = ipl("export", saved_run, "--to", "text")
    assert shown.code == 0
    (word,) = (line for line in shown.out.splitlines() if "  +" in line or "  -" in line)
    assert f"*{word.split()[0]}*" in shown.out.splitlines()[0]
    target = home / "prompt.txt"
    saved = ipl("export", saved_run, "--to", "text", "--out", target)
    assert saved.out == f"Saved:  {target}\n"
    assert target.read_text() == shown.out
    target.write_text("mine")
    options = ("export", saved_run, "--to", "text", "--out", target)
    assert "already exists; choose another file with --out, or rep" in ipl(*options).error
    assert target.read_text() == "mine"
    assert ipl(*options, "--overwrite").code == 0
    assert target.read_text() == shown.out


def test_text_as_json(ipl: Call, saved_run: Path) -> None:
    shown = ipl("export", saved_run, "--to", "text").out
    told = ipl("export", saved_run, "--to", "text", "--json").json
    assert (told["out"], told["text"]) == (None, shown)
    assert f"{told['words'][0]}  {told['gains'][0]:+.4f}" in shown


def test_a_missing_package_is_named_before_anything_is_loaded(
    ipl: Call, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    message = ipl("export", home / "nowhere", "--to", "onnx").error
    assert message.endswith(
        "needs the package onnxruntime; install it with: pip install 'ipl[onnx]'."
    )


def test_a_matrix_for_other_classes(ipl: Call, saved_run: Path, home: Path) -> None:
    result = ipl("export", saved_run, "--to", "classifier", "--classes", "lake,castle", "--quiet")
    assert result.code == 0, result.err
    assert "2 classes x 512 float32" in result.out
    folder = home / "ipl-exports" / f"{saved_run.name}-classifier"
    assert load_file(folder / "classifier.safetensors")["weight"].shape == (2, 512)
    again = ipl("export", saved_run, "--to", "classifier")
    assert "already exists" in again.error
    told = ipl("export", saved_run, "--to", "classifier", "--out", home / "x", "--json", "-q").json
    assert told["classes"] == ["beach", "castle", "forest"]
    assert told["out"] == str(home / "x")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--to", "tflite"], "allowed are classifier, onnx, transformers, text"),
        (["--to", "onxx"], "Did you mean 'onnx'?"),
        (["--to", "text", "--check", "."], "--check works with --to onnx only"),
        (["--to", "onnx", "--check", "nowhere"], "No such file or folder: nowhere."),
        (["--to", "text", "--classes", "one"], "at least two"),
        (["--to", "text", "--out", "."], "it is a folder"),
        (["--to", "onnx", "--overwrite"], "--overwrite works with --to text only"),
        (["--to", "onnx", "--private"], "--private works with --to hub only"),
        (["--to", "hub"], "--out OWNER/NAME"),
    ],
)
def test_options_that_cannot_be(
    options: list[str], said: str, ipl: Call, saved_run: Path, home: Path
) -> None:
    assert said in ipl("export", saved_run, *options).error
    assert list(home.iterdir()) == []


def test_a_run_is_shared(ipl: Call, saved_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    share = ("export", saved_run, "--to", "hub", "--out")
    monkeypatch.setattr(hub, "hub_reachable", lambda: False)
    assert "cannot be reached" in ipl(*share, "ada/scenes").error
    assert "owner/name" in ipl(*share, "scenes").error
    monkeypatch.setattr(
        "ipl.cli.export.push_run", lambda saved, name, private: f"https://hub/{name}"
    )
    result = ipl(*share, "ada/scenes", "--private")
    assert "https://hub/ada/scenes" in result.out
    assert "predict ada/scenes" in result.out
    assert ipl(*share, "ada/s", "--json").json["address"] == "https://hub/ada/s"
