"""The documentation site, built as `make docs` does it: the whole, or one page of a test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def build_site(
    folder: Path, settings: Path = ROOT / "mkdocs.yml"
) -> subprocess.CompletedProcess[str]:
    """Builds the site into a folder, strictly."""
    command = ["mkdocs", "build", "--strict", "-f", str(settings), "-d", str(folder)]
    variables = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(
        [sys.executable, "-m", *command], env=variables, capture_output=True, text=True, check=False
    )


def build_page(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Builds folder/site from one page, with the settings and hooks of the real site."""
    (folder / "docs").mkdir(exist_ok=True)
    for name in ("hooks.py", "site.css"):
        (folder / "docs" / name).write_bytes((ROOT / "docs" / name).read_bytes())
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        (folder / name).write_text(f"# {name}\n", encoding="utf-8")
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:")[0]
    (folder / "mkdocs.yml").write_text(f"{settings}\nnav: [index.md]\n", encoding="utf-8")
    (folder / "docs" / "index.md").write_text(text, encoding="utf-8")
    return build_site(folder / "site", folder / "mkdocs.yml")
