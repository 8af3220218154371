"""The attacks' common part: how often, by whom, and a table of how the package held.

`make test` runs them in a short form, `make faults` in a long one that prints the table. An attack
is a function that takes a count and returns an Outcome.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ipl.display.table import Table
from tests.helpers.attacks import Outcome
from tests.helpers.fork_server import ForkServer
from tests.helpers.scenes import open_scene

COLUMNS = ("attack", "times", "failures", "peak memory", "seconds")
WORDS = ("bright", "dark", "sand", "stone", "wall", "water")
QUICK = (
    "--shots",
    2,
    "--epochs",
    2,
    "--interval",
    1,
    "--words",
    1,
    "--views",
    0,
    "--device",
    "cpu",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --faults."""
    parser.addoption("--faults", choices=("short", "long"), default="short", help="how often")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks all that is in this folder, and skips it where there is no fork."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("faults")
            if not (hasattr(os, "fork") and Path("/proc/self/statm").exists()):
                item.add_marker(pytest.mark.skip(reason="makes processes by forking, on Linux"))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Prints the table after a long form, whoever ran the attacks."""
    if config.getoption("faults", "short") != "long":
        return
    reports = [*terminalreporter.stats.get("passed", ()), *terminalreporter.stats.get("failed", ())]
    rows = [value for each in reports for name, value in each.user_properties if name == "faults"]
    table = Table(COLUMNS, sorted(rows), numbers=COLUMNS[1:])
    terminalreporter.write_line(f"\n{table.to_markdown()}")


@pytest.fixture(scope="session")
def times(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """Returns times(short, long): how often an attack is done."""
    is_long = request.config.getoption("faults", "short") == "long"
    return lambda short, long: long if is_long else short


@pytest.fixture
def check(record_property: Callable[[str, object], None]) -> Callable[[Outcome], None]:
    """Returns a check that nothing failed, which notes the figures first."""
    started = time.monotonic()

    def call(outcome: Outcome) -> None:
        peak = f"{outcome.peak / 2**20:,.0f} MiB" if outcome.peak else ""
        row = [outcome.attack, f"{outcome.count:,}", f"{len(outcome.failures):,}", peak]
        record_property("faults", [*row, f"{time.monotonic() - started:.0f}"])
        assert outcome.count
        assert outcome.failures[:10] == []
        assert outcome.peak < 2**30

    return call


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    """Yields a server that forks commands."""
    created = ForkServer(tmp_path_factory.mktemp("output"))
    yield created
    created.close()


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder of four classes, with a list of six words beside them."""
    root = tmp_path_factory.mktemp("four")
    for name in ("beach", "castle", "forest", "lake"):
        (root / "data" / name).mkdir(parents=True)
        for index in range(3):
            open_scene(name, index).save(root / "data" / name / f"{index}.png")
    (root / "words.txt").write_text("\n".join(WORDS) + "\n")
    return root / "data"


@pytest.fixture(scope="session")
def fit(data: Path) -> tuple[object, ...]:
    """Returns a command of a fit that takes a moment."""
    return ("fit", data, *QUICK, "--words-file", data.parent / "words.txt", "--quiet")


@pytest.fixture(scope="session")
def run(
    server: ForkServer, fit: tuple[object, ...], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Returns a saved run; copy it before changing it."""
    root = tmp_path_factory.mktemp("saved")
    ended = server.run(*fit, "--out", root / "run", folder=root, cache=root / "cache")
    assert ended.code == 0, ended.err
    return root / "run"
