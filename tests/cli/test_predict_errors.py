"""Saved runs that are damaged, missing or made for something else: one sentence, exit code 2."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

pytestmark = pytest.mark.faults

Call = Callable[..., Any]
VERSION_1 = Path(__file__).parents[1] / "saving" / "version-1"


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


def _change(copy: Path, path: str, value: object) -> None:
    config = json.loads((copy / "config.json").read_text())
    *parents, last = path.split(".")
    place = config
    for name in parents:
        place = place[int(name)] if name.isdigit() else place[name]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    (copy / "config.json").write_text(json.dumps(config))


def test_a_run_for_another_backbone(copy: Path, predict_error: Call) -> None:
    _change(copy, "backbone.weights_sha256", "0" * 64)
    message = predict_error()
    assert str(copy) in message
    assert "0" * 12 in message
    assert "'pocket'" in message


def test_a_run_of_version_0_1_0_on_its_pocketclip(copy: Path, predict_error: Call) -> None:
    shutil.rmtree(copy)
    shutil.copytree(VERSION_1, copy)
    message = predict_error()
    assert f"{copy} was trained on the backbone 'pocket' with weights e664e312523f" in message
    assert "--any-backbone" in message


def test_a_run_whose_backbone_is_gone(copy: Path, predict_error: Call) -> None:
    _change(copy, "backbone.name", "/gone/clip")
    assert "/gone/clip" in predict_error()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "5", '"x"', '{"format": "other"}', "[" * 200_000, "\0"]
)
def test_a_config_that_is_no_config(text: str, copy: Path, predict_error: Call) -> None:
    (copy / "config.json").write_text(text)
    assert str(copy / "config.json") in predict_error()


def test_a_config_that_is_cut_short(copy: Path, predict_error: Call) -> None:
    text = (copy / "config.json").read_text()
    (copy / "config.json").write_text(text[: len(text) // 2])
    message = predict_error()
    assert str(copy / "config.json") in message
    assert "is not valid JSON" in message


FIELDS = (
    "learner prompt words placeholder backbone preprocessing classes training results selection "
    "ipl_version format_version format"
)


@pytest.mark.parametrize("value", [..., 5.5], ids=["missing", "wrong type"])
@pytest.mark.parametrize("field", FIELDS.split())
def test_a_field_that_is_missing_or_wrong(
    field: str, value: object, copy: Path, predict_error: Call
) -> None:
    _change(copy, field, value)
    message = predict_error()
    assert str(copy / "config.json") in message
    assert field in message or field == "format"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("words", ["other"]),
        ("words", [5]),
        ("prompt", "[V V"),
        ("prompt", ""),
        ("classes", []),
        ("classes", ["a", 5]),
        ("classes", ["a", "A"]),
        ("alike", "yes"),
        ("backbone", {}),
        ("backbone.precision", "fp8"),
        ("learner", "cop"),
        ("placeholder", "x"),
        ("format_version", 99),
        ("selection.steps", ...),
        ("selection.steps", 5),
        ("selection.steps.0.gain", ...),
        ("selection.steps.0.runners_up", [1]),
    ],
)
def test_a_value_that_cannot_be(path: str, value: object, copy: Path, predict_error: Call) -> None:
    _change(copy, path, value)
    assert predict_error()


@pytest.mark.parametrize("name", ["config.json", "prompt.safetensors"])
def test_a_file_that_is_missing(name: str, copy: Path, predict_error: Call) -> None:
    (copy / name).unlink()
    message = predict_error()
    assert str(copy) in message
    assert name in message


@pytest.mark.parametrize("keep", [0, 7, 40, -1])
def test_tensors_that_are_cut_short(keep: int, copy: Path, predict_error: Call) -> None:
    data = (copy / "prompt.safetensors").read_bytes()
    (copy / "prompt.safetensors").write_bytes(data[:keep])
    message = predict_error()
    assert str(copy / "prompt.safetensors") in message
    assert "damaged" in message


def _another_shape(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value[1:].clone() for name, value in tensors.items()}


def _another_name(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {f"{name}_": value for name, value in tensors.items()}


def _one_more(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {**tensors, "more": torch.zeros(1)}


def _not_finite(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: torch.full_like(value, float("nan")) for name, value in tensors.items()}


@pytest.mark.parametrize("change", [_another_shape, _another_name, _one_more, _not_finite])
def test_tensors_that_do_not_fit(change: Call, copy: Path, predict_error: Call) -> None:
    file = copy / "prompt.safetensors"
    save_file(change(load_file(file)), file)
    message = predict_error()
    assert str(copy) in message
    assert "prompt.safetensors" in message


def test_no_such_run(ipl: Call, home: Path) -> None:
    (home / "a.png").write_bytes(b"")
    assert "nowhere" in ipl("predict", home / "nowhere", home / "a.png").error


def test_a_folder_that_is_no_run(ipl: Call, images: Call) -> None:
    data = images(beach=1)
    message = ipl("predict", data, data / "beach" / "0.png").error
    assert "not a saved run" in message
