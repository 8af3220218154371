"""Names of backbones, and the weights in the Hugging Face cache."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from huggingface_hub import constants

from ipl.backbone.families import (
    find_weights,
    is_local,
    open_clip_source,
)


@pytest.mark.parametrize(
    ("name", "source", "local"),
    [
        ("ViT-B-16/laion2b_s34b_b88k", ("ViT-B-16", "laion2b_s34b_b88k"), False),
        ("ViT-B-16", ("ViT-B-16", None), False),
        ("ViT-B-16//data/w.safetensors", ("ViT-B-16", "/data/w.safetensors"), True),
        ("ViT-B-16/w.safetensors", ("ViT-B-16", "w.safetensors"), True),
        ("/models/clip", ("local-dir:/models/clip", None), True),
        ("./clip", ("local-dir:./clip", None), True),
        ("local-dir:clip", ("local-dir:clip", None), True),
        ("hf-hub:imageomics/bioclip", ("hf-hub:imageomics/bioclip", None), False),
    ],
)
def test_what_follows_open_clip(name: str, source: tuple[str, str | None], local: bool) -> None:
    assert open_clip_source(f"open_clip:{name}") == source
    assert is_local(f"open_clip:{name}") is local


def test_which_names_mean_files_of_this_machine(tmp_path: Path) -> None:
    assert not is_local("pocket")
    assert not is_local("openai/clip-vit-base-patch16")
    assert is_local(str(tmp_path))


def test_weights_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))

    def cached(name: str, **files: str) -> None:
        folder = tmp_path / f"models--{name.replace('/', '--')}" / "snapshots" / "0a"
        folder.mkdir(parents=True)
        for file, content in files.items():
            (folder / file.replace("__", ".")).write_text(content)

    def config(kind: str) -> str:
        return json.dumps({"model_type": kind})

    cached("openai/clip", config__json=config("clip"), model__safetensors="12345")
    cached("google/big--siglip", config__json=config("siglip"), **{"model-1-of-2__safetensors": ""})
    cached("laion/both", config__json=config("clip"), open_clip_config__json="{}",
           open_clip_model__safetensors="123")  # fmt: skip
    cached("only/config", config__json=config("clip"))
    cached("only/pickle", config__json=config("clip"), pytorch_model__bin="1")
    cached("another/kind", config__json=config("bert"), model__safetensors="1")
    cached("broken/json", config__json="[", model__safetensors="1")
    (tmp_path / "models--empty--model").mkdir()
    pocket, *found = find_weights()
    assert (pocket.name, pocket.family) == ("pocket", "clip")
    assert pocket.bytes > 10_000_000
    assert [(each.name, each.family, each.bytes) for each in found] == [
        ("google/big--siglip", "siglip", 0),
        ("open_clip:hf-hub:laion/both", "open_clip", 3),
        ("openai/clip", "clip", 5),
    ]
