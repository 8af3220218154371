"""The help, the version and `import ipl` wait for no package that computes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ipl.cli.main import COMMANDS, load_command

HEAVY = ("torch", "transformers", "numpy", "matplotlib", "sklearn", "gradio", "fastapi")
RUN = """
import sys
{}
print("imported:", *(name for name in {} if name in sys.modules))
"""
MAIN = """
from ipl.cli.main import main
sys.argv = ["ipl", {!r}]
try:
    main()
except SystemExit:
    pass
"""


@pytest.mark.parametrize(
    "code", ["import ipl", *(MAIN.format(typed) for typed in ("--help", "--version", "fitt"))]
)
def test_nothing_heavy_is_imported(code: str) -> None:
    command = [sys.executable, "-c", RUN.format(code, HEAVY)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].split() == ["imported:"]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_what_a_command_says_of_itself(name: str) -> None:
    assert " ".join(load_command(name).help.split("\n\n")[0].split()) == COMMANDS[name]
