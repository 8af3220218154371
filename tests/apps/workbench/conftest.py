"""What the tests of the workbench share: a bench with few words, and images to drop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ipl.apps.workbench.session import Session
from ipl.apps.workbench.workbench import Workbench
from ipl.backbone.backbone import Backbone
from ipl.words.pool import Pool
from ipl_scenes import draw

WORDS = ("bright", "dark", "ocean", "sand", "stone", "tower", "wall", "water")


@pytest.fixture(scope="session")
def dropped(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[Path]]:
    """Returns dropped(scene, count): images of a scene as a browser hands them over."""
    root = tmp_path_factory.mktemp("dropped")

    def make(scene: str, count: int = 4) -> list[Path]:
        paths = [root / scene / f"{index}.png" for index in range(count)]
        for index, path in enumerate(paths):
            if not path.exists():
                path.parent.mkdir(exist_ok=True)
                draw(scene, index).save(path)
        return paths

    return make


@pytest.fixture
def bench(pocket: Backbone) -> Iterator[Workbench]:
    """Yields a workbench that chooses from eight words."""
    made = Workbench(pocket, pool=Pool.from_words(WORDS, "eight words"))
    yield made
    made.end()


@pytest.fixture
def session(bench: Workbench, dropped: Callable[..., list[Path]]) -> Session:
    """Returns a session with images of two classes."""
    made = bench.open("someone")
    made.add_class("beach", dropped("beach"))
    made.add_class("castle", dropped("castle"))
    return made
