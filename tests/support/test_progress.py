"""What a person sees of progress: lines in a pipe, a bar on a terminal, nothing when quiet."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from ipl.support import progress
from ipl.support.progress import Reporter


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


def test_a_pipe_gets_a_line_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress.time, "monotonic", lambda: 0.0)
    reporter, file = _reporter()
    with reporter.task("Work", 5) as advance:
        advance(2)
        advance(2, note="nearly")
        assert file.getvalue() == ""
        advance(note="loss 0.5")
    assert file.getvalue() == "Work: 5 of 5 loss 0.5\n"


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


def test_a_terminal_gets_a_bar() -> None:
    reporter, file = _reporter(terminal=True)
    with reporter.task("Work", 4) as advance:
        advance(4, note="[V] a[/b]")
    shown = file.getvalue()
    assert all(part in shown for part in ("Work", "4/4", "[V] a[/b]"))


@pytest.mark.parametrize("terminal", [True, False])
def test_an_error_passes_through(terminal: bool) -> None:
    reporter, _ = _reporter(terminal=terminal)
    with pytest.raises(KeyError, match="x"), reporter.task("Work", 4):
        raise KeyError("x")


def test_a_reporter_writes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    Reporter().say("hello")
    assert capsys.readouterr() == ("", "hello\n")
