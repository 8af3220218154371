"""`ipl ui` says what is wrong before it takes a port, where it is, and ends when it is told to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from ipl.apps.hosts import listen
from ipl.apps.workbench.fit_thread import THREAD_NAME

Call = Callable[..., Any]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Returns each workbench that would have been served, which says it is ready."""
    seen: list[Any] = []

    def run(bench: Any, bound: Any, hosts: Any, ready: Callable[[], None]) -> None:
        seen.append(bench)
        ready()
        bench.end()

    monkeypatch.setattr("ipl.apps.workbench.app.run_workbench", run)
    return seen


def test_it_says_where_it_is_and_who_can_reach_it(ipl: Call, opened: list[Any]) -> None:
    told = ipl("ui", "--port", 0)
    assert told.code == 0, told.err
    assert told.out == ""
    assert "The workbench is open at http://127.0.0.1:" in told.err.splitlines()[0]
    assert "warning" not in told.err
    assert ipl("ui", "--port", 0, "--quiet").err == ""
    told = ipl("ui", "--port", 0, "--host", "0.0.0.0", "--quiet")
    assert "warning: 0.0.0.0 can be reached from other machines; there is no auth" in told.err
    assert [bench.browse for bench in opened] == [True, True, False]


def test_it_opens_with_a_prompt_and_images(
    ipl: Call, saved_run: Path, three_classes: Path, opened: list[Any]
) -> None:
    told = ipl("ui", saved_run, "--data", three_classes, "--port", 0)
    assert told.code == 0, told.err
    (bench,) = opened
    assert bench.classifier.classes_ == ["beach", "castle", "forest"]
    assert bench.backbone is bench.classifier.learner_.backbone
    assert bench.image_classes.names == ("beach", "castle", "forest")
    assert bench.run_name == saved_run.name


def test_the_browser_is_opened_if_that_is_asked(
    ipl: Call, opened: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    monkeypatch.setattr("webbrowser.open", seen.append)
    assert ipl("ui", "--port", 0, "--open").code == 0
    assert ipl("ui", "--port", 0).code == 0
    assert len(seen) == 1
    assert seen[0].startswith("http://127.0.0.1:")


def test_a_fit_that_does_not_stop_in_time_cannot_abort_the_end(
    ipl: Call, opened: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    stop = threading.Event()
    fit = threading.Thread(target=stop.wait, name=THREAD_NAME, daemon=True)
    fit.start()
    assert ipl("ui", "--port", 0).err.endswith("Ended.\n")
    assert codes == [0]
    stop.set()
    fit.join()
    ipl("ui", "--port", 0)
    assert codes == [0]


def test_what_is_wrong_is_said(ipl: Call, home: Path, opened: list[Any]) -> None:
    assert "nowhere" in ipl("ui", home / "nowhere").error
    assert "No such file or folder" in ipl("ui", "--data", home / "nowhere").error
    assert "no-such" in ipl("ui", "--backbone", "no-such", "--port", 0).error
    with closing(listen("127.0.0.1", 0)) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        assert f"port {port} of '127.0.0.1'" in ipl("ui", "--port", port).error
    assert opened == []


def test_a_missing_package_is_named(ipl: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gradio", None)
    for module in ("ipl.apps.workbench", "ipl.apps.workbench.app"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    message = ipl("ui").error
    assert "gradio" in message
    assert "pip install 'ipl[ui]'" in message


def test_ctrl_c_ends_it_and_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ipl", "ui", "--port", "0", "--device", "cpu"]
    temporary = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=temporary) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "The workbench is open at " in line
        address = line.split(" at ")[1].split()[0]
        assert b"ipl workbench" in urlopen(address).read()
        assert list(tmp_path.glob("ipl-ui-*"))
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode == 0
    assert rest == "Ended.\n"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert not list(tmp_path.glob("ipl-ui-*"))
