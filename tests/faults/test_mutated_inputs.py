"""Damaged files of every kind that commands read: a result or one sentence, never a traceback.

A command that takes half a minute counts as hanging, and its memory is limited.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from ipl.explain.ratings import METHODS, WordSet, write_sheet
from tests.helpers.attacks import Outcome
from tests.helpers.fork_server import ForkServer
from tests.helpers.mutations import SECONDS, damage
from tests.helpers.records import record, search, write_records

BATCH = 250  # damaged files for one process
MEMORY = 700 << 20  # bytes that it may take beside what it starts with
pytestmark = pytest.mark.slow  # so that it is not the last
Times = Callable[[int, int], int]
Check = Callable[[Outcome], None]
# kind -> file to damage, command that reads it, how many of 100 damaged files it gets
TARGETS: dict[str, tuple[str, tuple[str, ...], int]] = {
    "config.json": ("run/config.json", ("predict", "run", "image.png", "--device", "cpu"), 20),
    "prompt.safetensors": (
        "run/prompt.safetensors",
        ("predict", "run", "image.png", "--device", "cpu"),
        10,
    ),
    "recipe": ("recipe.yaml", ("bench", "--recipe", "recipe.yaml", "--dry-run"), 15),
    "ablation": ("ablation.yaml", ("ablate", "arms", "--recipe", "ablation.yaml", "--dry-run"), 5),
    "words of the arm given": (
        "given.yaml",
        ("bench", "--recipe", "arm.yaml", "--given", "given.yaml", "--dry-run"),
        5,
    ),
    "record": ("grid/records/one.json", ("table", "grid", "--format", "md", "--cost"), 15),
    "CSV": ("data.csv", ("evaluate", "run", "data.csv", "--all", "--device", "cpu"), 8),
    "JSONL": ("data.jsonl", ("evaluate", "run", "data.jsonl", "--all", "--device", "cpu"), 7),
    "word list": ("words.txt", ("words", "sand", "--words-file", "words.txt"), 5),
    "class names": (
        "classes.txt",
        ("predict", "run", "image.png", "--classes", "classes.txt", "--device", "cpu"),
        5,
    ),
    "filled sheet": ("sheet.csv", ("rate", "--read", "sheet.csv"), 3),
    "key of a sheet": ("sheet.key.json", ("rate", "--read", "sheet.csv"), 3),
}


@pytest.fixture(scope="module")
def originals(
    run: Path, data: Path, server: ForkServer, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Returns a folder with all that is damaged, whole."""
    root = tmp_path_factory.mktemp("originals")
    shutil.copytree(run, root / "run")
    shutil.copytree(data, root / "data")
    shutil.copy(data / "beach" / "0.png", root / "image.png")
    rows = [(f"data/{name}/{number}.png", name) for name in ("beach", "lake") for number in (0, 1)]
    (root / "data.csv").write_text("path,label\n" + "".join(f"{a},{b}\n" for a, b in rows))
    lines = (json.dumps({"path": path, "label": label}) for path, label in rows)
    (root / "data.jsonl").write_text("\n".join(lines) + "\n")
    (root / "words.txt").write_text("sand\nwater\nstone\n# a comment\nbright\n")
    (root / "classes.txt").write_text("beach\ncastle\nold forest\n")
    (root / "given.yaml").write_text("scenes: sand, water\n")
    (root / "arm.yaml").write_text("protocol: few-shot\ndatasets: scenes\narms: given\n")
    for name, recipe in (("recipe", "base-to-novel/coop-ipl"), ("ablation", "ablations/arms")):
        ended = server.run("recipe", "show", recipe, folder=root, cache=root / "cache")
        text = re.sub(r"datasets:\n(  - \w+\n)+", "datasets: [scenes]\n", ended.out)
        (root / f"{name}.yaml").write_text(text)
    history = {"epochs": [{"epoch": 0, "lr": 0.1, "loss": 1.5, "word": "sand"}], "seconds": 2.5}
    found = {"selection": search((0.5, 0.25)), "history": history, "chosen": ["sand", "stone"]}
    cost = {"device": "cpu", "seconds": {"fit": 2.5, "test": 1}, "peak_memory": 10**9}
    others = [record(words=0), record(seed=2), record(learner="zero-shot", words=0)]
    write_records(root / "grid", {**record(), **found, **cost, "id": "one"}, *others)
    sets = [WordSet("run", method, "data", "beach, lake", (method,)) for method in METHODS]
    write_sheet(root / "sheet.csv", sets)
    sheet = (root / "sheet.csv").read_text(encoding="utf-8")
    (root / "sheet.csv").write_text(sheet.replace(",\n", ",3\n"), encoding="utf-8")
    return root


def damage_inputs(kind: str, count: int, server: ForkServer, originals: Path) -> Outcome:
    """Damages one file so many times, and gives each to its command."""
    file, command, _ = TARGETS[kind]
    outcome, number = Outcome(f"damage: {kind}"), 0
    home = server.folder / outcome.attack
    shutil.copytree(originals, home)
    arguments = (originals / file, home / file)
    while number < count:
        last = min(count, number + BATCH)
        ended = server.start(
            *(*arguments, number, last, *command, "--quiet"),
            folder=home,
            cache=home / "cache",
            call="tests.helpers.mutations:main",
            limit_memory=MEMORY,
        ).wait(SECONDS * BATCH)
        outcome.peak = max(outcome.peak, ended.peak)
        for wrong in map(json.loads, ended.out.splitlines()):
            if wrong:
                outcome.failures.append(f"number {number}: {wrong}")
            number += 1
        if ended.code == -signal.SIGALRM:
            outcome.failures.append(f"number {number}: hangs")
            number += 1
        elif ended.code != 0:
            outcome.failures.append(f"number {number}: {ended.code}, {ended.err[-1000:]}")
            number += 1
        outcome.count = number
    return outcome


@pytest.mark.parametrize("kind", TARGETS)
def test_damaged_files(
    kind: str, server: ForkServer, originals: Path, times: Times, check: Check
) -> None:
    share = TARGETS[kind][2]
    check(damage_inputs(kind, times(max(3, share // 2), 100 * share), server, originals))


def test_the_same_number_gives_the_same_damage(originals: Path) -> None:
    for kind, (file, _, _) in TARGETS.items():
        data, suffix = (originals / file).read_bytes(), Path(file).suffix
        files = [damage(data, suffix, number) for number in range(40)]
        assert files == [damage(data, suffix, number) for number in range(40)], kind
        assert len({*files}) > 20, kind
