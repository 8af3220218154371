"""What every command shares: one sentence and exit code 2 for a wrong command line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from ipl.cli.main import name_options

Call = Callable[..., Any]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("fit", "x", "--shots", "abc"), "'--shots'"),
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


@pytest.mark.parametrize("command", ["fit", "select"])
def test_a_wrong_number_is_refused_before_torch_is_imported(command: str) -> None:
    code = (
        f"import sys; sys.argv = ['ipl', '{command}', 'x', '--words', '999999999']\n"
        "from ipl.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    print(end.code, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "2 False\n"
    assert "--words is 999999999; it must be" in done.stderr


def test_without_arguments_the_help_is_shown(ipl: Call) -> None:
    for arguments in ((), ("data",)):
        result = ipl(*arguments)
        assert "Usage:" in result.out + result.err
        assert "error:" not in result.err


@pytest.mark.parametrize(
    ("message", "arguments", "shown"),
    [
        ("lambda is -1.0; it", "--lambda -1", "--lambda is -1.0; it"),
        ("lambda is -1.0; it", "--lambda=-1", "--lambda is -1.0; it"),
        ("lambda is -1.0; it", "", "lambda is -1.0; it"),  # a recipe has it
        ("seed is 'x'; it must", "--seeds 1,x", "--seeds is 'x'; it must"),
        ("words is 9; use fewer words.", "--words 9", "--words is 9; use fewer words."),
        ("words is 1, words_given has 2", "--words-given a,b", "words is 1, --words-given has 2"),
        ("no_names_at_all is 1", "--no-names", "no_names_at_all is 1"),
        ("There is no dataset 'x'.", "data check . x -- --", "There is no dataset 'x'."),
    ],
)
def test_messages_name_the_options_that_were_typed(
    message: str, arguments: str, shown: str
) -> None:
    assert name_options(message, arguments.split()) == shown
