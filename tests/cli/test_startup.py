"""Commands that compute nothing do not wait for the packages that compute."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ipl.cli.main import COMMANDS
from tests.helpers.records import record, write_records
from tests.helpers.scenes import open_scene

HEAVY = (
    *("torch", "transformers", "matplotlib", "pandas", "sklearn"),
    *("gradio", "fastapi", "scipy", "ray", "nltk", "wordfreq", "datasets", "numpy", "jinja2"),
)
HELP_PAGES = [["--help"], *([name, "--help"] for name in COMMANDS)]
LIGHT = [
    ["--version"],
    ["backbones"],
    ["cache"],
    ["data", "list"],
    ["data", "check", "{data}"],
    ["learners"],
    ["recipe", "list"],
    ["recipe", "show", "base-to-novel/coop"],
    ["recipe", "copy", "base-to-novel/coop", "copied.yaml"],
    ["words"],
    ["words", "dog"],
    ["words", "xylem", "crocodile", "selfie", "online"],  # each stops at another filter, or at none
    ["words", "--no-names", "--list"],
    ["bench", "few-shot", "--datasets", "{data}", "--shots", "1", "--dry-run"],
]
TABLES = [  # with intervals, which are computed with NumPy
    ["table", "{bench}"],
    ["table", "{bench}", "--cost"],
    ["table", "{bench}", "--format", "latex"],
]
REFUSED = [
    ["fit", "/nonexistent"],
    ["fit", "{data}", "--learner", "coopp"],
    ["fit", "{data}", "--words", "-3"],
    ["fit", "{data}", "--backbone", "poket"],
    ["fit", "{data}", "--epochs", "many"],
    ["select", "/nonexistent"],
    ["bench", "base-to-novle", "--datasets", "{data}"],
    ["bench", "few-shot", "--datasets", "{data}", "--arms", "nothing"],
    ["bench", "few-shot", "--datasets", "{data}", "--jobs", "0"],
    ["table", "/nonexistent"],
    ["recipe", "show", "nothing"],
    ["words", "--backbone", "poket"],
    ["predict", "/nonexistent", "image.png"],
    ["evaluate", "/nonexistent", "{data}"],
    ["report", "/nonexistent"],
    ["compare", "/nonexistent", "/nowhere"],
    ["export", "/nonexistent", "--to", "text"],
    ["push", "/nonexistent", "owner/name"],
    ["serve", "/nonexistent"],
    ["ui", "/nonexistent"],
    ["no-such-command"],
]
# Runs the commands one after the other and prints the exit code of each, and which of the modules
# it was the first to import.
RUN = """
import contextlib, io, json, sys
from ipl.cli.main import main
modules, commands = json.loads(sys.argv[1])
results = []
for command in commands:
    before = set(sys.modules)
    sys.argv = ["ipl", *command]
    code = 0
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
    results.append([code, [name for name in modules if name in sys.modules and name not in before]])
print(json.dumps(results))
"""


def run(
    commands: list[list[str]], folder: Path, modules: Sequence[str] = HEAVY
) -> list[tuple[int, list[str]]]:
    """Returns the exit code of each command and which of the modules it imported."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps([modules, commands])],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    )
    return [(code, imported) for code, imported in json.loads(done.stdout)]


@pytest.mark.parametrize(
    ("commands", "code", "allowed"),
    [
        (HELP_PAGES, 0, ()),
        (LIGHT, 0, ()),
        (REFUSED, 2, ()),
        (TABLES, 0, ("numpy",)),
        ([["ablate", "nothing"]], 2, ("numpy",)),
    ],
    ids=["help", "light", "refused", "tables", "ablation"],
)
def test_nothing_heavy_is_imported(
    commands: list[list[str]], code: int, allowed: tuple[str, ...], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    for name in ("cat", "dog"):
        (data / name).mkdir(parents=True)
        for index in range(3):
            open_scene(("beach", "castle")[name == "dog"], index).save(data / name / f"{index}.png")
    bench = write_records(tmp_path / "bench", record(), record(words=3))
    places = {"data": data, "bench": bench}
    typed = [[part.format(**places) for part in command] for command in commands]
    results = run(typed, tmp_path, [name for name in HEAVY if name not in allowed])
    wrong = {
        " ".join(command): result
        for command, result in zip(commands, results, strict=True)
        if result != (code, [])
    }
    assert wrong == {}


def test_the_check_sees_what_is_imported(tmp_path: Path) -> None:
    """A page has figures, which need matplotlib: a command that draws them is not light."""
    runs = [record(words=words, seed=seed) for words in (0, 3) for seed in (1, 2, 3)]
    bench = write_records(tmp_path / "bench", *runs)
    ((code, imported),) = run([["table", str(bench), "--page"]], tmp_path)
    assert code == 0
    assert "matplotlib" in imported
    assert "torch" not in imported


def test_the_other_commands_are_not_imported(tmp_path: Path) -> None:
    modules = [f"ipl.cli.{name}" for name in COMMANDS]
    one, every = run([["cache"], ["no-such-command"]], tmp_path, modules)
    assert one == (0, ["ipl.cli.cache"])
    assert every == (2, [name for name in modules if name != "ipl.cli.cache"])


@pytest.mark.parametrize("module", ["ipl", "ipl.config", "ipl.learners", "ipl.cli.main"])
def test_importing_the_package_loads_nothing_heavy(module: str) -> None:
    code = f"import {module}, sys; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
