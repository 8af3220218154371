"""docs/architecture.md tells the truth: every hop and every file in it exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
HOPS = re.findall(r"`(src/ipl/[\w/]+\.py)`: `([\w.]+)`", TEXT)


def _names(path: Path) -> set[str]:
    """Returns the functions and classes of a file, and the methods as Class.method."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = [inner for inner in node.body if isinstance(inner, ast.FunctionDef)]
            names |= {f"{node.name}.{method.name}" for method in methods}
    return names


@pytest.mark.parametrize(("file", "name"), HOPS)
def test_every_hop_exists(file: str, name: str) -> None:
    assert name in _names(ROOT / file)


def test_the_walks_never_go_back() -> None:
    fit, bench = (
        re.findall(r"\d+\. `(src/[\w/.]+)`", part) for part in TEXT.split("## The walk")[1:]
    )
    assert len(fit) == len(set(fit)) == 20
    assert len(bench) == len(set(bench)) == 11


def test_no_change_touches_more_than_three_files() -> None:
    table = TEXT.split("## Where to change what")[1].split("\n\n")[1]
    rows = [line.split("|")[1:3] for line in table.splitlines()[2:]]
    assert len(rows) == 15
    for _, files in rows:
        assert 1 <= len(re.findall(r"`(?:src|docs)/[\w/.]+\.\w+`", files)) <= 3


def test_class_and_module_names_are_unique() -> None:
    classes: dict[str, list[Path]] = {}
    for path in (ROOT / "src" / "ipl").rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, []).append(path)
    assert {name: paths for name, paths in classes.items() if len(paths) > 1} == {}
