"""What the tests of grids share: small datasets in the published layout, and quick settings."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import ipl.bench.runner
from ipl.backbone.backbone import Backbone
from ipl.bench.plan import Plan
from ipl.bench.run import Run, expand
from ipl.bench.runner import RunEnvironment
from tests.helpers.class_folders import write_class_folders
from tests.helpers.scenes import open_scene

EUROSAT = ("beach", "castle", "desert", "forest", "lake")
DTD = ("bridge", "canyon", "island", "volcano")
WORDS = ("bright", "dark", "sand", "stone", "wall", "water")


def write_split(folder: Path, images: str, file: str, names: tuple[str, ...]) -> None:
    """Writes a dataset of two images a class to train and two to test on."""
    parts: dict[str, list[Any]] = {"train": [], "val": [], "test": []}
    for label, name in enumerate(names):
        for index in range(4):
            path = folder / images / name / f"{index}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            open_scene(name, index).save(path)
            parts["train" if index < 2 else "test"].append([f"{name}/{index}.png", label, name])
    (folder / file).write_text(json.dumps(parts))


def make_root(root: Path) -> Path:
    """Returns a folder with two published sets and one of domains, all of drawn scenes."""
    write_split(root / "eurosat", "2750", "split_zhou_EuroSAT.json", EUROSAT)
    write_split(root / "dtd", "images", "split_zhou_DescribableTextures.json", DTD)
    write_class_folders(root / "pacs" / "photo", "painted", EUROSAT)
    write_class_folders(root / "pacs" / "sketch", "sketch", EUROSAT)
    write_class_folders(root / "pacs" / "night", "night", EUROSAT[:3])
    (root / "words.txt").write_text("\n".join(WORDS) + "\n")
    return root


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of all datasets; make one of your own before changing it."""
    return make_root(tmp_path_factory.mktemp("root"))


@pytest.fixture
def own_root(root: Path, tmp_path: Path) -> Path:
    """Returns such a folder that a test may change."""
    return Path(shutil.copytree(root, tmp_path / "own"))


@pytest.fixture
def environment(root: Path) -> RunEnvironment:
    """Returns where the runs of these tests are done."""
    return RunEnvironment(str(root), device="cpu")


@pytest.fixture(scope="session")
def quick(root: Path) -> Mapping[str, Any]:
    """Returns a plan's values for runs of less than a second."""
    return {
        "protocol": "base-to-novel",
        "datasets": "eurosat",
        "arms": "words",
        "words": "0,1",
        "seeds": 1,
        "shots": 2,
        "epochs": 2,
        "interval": 1,
        "views": 0,
        "words_file": str(root / "words.txt"),
    }


@pytest.fixture
def runs(quick: Mapping[str, Any]) -> Callable[..., tuple[Run, ...]]:
    """Returns a maker of quick runs: runs(learners="coop,kgcoop")."""
    return lambda **more: expand(Plan.from_values({**quick, **more}))


@pytest.fixture(autouse=True)
def _pocket_is_loaded(pocket: Backbone, monkeypatch: pytest.MonkeyPatch, one_thread: None) -> None:
    """Lets the runs of this process share a loaded backbone, on one thread."""

    def load(name: str, device: str, precision: str) -> Backbone:
        return (
            pocket if (name, precision) == ("pocket", "fp32") else loaded(name, device, precision)
        )

    loaded = ipl.bench.runner.load_backbone
    monkeypatch.setattr(ipl.bench.runner, "load_backbone", load)
