"""What every command shares: the help, wrong command lines, Ctrl-C, and a quick start."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from ipl.cli.main import COMMANDS
from ipl.cli.output import on_interrupt

Call = Callable[..., Any]
HEAVY = ("torch", "transformers", "numpy", "matplotlib", "sklearn", "gradio", "fastapi")
RUN_MAIN = "from ipl.cli.main import main; sys.argv = ['ipl', {!r}]; main()"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("fit", "x", "--shots", "abc"), "--shots"),
        (("fit",), "'DATA'"),
        (("fit", "x", "--nope"), "--nope"),
        (("fitt",), "'fit'"),
        (("predict", "", "x.png"), "empty"),
        (("fit", "x", "--out="), "--out is empty"),
    ],
)
def test_a_wrong_command_line_gets_one_sentence(
    arguments: tuple[str, ...], said: str, ipl: Call
) -> None:
    assert said in ipl(*arguments).error


def test_every_command_has_help(ipl: Call) -> None:
    for name in COMMANDS:
        shown = ipl(name, "--help")
        assert shown.code == 0
        assert "--help" in shown.out
    assert all(name in ipl("--help").out for name in COMMANDS)


def test_without_arguments_the_help_is_shown(ipl: Call) -> None:
    for arguments in ((), ("list",)):
        result = ipl(*arguments)
        assert "Usage:" in result.out + result.err
        assert "error:" not in result.err


@pytest.mark.parametrize(
    "code", ["import ipl", *(RUN_MAIN.format(typed) for typed in ("--help", "--version", "fitt"))]
)
def test_nothing_heavy_is_imported_before_it_is_needed(code: str) -> None:
    report = f"print('heavy:', *(name for name in {HEAVY} if name in sys.modules))"
    program = f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\n{report}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "heavy:", done.stderr


@pytest.mark.parametrize("message", ["", "nothing was saved."])
def test_ctrl_c_is_no_error(message: str, ipl: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        with on_interrupt(lambda: message) if message else nullcontext():
            raise KeyboardInterrupt

    monkeypatch.setattr("ipl.cli.demo.demo", interrupted)
    result = ipl("demo")
    assert result.code == 130
    assert result.err.strip() == (f"stopped: {message}" if message else "stopped.")
