"""Prompts saved by earlier versions of ipl load and predict as they did."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from ipl import PromptClassifier
from ipl.backbone.backbone import Backbone
from ipl.saving.schema import FIELDS, OrNull
from ipl.support.errors import BackboneError, SavedRunError

# A folder for each version of the format, never written again: later versions must read it.
VERSIONS = {1: Path(__file__).parent / "version-1"}
DOCS = Path(__file__).parents[2] / "docs" / "format.md"


@pytest.fixture
def image() -> Image.Image:
    """Returns a slope of light that no version of Pillow draws differently."""
    slope = np.add.outer(np.arange(64) * 2, np.arange(64) * 2)[..., None] * np.array([1, 0.8, 0.6])
    return Image.fromarray(slope.clip(0, 255).astype(np.uint8))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Returns a copy of the folder of version 1, which a test may change."""
    return Path(shutil.copytree(VERSIONS[1], tmp_path / "run"))


def test_version_1(pocket: Backbone, image: Image.Image) -> None:
    loaded = PromptClassifier.from_pretrained(VERSIONS[1], pocket)
    assert loaded.prompt_ == "[V] *dark* [V] *wall* [V] {cls}."
    assert loaded.classes_ == ["beach", "snowfield", "castle"]
    np.testing.assert_allclose(
        loaded.predict_proba([image]), [[0.62116, 0.35967, 0.01917]], atol=1e-3
    )
    other = loaded.with_classes(["lake", "bridge"])
    np.testing.assert_allclose(other.predict_proba([image]), [[0.80097, 0.19903]], atol=1e-3)
    assert loaded.selection_ is not None
    assert [step.word for step in loaded.selection_.steps] == loaded.words_


def _names(value: Any) -> set[str]:
    """Returns every name in plain values, or in the table of fields."""
    if isinstance(value, dict):
        return {key.removesuffix("?") for key in value}.union(*map(_names, value.values()))
    if isinstance(value, list):
        return set().union(*map(_names, value))
    return _names(value.shape) if isinstance(value, OrNull) else set()


def test_every_field_that_is_written_is_checked_and_documented(
    make_run: Callable[..., Path],
) -> None:
    text = DOCS.read_text(encoding="utf-8")
    written = _names(json.loads((make_run("coop", 2) / "config.json").read_text()))
    assert _names(json.loads((VERSIONS[1] / "config.json").read_text())) <= written
    assert written - {"format", "format_version"} == _names(FIELDS) - {"alike", "squash"}
    assert [name for name in sorted(written | _names(FIELDS)) if f"`{name}`" not in text] == []


def _edit(run: Path, **changes: Any) -> None:
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, **changes}))


def test_another_backbone_only_when_told(run: Path, pocket: Backbone) -> None:
    backbone = json.loads((run / "config.json").read_text())["backbone"]
    _edit(run, backbone={**backbone, "weights_sha256": "0" * 64})
    with pytest.raises(BackboneError, match="with weights 000000000000.*--any-backbone"):
        PromptClassifier.from_pretrained(run, pocket)
    loaded = PromptClassifier.from_pretrained(run, pocket, any_backbone=True)
    assert loaded.as_dict()["backbone"]["weights_sha256"] == pocket.weights_sha256


def test_another_preprocessing_only_when_told(run: Path, pocket: Backbone) -> None:
    preprocessing = json.loads((run / "config.json").read_text())["preprocessing"]
    _edit(run, preprocessing={**preprocessing, "resize": 72})
    with pytest.raises(BackboneError, match=r"whose resize is 72, but 'pocket' has 64"):
        PromptClassifier.from_pretrained(run, pocket)
    assert PromptClassifier.from_pretrained(run, pocket, any_backbone=True).words_


@pytest.mark.parametrize("damage", ["shape", "type", "more", "less"])
def test_every_tensor_is_checked(damage: str, run: Path, pocket: Backbone) -> None:
    tensors = load_file(run / "prompt.safetensors")
    soft = tensors["soft"]
    assert soft.shape == (3, 192)
    changed = {
        "shape": {"soft": soft[:2].clone()},
        "type": {"soft": soft.int()},
        "more": {"soft": soft, "deep": torch.zeros(1)},
        "less": {"other": soft},
    }[damage]
    save_file(changed, run / "prompt.safetensors")
    with pytest.raises(SavedRunError, match=r"the prompt needs .*float32 \(3, 192\)"):
        PromptClassifier.from_pretrained(run, pocket)
