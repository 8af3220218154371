"""What a person sees of progress: lines in a pipe, a bar on a terminal, nothing when quiet."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from ipl.display.table import Table
from ipl.support import progress
from ipl.support.progress import Reporter, SafeConsole


def _reporter(quiet: bool = False, terminal: bool = False) -> tuple[Reporter, StringIO]:
    file = StringIO()
    console = Console(file=file, force_terminal=terminal, width=80, highlight=False)
    return Reporter(quiet, console), file


def test_say_is_one_plain_line() -> None:
    reporter, file = _reporter()
    message = "[bold]file[1].jpg[/nothing] " + "long " * 40
    reporter.say(message)
    assert file.getvalue() == message + "\n"  # neither markup nor wrapping


def test_quiet_keeps_warnings_only() -> None:
    reporter, file = _reporter(quiet=True)
    reporter.say("hello")
    with reporter.task("Work", 1) as advance:
        advance()
    assert file.getvalue() == ""
    reporter.warn("[x] is left out")
    assert file.getvalue() == "warning: [x] is left out\n"


def test_a_pipe_gets_a_line_from_time_to_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    reporter, file = _reporter()
    with reporter.task("Work", 100) as advance:
        for _ in range(30):
            now[0] += 1.0
            advance()
    step = int(progress.SECONDS_BETWEEN_LINES)
    assert file.getvalue().splitlines() == [
        f"Work: {done} of 100" for done in range(step, 31, step)
    ]


def test_texts_cannot_control_the_terminal() -> None:
    file = StringIO()
    console = SafeConsole(file=file, force_terminal=True, color_system=None, width=80)
    table = Table(["a\x1b[2J"], [["x\x1b]0;title\x07y\x9b5m\u202e"]]).to_terminal()
    console.print(table)
    console.print("b\x1b[31m", markup=False, style="bold")
    shown = file.getvalue()
    assert "a[2J" in shown
    assert "x]0;titley5m" in shown
    assert not {"\x07", "\x9b", "\u202e"} & {*shown}
    assert "\x1b[31m" not in shown
