"""README and docs: their examples run; their imports, links and files exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.scenes import open_scene

ROOT = Path(__file__).parents[1]
TOP = ("CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "README.md", "SECURITY.md")
PAGES = sorted([*(ROOT / name for name in TOP), *(ROOT / "docs").rglob("*.md")])
SCRIPTS = sorted((ROOT / "benchmarks").glob("*.py"))


@pytest.mark.slow
def test_the_python_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [ROOT / "docs" / "words.md", ROOT / "README.md"]
    texts = [page.read_text(encoding="utf-8") for page in pages]
    first, second = (re.search(r"```python\n(.*?)```", text, re.DOTALL)[1] for text in texts)
    for folder in ("images", "more-images"):
        for name in ("castle", "lake"):
            (tmp_path / folder / name).mkdir(parents=True)
            for index in range(4):
                open_scene(name, index).save(tmp_path / folder / name / f"{index}.png")
    open_scene("castle", 9).save(tmp_path / "photo.jpg")
    monkeypatch.chdir(tmp_path)
    values: dict[str, Any] = {}
    exec(first + second, values)  # the text of our own file
    classifier = values["classifier"]
    assert list(values["selection"].words) == classifier.words_[:3]
    assert len(classifier.words_) == 3
    assert classifier.classes_ == ["castle", "lake"]
    assert values["other"].classes_ == ["cat", "dog", "fox"]
    assert classifier.predict(["photo.jpg"])[0] in ("castle", "lake")
    assert (tmp_path / "my-prompt" / "README.md").is_file()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def _imported_names(code: str) -> Iterator[tuple[str, str]]:
    """Yields the module and the name of every `from ipl... import name`."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and re.match(r"ipl(\.|$)", node.module or ""):
            yield from ((str(node.module), alias.name) for alias in node.names)


def _is_importable(module: str, name: str) -> bool:
    """Returns whether a module has a name, or is a package that has a module of that name."""
    if hasattr(import_module(module), name):
        return True
    try:
        import_module(f"{module}.{name}")
    except ModuleNotFoundError:
        return False
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_imports_in_python_blocks_exist(page: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    for module, name in (imported for block in blocks for imported in _imported_names(block)):
        assert _is_importable(module, name), f"from {module} import {name}"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_imports_of_the_benchmarks_exist(script: Path) -> None:
    imported = list(_imported_names(script.read_text(encoding="utf-8")))
    assert imported
    for module, name in imported:
        assert _is_importable(module, name), f"from {module} import {name}"
