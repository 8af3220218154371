"""The Dockerfile without Docker: what it copies and installs exists, and its command serves."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINES = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text(encoding="utf-8")).splitlines()
INSTRUCTIONS = [line.split(maxsplit=1) for line in LINES if line and not line.startswith("#")]
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def of(name: str) -> list[str]:
    """Returns what follows each instruction of this name."""
    return [rest for instruction, rest in INSTRUCTIONS if instruction == name]


def copied() -> list[str]:
    """Returns the files and folders that are copied from the repository."""
    return [source for rest in of("COPY") for source in rest.split()[:-1]]


def test_it_has_only_instructions_of_docker() -> None:
    known = {"FROM", "ARG", "RUN", "WORKDIR", "COPY", "USER", "ENV"}
    known |= {"EXPOSE", "HEALTHCHECK", "ENTRYPOINT"}
    assert {name for name, _ in INSTRUCTIONS} == known
    assert INSTRUCTIONS[0] == ["FROM", "python:3.12-slim"]
    (low, high) = map(int, re.search(r'">=3\.(\d+),<3\.(\d+)"', PYPROJECT).groups())
    assert low <= 12 < high


def test_what_is_copied_exists_and_is_not_ignored() -> None:
    rules = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [rule for rule in rules if rule and not rule.startswith("#")]
    assert rules[0] == "*"
    assert sorted(rule[1:] for rule in rules if rule.startswith("!")) == sorted(copied())
    for source in copied():
        assert (ROOT / source).exists(), source
        assert not any(fnmatch(source, rule) for rule in rules[1:] if not rule.startswith("!"))


def test_what_the_package_is_built_from_is_copied() -> None:
    files = re.findall(r'^readme = "(.+)"$', PYPROJECT, re.MULTILINE)
    files += re.findall(r'"([^"]+)"', re.search(r"^license-files = (.+)$", PYPROJECT, re.M)[1])
    files += re.findall(r'"([^"]+)"', re.search(r"^packages = (.+)$", PYPROJECT, re.M)[1])
    assert len(files) == 6
    for file in files:
        assert any(Path(file).is_relative_to(source) for source in copied()), file


def test_versions_and_extras_are_those_of_the_project() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    version = re.search(r"^TORCH := torch==(\S+)", makefile, re.MULTILINE)[1]
    index, packages, torch = of("ARG")
    assert index.startswith("TORCH_INDEX=https://download.pytorch.org/whl/cpu")
    assert packages == "PIP_INDEX_URL=https://pypi.org/simple"
    assert torch == f"TORCH={version}"
    first, second, third = (rest for rest in of("RUN") if rest.startswith("pip install"))
    assert first.endswith("--no-deps torch==${TORCH} --index-url ${TORCH_INDEX}")
    assert second.endswith("--require-hashes -r requirements.txt")
    (extra,) = re.findall(r"'\.\[(\w+)\]'", third)
    assert re.search(rf"^{extra} = \[", PYPROJECT, re.MULTILINE)


def test_the_service_does_not_run_as_root() -> None:
    (user,) = of("USER")
    assert user != "root"
    (made,) = [rest for rest in of("RUN") if rest.startswith("useradd")]
    assert made.endswith(f" {user}")
    names = [name for name, _ in INSTRUCTIONS]
    assert names.index("USER") < names.index("ENTRYPOINT")


@pytest.mark.slow
def test_its_command_serves_and_the_health_check_notices(make_run: Callable[..., Path]) -> None:
    command, health = json.loads(of("ENTRYPOINT")[0]), of("HEALTHCHECK")[0]
    port = command[command.index("--port") + 1]
    assert of("EXPOSE") == [port]
    assert command[:3] == ["ipl", "serve", "/model"]
    options = [{port: "0"}.get(word, word) for word in command[3:]]
    check = json.loads(health.partition("CMD ")[2])
    assert check[:2] == ["python", "-c"]

    def is_healthy(address: str) -> bool:
        code = check[2].replace(f"127.0.0.1:{port}", address)
        assert address in code
        return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0

    start = [sys.executable, "-m", "ipl", "serve", str(make_run()), *options]
    with subprocess.Popen(start, stderr=subprocess.PIPE, text=True) as service:
        try:
            assert service.stderr is not None
            lines = iter(service.stderr.readline, "")
            line = next(line for line in lines if "answers at" in line)
            served = re.search(r":(\d+) ", line)
            assert served is not None
            address = f"127.0.0.1:{served[1]}"
            assert is_healthy(address)
        finally:
            service.terminate()
        assert service.wait(60) == 0
    assert not is_healthy(address)


def test_the_documentation_has_the_same_port_and_folder() -> None:
    page = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    section = page.split("## In a container")[1].split("\n## ")[0]
    assert "/model:ro" in section
    assert f":{of('EXPOSE')[0]}" in section


@pytest.mark.parametrize("file", ["Dockerfile", ".dockerignore"])
def test_the_sdist_has_it(file: str) -> None:
    assert f'"{file}"' in PYPROJECT.split("[tool.hatch.build.targets.sdist]")[1].split("\n\n")[0]
