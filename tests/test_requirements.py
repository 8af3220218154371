"""The lock files have all that pyproject.toml asks for, with hashes; NOTICE names what exists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib  # type: ignore[no-redef]

ROOT = Path(__file__).parents[1]
FILES = ("requirements.txt", "requirements-test.txt")


def _locked(file: str) -> dict[str, tuple[str, int]]:
    """Returns version and number of hashes of each package that is meant for this Python."""
    locked = {}
    entries = re.split(r"\n(?=[A-Za-z0-9])", (ROOT / file).read_text(encoding="utf-8"))
    for entry in (entry for entry in entries if "==" in entry and not entry.startswith("#")):
        requirement = Requirement(entry.partition(" \\\n")[0])
        if requirement.marker is None or requirement.marker.evaluate():
            (pin,) = requirement.specifier
            locked[canonicalize_name(requirement.name)] = pin.version, entry.count("--hash=sha256:")
    return locked


def _wanted(project: dict[str, Any], extras: list[str]) -> list[Requirement]:
    """Returns the requirements of ipl and of extras, in which ipl names further extras."""
    found = [Requirement(text) for text in project["dependencies"]]
    while extras:
        for text in project["optional-dependencies"][extras.pop()]:
            requirement = Requirement(text)
            if requirement.name == "ipl":
                extras += requirement.extras
            else:
                found.append(requirement)
    environment = {**default_environment(), "extra": ""}
    return [each for each in found if each.marker is None or each.marker.evaluate(environment)]


@pytest.mark.parametrize(("file", "extras"), [(FILES[0], []), (FILES[1], ["test"])])
def test_everything_is_locked_with_its_hashes(file: str, extras: list[str]) -> None:
    values = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = _wanted(values["project"], list(extras))
    wanted += [Requirement(text) for text in values["build-system"]["requires"]]
    locked = _locked(file)
    assert all(hashes for _, hashes in locked.values())
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    torch = re.findall(r"^TORCH := torch==(\S+)", makefile, re.MULTILINE)
    for requirement in wanted:
        name = canonicalize_name(requirement.name)
        version = torch[0] if name == "torch" else locked[name][0]
        assert requirement.specifier.contains(version), requirement


def test_the_lock_files_agree() -> None:
    base, test = map(_locked, FILES)
    assert base.items() <= test.items()


def test_open_clip_is_locked_too() -> None:
    values = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (wanted,) = map(Requirement, values["project"]["optional-dependencies"]["open_clip"])
    locked = _locked("requirements-open-clip.txt")
    assert wanted.specifier.contains(locked[canonicalize_name(wanted.name)][0])
    assert all(hashes for _, hashes in locked.values())
    assert not locked.keys() & _locked(FILES[1]).keys()  # one place for each version


def test_what_notice_lists_exists() -> None:
    paths = re.findall(r"(?:src|tests)/[\w/.*-]+\w", (ROOT / "NOTICE").read_text(encoding="utf-8"))
    assert len(paths) > 8
    assert [path for path in paths if not list(ROOT.glob(path))] == []
