"""Finding a backbone, and saying what is wrong when there is none."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from ipl.backbone import loading
from ipl.backbone.backbone import Backbone
from ipl.backbone.families import POCKET_FOLDER
from ipl.backbone.loading import load_backbone, load_tokenizer, pick_device
from ipl.support.errors import BackboneError, ConfigError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Returns a copy of the bundled model folder."""
    return Path(shutil.copytree(POCKET_FOLDER, tmp_path / "clip"))


def test_a_folder_loads_like_the_bundled_one(folder: Path, pocket: Backbone) -> None:
    other = load_backbone(str(folder), "cpu")
    assert other.name == str(folder)
    assert other.weights_sha256 == pocket.weights_sha256
    assert torch.equal(other.encode_texts(["a cat"]), pocket.encode_texts(["a cat"]))
    assert other.preprocessing == pocket.preprocessing


def test_a_tokenizer_needs_no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert load_tokenizer(str(folder)).bos_token == "<|startoftext|>"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("pockett", "Did you mean 'pocket'"),
        ("clip-vit-base-patch16", "openai/clip-vit-base-patch16"),
        ("./not/there", "There is no backbone or folder"),
    ],
)
def test_unknown_names_get_the_closest(name: str, says: str) -> None:
    with pytest.raises(BackboneError, match=says):
        load_backbone(name)


def test_without_network_it_says_how_to_get_the_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "_hub_reachable", lambda: False)
    for load in (load_backbone, load_tokenizer):
        with pytest.raises(BackboneError, match="hf download nobody/no-such-clip-xyz --local-dir"):
            load("nobody/no-such-clip-xyz")


def pickle_weights(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def truncate_weights(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100_000])


def drop_a_weight(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["text_projection.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def crop_less(folder: Path) -> None:
    config = json.loads((folder / "preprocessor_config.json").read_text())
    (folder / "preprocessor_config.json").write_text(json.dumps({**config, "crop_size": 32}))


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda folder: (folder / "config.json").unlink(), r"config\.json is missing"),
        (pickle_weights, "never unpickles"),
        (truncate_weights, "no usable CLIP"),
        (drop_a_weight, r"incomplete: no usable text_projection\.weight"),
        (crop_less, "crops 32 px; the image tower takes 64 px"),
    ],
)
def test_a_folder_that_cannot_be_used(
    folder: Path, damage: Callable[[Path], object], says: str
) -> None:
    damage(folder)
    with pytest.raises(BackboneError, match=says):
        load_backbone(str(folder))


@pytest.mark.parametrize(
    ("file", "changes", "refused"),
    [
        ("config.json", {"auto_map": {"AutoConfig": "evil.Config"}, "model_type": "evil"}, True),
        ("config.json", {"auto_map": {"AutoConfig": "evil.Config"}, "model_type": None}, True),
        ("config.json", {"auto_map": {"AutoConfig": "evil.Config"}}, False),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["evil.T", "evil.T"]}}, False),
    ],
    ids=["unknown type", "no type", "known type", "tokenizer"],
)
@pytest.mark.parametrize("load", [load_backbone, load_tokenizer])
def test_code_of_a_folder_is_never_run(
    folder: Path,
    file: str,
    changes: dict[str, Any],
    refused: bool,
    load: Any,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    marker = folder / "marker"
    (folder / "evil.py").write_text(
        f"open({str(marker)!r}, 'w').close()\n"
        "from transformers import CLIPConfig as Config, CLIPTokenizer as T\n"
    )
    values = json.loads((folder / file).read_text()) | changes
    values = {name: value for name, value in values.items() if value is not None}
    (folder / file).write_text(json.dumps(values))
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" * 9))
    if refused and load is load_backbone:
        with pytest.raises(BackboneError, match="code of its own .* which ipl never runs"):
            load(str(folder))
    else:
        load(str(folder))  # with the code that transformers has for it
    assert not marker.exists()
    assert "y/N" not in "".join(capfd.readouterr())


def test_unknown_precision_and_device() -> None:
    with pytest.raises(ConfigError, match="precision is 'int4'; allowed are fp32, bf16, fp16"):
        load_backbone("pocket", "cpu", "int4")
    with pytest.raises(ConfigError, match="device is 'abacus'"):
        pick_device("abacus")
    assert pick_device("cpu") == torch.device("cpu")


def test_a_local_folder_is_loaded_without_the_librarys_bars(
    capfd: pytest.CaptureFixture[str],
) -> None:
    load_backbone("pocket", "cpu")
    assert capfd.readouterr().err == ""
