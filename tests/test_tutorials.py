"""The tutorials run as they stand, and print what they show."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import nbformat
import pytest

from ipl.learners import registry
from tests.helpers.tutorial_notebook import NOTEBOOK, PAGE, make_notebook
from tests.helpers.tutorials import TUTORIALS, load_backbones_once, run_page

pytestmark = pytest.mark.slow
FIRST = "your-images"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder in which the tutorials are worked through, one after the other."""
    return tmp_path_factory.mktemp("tutorials")


@pytest.fixture
def run(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Returns a runner of pages, which begins with the first one if that was not run yet."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("IPL_CACHE", str(place / "cache"))
    load_backbones_once(monkeypatch)

    def run(name: str, change: tuple[str, str] = ("", ""), **more: Any) -> dict[str, Any]:
        if name != FIRST and not (place / "my-prompt").is_dir():
            run(FIRST)
        page = (TUTORIALS / f"{name}.md").read_text(encoding="utf-8").replace(*change)
        return run_page(page, monkeypatch, lambda: capsys.readouterr().out, **more)

    return run


@pytest.mark.parametrize("name", [FIRST, "paper-row", "words-matter"])
def test_a_tutorial(name: str, run: Any) -> None:
    run(name)


def test_own_learner(run: Any) -> None:
    try:
        focal = run("own-learner")["Focal"]
        assert registry.learner_class("focal") is focal
    finally:
        registry._LEARNERS.pop("focal", None)


def test_serve(run: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    servers: list[subprocess.Popen[bytes]] = []

    def start(line: str, _: pytest.MonkeyPatch) -> None:
        """Runs `ipl serve` in a process of its own, and waits until it answers."""
        servers.append(subprocess.Popen([sys.executable, "-m", *line.split()], env=os.environ))
        while servers[0].poll() is None:
            try:
                httpx.get(f"http://127.0.0.1:{port}/healthz")
                return
            except httpx.ConnectError:
                time.sleep(0.1)
        raise AssertionError("ipl serve has ended")

    try:
        run("serve", change=("8000", port), run_line=start)
    finally:
        for server in servers:
            server.terminate()
            server.wait(60)


def test_the_notebook_is_fresh() -> None:
    """It has the cells of the page; if not, `make notebook`."""
    committed = nbformat.read(NOTEBOOK, as_version=4)
    fresh = make_notebook(PAGE.read_text(encoding="utf-8"))
    assert [cell.source for cell in committed.cells] == [cell.source for cell in fresh.cells]
