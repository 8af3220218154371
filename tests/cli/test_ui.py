"""`ipl ui` says what is wrong before it takes a port, where it is, and ends when it is told to."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from ipl.cli.ui import remove_old_uploads

Call = Callable[..., Any]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """Returns the workbenches that were opened; each ends at once."""
    seen: list[Any] = []
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def end(page: Any, workbench: Any) -> bool:
        seen.append(workbench)
        page.close(verbose=False)
        return True

    monkeypatch.setattr("ipl.apps.workbench.serve_until_signal", end)
    return seen


def test_it_opens_with_a_prompt_and_images(
    ipl: Call, saved_run: Path, three_classes: Path, opened: list[Any]
) -> None:
    told = ipl("ui", saved_run, "--data", three_classes)
    assert told.code == 0, told.err
    assert told.out == ""
    assert "open at http://127.0.0.1:" in told.err
    (workbench,) = opened
    assert workbench.local
    assert workbench.start.data == three_classes
    assert workbench.start.classifier.classes_ == ["beach", "castle", "forest"]


def test_it_warns_if_other_machines_can_reach_it(ipl: Call, opened: list[Any]) -> None:
    told = ipl("ui", "--host", "0.0.0.0", "--quiet")
    assert "0.0.0.0 can be reached from other machines" in told.err
    assert [workbench.local for workbench in opened] == [False]


def test_what_is_wrong_is_said(ipl: Call, home: Path, opened: list[Any]) -> None:
    assert "nowhere" in ipl("ui", home / "nowhere").error
    assert "No such file or folder" in ipl("ui", "--data", home / "nowhere").error
    assert "no-such" in ipl("ui", "--backbone", "no-such").error
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port} of '127.0.0.1'" in ipl("ui", "--port", port).error
    assert opened == []


def test_a_missing_package_is_named(ipl: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gradio", None)
    assert "pip install 'ipl[ui]'" in ipl("ui").error


def test_ctrl_c_ends_it_and_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ipl", "ui", "--device", "cpu"]
    temporary = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=temporary) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert b"ipl workbench" in urlopen(line.split(" at ")[1].split()[0]).read()
        assert list(tmp_path.glob("ipl-ui-*"))
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode == 0
    assert rest == "Ended.\n"
    assert list(tmp_path.iterdir()) == []


def test_uploads_of_a_killed_workbench_are_removed_after_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    old, fresh, others = (tmp_path / name for name in ("ipl-ui-a", "ipl-ui-b", "mine"))
    for folder in (old, fresh, others):
        (folder / "inside").mkdir(parents=True)
    link = tmp_path / "ipl-ui-link"
    link.symlink_to(others)
    for folder in (old, others, link):
        os.utime(folder, (0, 0), follow_symlinks=False)
    remove_old_uploads()
    assert sorted(tmp_path.iterdir()) == sorted([fresh, others, link])
    assert (others / "inside").exists()
