"""What the tests of grids share: small datasets in the published layout, and quick settings."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import ipl.bench.runner
from ipl.backbone.backbone import Backbone
from ipl.bench.plan import Plan
from ipl.bench.run import Run
from ipl.bench.runner import RunEnvironment
from tests.helpers.scenes import draw_folder, draw_split

EUROSAT = ("beach", "castle", "desert", "forest", "lake")
DTD = ("bridge", "canyon", "island", "volcano")
WORDS = ("bright", "dark", "sand", "stone", "wall", "water")


def make_root(root: Path) -> Path:
    """Returns a folder with two published sets and one of domains, all of drawn scenes."""
    eurosat, dtd = root / "eurosat", root / "dtd"
    draw_split(eurosat / "2750", eurosat / "split_zhou_EuroSAT.json", EUROSAT)
    draw_split(dtd / "images", dtd / "split_zhou_DescribableTextures.json", DTD)
    draw_folder(root / "pacs" / "photo", dict.fromkeys(EUROSAT, 3))
    draw_folder(root / "pacs" / "sketch", dict.fromkeys(EUROSAT, 3), "sketch")
    draw_folder(root / "pacs" / "night", dict.fromkeys(EUROSAT[:3], 3), "night")
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
    return lambda **more: Plan.from_values({**quick, **more}).runs()


@pytest.fixture(autouse=True)
def _pocket_is_loaded(pocket: Backbone, monkeypatch: pytest.MonkeyPatch, one_thread: None) -> None:
    """Lets the runs of this process share a loaded backbone, on one thread."""

    def load(name: str, device: str, precision: str) -> Backbone:
        return (
            pocket if (name, precision) == ("pocket", "fp32") else loaded(name, device, precision)
        )

    loaded = ipl.bench.runner.load_backbone
    monkeypatch.setattr(ipl.bench.runner, "load_backbone", load)
