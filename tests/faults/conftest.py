"""What is attacked: a fit that takes a moment, and the run that it saves; and how often."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.forked import run as run_command
from tests.helpers.scenes import draw_folder

WORDS = ("bright", "dark", "sand", "stone", "wall", "water")
QUICK = (
    *("--shots", 2, "--epochs", 2, "--interval", 1, "--words", 1, "--views", 0),
    *("--device", "cpu", "--quiet"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --faults."""
    parser.addoption("--faults", choices=("short", "long"), default="short", help="how often")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks all that is in this folder, and skips it where there is no fork."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("faults")
            if not hasattr(os, "fork"):
                item.add_marker(pytest.mark.skip(reason="makes processes by forking"))


@pytest.fixture(scope="session")
def times(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """Returns times(short, long): how often something is done."""
    is_long = request.config.getoption("faults", "short") == "long"
    return lambda short, long: long if is_long else short


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder of four classes, with a list of six words beside them."""
    root = tmp_path_factory.mktemp("four")
    draw_folder(root / "data", dict.fromkeys(("beach", "castle", "forest", "lake"), 3))
    (root / "words.txt").write_text("\n".join(WORDS) + "\n")
    return root / "data"


@pytest.fixture(scope="session")
def fit(data: Path) -> tuple[object, ...]:
    """Returns a command of a fit that takes a moment."""
    return ("fit", data, "--words-file", data.parent / "words.txt", *QUICK)


@pytest.fixture(scope="session")
def saved(fit: tuple[object, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with the runs of two seeds and the cache that they were computed with."""
    root = tmp_path_factory.mktemp("saved")
    for seed in (1, 2):
        ended = run_command(*fit, "--seed", seed, "--out", f"run{seed}", folder=root)
        assert ended.code == 0, ended.err
    return root
