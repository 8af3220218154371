"""pyproject, Makefile, hooks, workflow and citation say the same thing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ipl import __version__

ROOT = Path(__file__).parents[1]
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
YAML_FILES = sorted(
    [*(ROOT / ".github").rglob("*.yml"), ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff"]
)


def _read(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: path.name)
def test_yaml_can_be_read(path: Path) -> None:
    assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict)


def test_every_supported_python_is_tested() -> None:
    low, high = map(int, re.search(r'">=3\.(\d+),<3\.(\d+)"', PYPROJECT).groups())
    versions = [f"3.{minor}" for minor in range(low, high)]
    assert re.findall(r'Python :: (3\.\d+)"', PYPROJECT) == versions
    jobs = _read(".github/workflows/ci.yml")["jobs"]
    assert jobs["test"]["strategy"]["matrix"]["python"] == versions
    assert jobs["test"]["steps"][-1] == {"run": ".ci/run"}
    pythons = [step["with"]["python-version"] for step in jobs["lowest"]["steps"] if "with" in step]
    assert pythons == versions[:1]


def test_the_lowest_versions_are_those_promised() -> None:
    for package in ("torch", "transformers"):
        (floor,) = re.findall(rf'^    "{package}>=([\d.]+)"', PYPROJECT, re.MULTILINE)
        assert f"'{package}=={floor}.*'" in MAKEFILE


def test_the_workflow_runs_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", MAKEFILE, re.MULTILINE))
    workflow = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    pages = [(ROOT / name).read_text(encoding="utf-8") for name in ("CONTRIBUTING.md", "README.md")]
    named = re.findall(r"run: make (\w+)", workflow)
    named += [name for page in pages for name in re.findall(r"^make (\w+)", page, re.MULTILINE)]
    assert len(named) >= 6
    assert set(named) <= targets


def test_hooks_and_make_run_the_same_tools() -> None:
    recipe = MAKEFILE.split("\nlint:")[1].split("\n\n")[0]
    hooks = _read(".pre-commit-config.yaml")["repos"][0]["hooks"]
    tools = {hook["entry"].removeprefix(".venv/bin/").split()[0] for hook in hooks}
    assert tools == set(re.findall(r"\$\(BIN\)/([\w-]+)", recipe))


def test_citation_names_paper_and_licence() -> None:
    citation = _read("CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    paper = citation["preferred-citation"]
    assert paper["title"] in (ROOT / "README.md").read_text(encoding="utf-8")
    assert paper["authors"][0]["family-names"] == "Wang"
    assert citation["license"] in PYPROJECT.split('license = "')[1].split('"')[0].split(" AND ")


def test_a_release_has_one_version_and_one_date() -> None:
    """A version under development has neither a date nor a citation of its own yet."""
    section = re.compile(r"^## (\S+) \((.+)\)$", re.MULTILINE)
    changelog, notes = (
        section.findall((ROOT / path).read_text(encoding="utf-8"))[0]
        for path in ("CHANGELOG.md", "docs/releases.md")
    )
    assert changelog == notes
    version, date = changelog
    if __version__.endswith(".dev0"):
        assert (f"{version}.dev0", date) == (__version__, "not yet released")
    else:
        citation = _read("CITATION.cff")
        assert version == __version__ == citation["version"]
        assert date == str(citation["date-released"])
