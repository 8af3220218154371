"""The documentation site builds without a warning, and needs nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))


def _build(folder: Path, settings: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess[str]:
    """Runs what `make docs` runs, into another folder."""
    command = ["mkdocs", "build", "--strict", "-f", str(settings), "-d", str(folder)]
    variables = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(
        [sys.executable, "-m", *command], env=variables, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = _build(folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_built(site: Path) -> None:
    for page in PAGES:
        path = (site / page.relative_to(ROOT / "docs")).with_suffix(".html")
        title = re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)[1]
        assert title in path.read_text(encoding="utf-8"), path


def test_files_that_pages_link_to_are_pages(site: Path) -> None:
    architecture = (site / "architecture.html").read_text(encoding="utf-8")
    assert 'href="repository/src/ipl/config.py.html"' in architecture
    assert "FitConfig" in (site / "repository/src/ipl/config.py.html").read_text(encoding="utf-8")
    changelog = (site / "repository/CHANGELOG.html").read_text(encoding="utf-8")
    assert 'href="../words.html' in changelog or 'href="../guide.html' in changelog


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(r"<(?:script|img|link|iframe)\b[^>]*", page.read_text(encoding="utf-8"))
        assert loaded
        assert not [tag for tag in loaded if re.search(r'(?:src|href)="(?:https?:)?//', tag)]


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for name in ("hooks.py", "site.css"):
        (tmp_path / "docs" / name).write_bytes((ROOT / "docs" / name).read_bytes())
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:")[0]
    (tmp_path / "mkdocs.yml").write_text(settings + "\nnav: [index.md]\n")
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        (tmp_path / name).write_text(f"# {name}\n")
    page = tmp_path / "docs" / "index.md"
    page.write_text("# Home\n\n[here](#home)\n")
    assert _build(tmp_path / "site", tmp_path / "mkdocs.yml").returncode == 0
    for link in ("[gone](gone.md)", "[gone](#gone)"):
        page.write_text(f"# Home\n\n{link}\n")
        done = _build(tmp_path / "site", tmp_path / "mkdocs.yml")
        assert done.returncode == 1
        assert "gone" in done.stderr
