"""Tutorials: the code blocks of a page, how they are run, and the notebook that is made of them."""

from __future__ import annotations

import ast
import doctest
import math
import re
import shlex
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ipl.backbone.loading import load_backbone
from ipl.cli.main import COMMANDS, main

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.M)
NUMBER = re.compile(r"[-+\N{MINUS SIGN}]?\d+(?:[.,]\d+)*")
CHECKER = doctest.OutputChecker()
LENIENT = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def is_alike(shown: str, printed: str) -> bool:
    """Returns whether two outputs are the same but for blanks and what `...` stands for.

    Processors round differently and trainings carry that on, so numbers may differ a little.
    """
    if not CHECKER.check_output(NUMBER.sub("#", shown), NUMBER.sub("#", printed), LENIENT):
        return False
    return "..." in shown or all(map(_is_close, NUMBER.findall(shown), NUMBER.findall(printed)))


def _is_close(shown: str, printed: str) -> bool:
    """Returns whether two numbers are the same but for a tenth, or for an image or two."""
    one, other = (
        float(n.replace(",", "").replace("\N{MINUS SIGN}", "-")) for n in (shown, printed)
    )
    share = len(shown.partition(".")[2]) > 2
    return math.isclose(one, other, rel_tol=0.1, abs_tol=0.1 if share else 3)


def run_python(code: str, values: dict[str, Any]) -> None:
    """Runs code as a notebook does: the value of the last expression is printed."""
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "a tutorial", "exec"), values)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), "a tutorial", "eval"), values)
        if value is not None:
            print(repr(value))


def run_command(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a line that starts with `ipl` in this process; it must succeed."""
    words = shlex.split(line, comments=True)
    assert words[0] == "ipl", line
    monkeypatch.setattr(sys, "argv", words)
    try:
        main()
    except SystemExit as stop:
        assert not stop.code, line  # noqa: PT017


def load_backbones_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the commands of a test share a backbone, which is frozen."""
    for name in COMMANDS:
        import_module(f"ipl.cli.{name}")
    load = cache(load_backbone)
    for name, module in list(sys.modules.items()):
        if name.startswith("ipl.") and vars(module).get("load_backbone") is load_backbone:
            monkeypatch.setattr(module, "load_backbone", load)


def run_page(
    page: str,
    monkeypatch: pytest.MonkeyPatch,
    read_output: Callable[[], str],
    run_line: Callable[[str, pytest.MonkeyPatch], None] = run_command,
) -> dict[str, Any]:
    """Runs the blocks of a page in order, compares what they print, and returns their names."""
    values: dict[str, Any] = {"__name__": "tutorial"}
    for kind, code, output in BLOCK.findall(page):
        read_output()
        if kind == "python":
            run_python(code, values)
        else:
            for line in code.replace("\\\n", " ").splitlines():
                run_line(line, monkeypatch)
        printed = read_output()
        if output:
            assert is_alike(output, printed), f"{code}\n{printed}"
    return values
