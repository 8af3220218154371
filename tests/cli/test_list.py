"""`ipl list`: learners, backbones, datasets, recipes and the cache."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipl.backbone.families import DOWNLOAD, FAMILIES, RECOMMENDED, suggest_backbone
from ipl.datasets.benchmarks import BENCHMARKS
from ipl.support.cache import Cache, key_of

Call = Callable[..., Any]


def test_learners(ipl: Call) -> None:
    rows = ipl("list", "learners", "--json").json["learners"]
    names = ("cocoop", "coop", "kgcoop", "maple", "promptsrc")
    assert [(row["learner"], row["words"]) for row in rows] == [
        (n, k) for n in names for k in (0, 3)
    ]
    maple = rows[6]
    assert maple["recipes"]["base-to-novel"]["epochs"] == 5
    assert maple["recipes"]["cross-dataset"]["depth"] == 3
    # 2 vectors, 5 deeper pairs, a matrix and a bias for each of 6 layers of PocketCLIP
    assert maple["parameters"] == 12 * 192 + 6 * (192 * 256 + 256)
    assert "[V V] of a {cls}." in ipl("list", "learners").out


def test_backbones(ipl: Call) -> None:
    text = ipl("list", "backbones").out
    assert all(family.title in text for family in FAMILIES.values())
    shown = ipl("list", "backbones", "--json").json
    assert [each["family"] for each in shown["families"]] == list(FAMILIES)
    assert shown["weights"][0]["name"] == "pocket"


def test_datasets(ipl: Call) -> None:
    text = ipl("list", "datasets").out
    assert all(name in text for name in (*BENCHMARKS, "pacs/art_painting", "scenes"))
    shown = ipl("list", "datasets", "--json").json
    assert shown["datasets"][8]["teacher_template"] == "a photo of a {}, a type of texture."
    assert shown["datasets"][-4]["test_images"] == 1_670


def test_a_recipe_can_be_printed_changed_and_run(ipl: Call, home: Path) -> None:
    for row in ipl("list", "recipes", "--json").json["recipes"]:
        assert row["title"]
        (home / "mine.yaml").write_text(ipl("list", "recipes", row["name"]).out)
    assert row["name"] in ipl("list", "recipes").out
    assert "'nope'" in ipl("list", "recipes", "nope").error


def test_the_cache_is_measured_and_cleared(ipl: Call) -> None:
    cache = Cache()
    kind = next(iter(cache.usage()))
    for number in range(3):
        cache.put(kind, key_of(number=number), {"feature": np.full(512, number)}, {})
    foreign = cache.folder / kind / "mine.jpg"
    foreign.write_text("mine")
    shown = ipl("list", "cache", "--json").json
    assert shown["folder"] == str(cache.folder)
    assert shown["kinds"][kind] == {"entries": 3, "bytes": cache.usage()[kind][1]}
    assert str(cache.folder) in ipl("list", "cache").out
    assert ipl("list", "cache", "--clear", "--json").json["removed"]["entries"] == 3
    assert [path for path in cache.folder.rglob("*") if path.is_file()] == [foreign]


def test_numbers_of_the_bundled_backbone_name_a_real_one(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(home))
    assert suggest_backbone(RECOMMENDED) == ""
    assert f"--backbone {RECOMMENDED}" in suggest_backbone("pocket")
    assert DOWNLOAD in suggest_backbone("pocket")
    model = home / f"models--{RECOMMENDED.replace('/', '--')}" / "snapshots" / "1"
    model.mkdir(parents=True)
    (model / "config.json").write_text('{"model_type": "clip"}')
    (model / "model.safetensors").touch()
    assert "already on this machine" in suggest_backbone("pocket")
