"""Saved runs that are damaged, missing or made for something else: one sentence, exit code 2."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.faults

Call = Callable[..., Any]


@pytest.fixture
def copy(saved_run: Path, home: Path) -> Path:
    """Returns a copy of the saved run that a test may break."""
    return Path(shutil.copytree(saved_run, home / "run"))


@pytest.fixture
def predict_error(ipl: Call, copy: Path, home: Path) -> Callable[[], str]:
    """Returns what `ipl predict` says of the broken copy, having changed nothing."""
    from tests.helpers.scenes import open_scene

    open_scene("beach", 7).save(home / "beach.png")

    def call() -> str:
        before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
        message: str = ipl("predict", copy, home / "beach.png", "--device", "cpu", "--quiet").error
        assert before == {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
        return message

    return call


def test_a_config_that_is_cut_short(copy: Path, predict_error: Call) -> None:
    text = (copy / "config.json").read_text()
    (copy / "config.json").write_text(text[: len(text) // 2])
    message = predict_error()
    assert str(copy / "config.json") in message
    assert "is not valid JSON" in message


@pytest.mark.parametrize("name", ["config.json", "prompt.safetensors"])
def test_a_file_that_is_missing(name: str, copy: Path, predict_error: Call) -> None:
    (copy / name).unlink()
    message = predict_error()
    assert str(copy) in message
    assert name in message


@pytest.mark.parametrize("keep", [0, -1])
def test_tensors_that_are_cut_short(keep: int, copy: Path, predict_error: Call) -> None:
    data = (copy / "prompt.safetensors").read_bytes()
    (copy / "prompt.safetensors").write_bytes(data[:keep])
    message = predict_error()
    assert str(copy / "prompt.safetensors") in message
    assert "damaged" in message


def test_a_run_for_another_backbone(copy: Path, predict_error: Call) -> None:
    config = json.loads((copy / "config.json").read_text())
    config["backbone"]["weights_sha256"] = "0" * 64
    (copy / "config.json").write_text(json.dumps(config))
    message = predict_error()
    assert str(copy) in message
    assert "'pocket'" in message


def test_no_run(ipl: Call, images: Call, home: Path) -> None:
    image = images(beach=1) / "beach" / "0.png"
    assert "nowhere" in ipl("predict", home / "nowhere", image).error
    assert "not a saved run" in ipl("predict", home / "data", image).error
