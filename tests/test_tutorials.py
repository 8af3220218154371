"""The tutorials run as they stand, and print what they show."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import nbformat
import pytest

from ipl.learners import registry
from tests.helpers.tutorial_notebook import (
    NOTEBOOK,
    PAGE,
    make_notebook,
)
from tests.helpers.tutorials import (
    TUTORIALS,
    load_backbones_once,
    run_page,
)

pytestmark = pytest.mark.slow
FIRST = "your-images"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder in which the tutorials are worked through, one after the other."""
    return tmp_path_factory.mktemp("tutorials")


@pytest.fixture(autouse=True)
def _in_the_place(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("IPL_CACHE", str(place / "cache"))
    load_backbones_once(monkeypatch)


def _run(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], **more: Any
) -> dict[str, Any]:
    page = (TUTORIALS / f"{name}.md").read_text(encoding="utf-8")
    return run_page(page, monkeypatch, lambda: capsys.readouterr().out, **more)


@pytest.fixture
def first(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Works through the first tutorial, if that is not done yet."""
    if not (place / "my-prompt").is_dir():
        _run(FIRST, monkeypatch, capsys)


def test_your_images(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    values = _run(FIRST, monkeypatch, capsys)
    assert (place / "my-prompt" / "config.json").is_file()
    assert values["classifier"].result_.comparison.of("without-words") is not None


def test_the_notebook_is_fresh() -> None:
    """It has the cells of the page, which runs as a test of its own; if not, `make notebook`."""
    committed = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(committed)
    fresh = make_notebook(PAGE.read_text(encoding="utf-8"))
    assert [cell.source for cell in committed.cells] == [cell.source for cell in fresh.cells]
    assert any("text/html" in str(cell.get("outputs")) for cell in committed.cells)


@pytest.mark.usefixtures("first")
@pytest.mark.parametrize("name", ["paper-row", "words-matter"])
def test_a_tutorial(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "__name__" in _run(name, monkeypatch, capsys)


@pytest.mark.usefixtures("first")
def test_own_learner(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        values = _run("own-learner", monkeypatch, capsys)
        assert registry.learner_class("focal") is values["Focal"]
    finally:
        registry._LEARNERS.pop("focal", None)


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture
def servers() -> Iterator[list[subprocess.Popen[str]]]:
    """Yields a list for the processes that a test starts, and ends them."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.terminate()
        process.wait(60)


@pytest.mark.usefixtures("first")
def test_serve(
    port: int,
    servers: list[subprocess.Popen[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def start(line: str, _: pytest.MonkeyPatch) -> None:
        """Runs `ipl serve` in a process of its own, and waits until it answers."""
        command = [sys.executable, "-m", *line.split()]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ)
        servers.append(process)
        while process.poll() is None:
            try:
                httpx.get(f"http://127.0.0.1:{port}/healthz")
                return
            except httpx.ConnectError:
                time.sleep(0.1)
        raise AssertionError(process.stderr and process.stderr.read())

    page = (TUTORIALS / "serve.md").read_text(encoding="utf-8").replace("8000", str(port))
    values = run_page(page, monkeypatch, lambda: capsys.readouterr().out, start)
    assert len(servers) == 1
    assert "error" in values["answer"].json()
