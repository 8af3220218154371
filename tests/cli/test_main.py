"""What every command shares: one sentence and exit code 2 for a wrong command line."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from ipl.cli.output import on_interrupt
from ipl.support.errors import BackboneError

Call = Callable[..., Any]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("fit", "x", "--shots", "abc"), "--shots"),
        (("predict", "x", "y", "--top", "0"), "--top"),
        (("fit",), "Missing argument 'DATA'"),
        (("fit", "x", "--nope"), "No such option"),
        (("nope",), "No such command 'nope'"),
        (("export", "x"), "--to"),
    ],
)
def test_a_wrong_command_line_gets_one_sentence(
    arguments: tuple[str, ...], said: str, ipl: Call
) -> None:
    message = ipl(*arguments).error
    assert said in message
    assert "--help`." in message


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("predict", "", "x.png"), "An argument is empty"),
        (("fit", ""), "An argument is empty"),
        (("fit", "x", "--out", ""), "The argument after --out is empty"),
        (("fit", "x", "--out="), "--out is empty"),
    ],
)
def test_an_empty_argument_is_not_the_current_folder(
    arguments: tuple[str, ...], said: str, ipl: Call
) -> None:
    assert said in ipl(*arguments).error


@pytest.mark.parametrize("error", [KeyboardInterrupt, RecursionError, BackboneError, OSError])
@pytest.mark.parametrize("message", ["", "nothing was saved."])
def test_ctrl_c_is_no_error_whatever_a_library_makes_of_it(
    error: type[BaseException], message: str, ipl: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> None:
        with on_interrupt(lambda: message) if message else nullcontext():
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                raise error from None

    monkeypatch.setattr("ipl.cli.learners.learners", interrupted)
    handler = signal.getsignal(signal.SIGINT)
    result = ipl("learners")
    assert result.code == 130
    assert result.err.strip() == (f"stopped: {message}" if message else "stopped.")
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_background_job_may_ignore_ctrl_c(ipl: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ipl.cli.learners.learners", lambda: signal.raise_signal(signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert ipl("learners").code == 0
    finally:
        signal.signal(signal.SIGINT, before)


def test_errors_without_ctrl_c_are_errors(ipl: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        with on_interrupt(lambda: "nothing was saved."):
            raise RecursionError

    monkeypatch.setattr("ipl.cli.learners.learners", fail)
    with pytest.raises(RecursionError):
        ipl("learners")


def test_ctrl_c_during_imports_is_no_traceback() -> None:
    code = (
        "import builtins, signal, sys\n"
        "def interrupted(name, *rest, real=builtins.__import__):\n"
        "    if name == 'typer':\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "    return real(name, *rest)\n"
        "builtins.__import__ = interrupted\n"
        "from ipl.__main__ import main\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "\nstopped.\n")


def test_without_arguments_the_help_is_shown(ipl: Call) -> None:
    for arguments in ((), ("data",)):
        result = ipl(*arguments)
        assert "Usage:" in result.out + result.err
        assert "error:" not in result.err
