"""The examples of README, the links of the pages beside it, and the imports of the benchmarks."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.scenes import draw_folder, open_scene

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_python_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("images", "more-images"):
        draw_folder(tmp_path / folder, {"castle": 4, "lake": 4})
    open_scene("castle", 9).save(tmp_path / "photo.jpg")
    values: dict[str, Any] = {}
    monkeypatch.chdir(tmp_path)
    for page in ("docs/words.md", "README.md"):
        block = re.search(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
        assert block is not None
        exec(block[1], values)
    assert values["other"].classes_ == ["cat", "dog", "fox"]
    assert (tmp_path / "my-prompt" / "README.md").is_file()


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "README.md", "SECURITY.md"])
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", (ROOT / page).read_text("utf-8")):
        assert target.startswith("http") or (ROOT / target).exists(), target


@pytest.mark.parametrize("script", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda p: p.stem)
def test_imports_of_the_benchmarks_exist(script: Path) -> None:
    for node in ast.walk(ast.parse(script.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ipl"):
            module = import_module(str(node.module))
            for alias in node.names:
                assert hasattr(module, alias.name) or import_module(f"{node.module}.{alias.name}")
