"""The documentation site builds without a warning, and needs nothing from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ipl
from ipl import FitConfig
from ipl.cli.main import COMMANDS
from tests.helpers.docs_site import ROOT, build_page, build_site

PAGES = sorted((ROOT / "docs").rglob("*.md"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build_site(folder)
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


def test_the_reference_has_every_public_name(site: Path) -> None:
    pages = [path.read_text(encoding="utf-8") for path in (site / "api").glob("*.html")]
    for name in set(ipl.__all__) - {"__version__"}:
        assert any(f'id="ipl.{name}"' in page for page in pages), name
    (classifier,) = [page for page in pages if 'id="ipl.PromptClassifier"' in page]
    settings = re.findall(r"<code>(?:<b>)?(\w+)|<b>(\w+)</b>", classifier)
    assert set(ipl.PromptClassifier().get_params()) <= {name for pair in settings for name in pair}


def test_the_commands_are_listed_with_their_options(site: Path) -> None:
    page = (site / "commands.html").read_text(encoding="utf-8")
    for name in (*COMMANDS, "data-check", "recipe-show"):
        assert f'<h2 id="ipl-{name}">' in page, name
    fit = page.split('<h2 id="ipl-fit">')[1].split("<h2")[0]
    rows = [re.sub(r"<.*?>", "", row) for row in re.findall(r"<tr>(.*?)</tr>", fit, re.DOTALL)]
    (shots,) = [row for row in rows if row.strip().startswith("--shots")]
    assert shots.split("\n")[2] == f"Training images per class. Default: {FitConfig.shots}."
    assert "--select-in" not in page  # hidden, as in --help


def test_formulas_are_drawn(site: Path) -> None:
    method = (site / "method.html").read_text(encoding="utf-8")
    assert method.count('<svg class="formula"') >= 20
    assert "arithmatex" not in method


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(r"<(?:script|img|link|iframe)\b[^>]*", page.read_text(encoding="utf-8"))
        assert loaded
        assert not [tag for tag in loaded if re.search(r'(?:src|href)="(?:https?:)?//', tag)]


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    assert build_page(tmp_path, "# Home\n\n[here](#home)\n").returncode == 0
    for link in ("[gone](gone.md)", "[gone](#gone)"):
        done = build_page(tmp_path, f"# Home\n\n{link}\n")
        assert done.returncode == 1
        assert "gone" in done.stderr
