"""Damaged files of every kind that commands read: a result or one sentence, never a traceback."""

from __future__ import annotations

import json
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from ipl.cli.main import main
from ipl.explain.ratings import METHODS, WordSet, write_sheet
from tests.helpers.damage import damage_bytes
from tests.helpers.records import record, search, write_records
from tests.helpers.tutorials import load_backbones_once

pytestmark = pytest.mark.slow  # so that it is not the last
LONGEST_MESSAGE = 5000  # characters of a refusal
# What no field expects. Some are larger than what they are put into.
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, -(10**30), 0.5, -0.0, 1e308),
    *(float("nan"), float("inf"), "", " ", "\0", "\ud800", "a" * 100_000, "../../etc/passwd"),
    *("/dev/zero", "\u00e9\u202e", "{}", "%s%n", "<script>", "=1+1", "1e999", "NaN", "-1", "null"),
    *([], {}, [[]], [None], [1, 2, 3], {"": ""}, {"a": {"b": []}}, [[[[[[]]]]]], ["x"] * 5000),
)
RECIPE = """
protocol: base-to-novel
datasets: [scenes]
learners: [coop, kgcoop]
words: [0, 2]
seeds: [1, 2]
arms: [zero-shot, plain, words]
shots: 4
lambda: 0.3
views: 0
"""
PREDICT = ("predict", "run", "image.png", "--device", "cpu")
# file to damage, command that reads it, how often in the short form
TARGETS: list[tuple[str, tuple[str, ...], int]] = [
    ("run/config.json", PREDICT, 10),
    ("run/prompt.safetensors", PREDICT, 5),
    ("recipe.yaml", ("bench", "--recipe", "recipe.yaml", "--dry-run"), 8),
    ("given.yaml", ("bench", "--recipe", "arm.yaml", "--given", "given.yaml", "--dry-run"), 4),
    ("grid/records/one.json", ("table", "grid", "--format", "md", "--cost"), 8),
    ("data.csv", ("evaluate", "run", "data.csv", "--all", "--device", "cpu"), 4),
    ("data.jsonl", ("evaluate", "run", "data.jsonl", "--all", "--device", "cpu"), 4),
    ("classes.txt", (*PREDICT, "--classes", "classes.txt"), 4),
    ("sheet.csv", ("rate", "--read", "sheet.csv"), 4),
    ("sheet.key.json", ("rate", "--read", "sheet.csv"), 4),
]


def damage_values(value: Any, chance: random.Random) -> Any:
    """Returns JSON values of which one to three are others, are missing, or are there twice."""
    for _ in range(chance.choice((1, 1, 2, 3))):
        places = list(_places(value))
        if not places:
            return deepcopy(chance.choice(VALUES))
        holder, key = chance.choice(places)
        way = chance.randrange(5)
        if way == 0:
            del holder[key]
        elif way == 1 and isinstance(holder, dict):
            holder[str(chance.choice(VALUES))[:1000]] = holder.pop(key)
        elif way == 2 and isinstance(holder, list):
            holder.insert(key, holder[key])
        else:
            holder[key] = deepcopy(chance.choice(VALUES))
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yields every (dict or list, key or index) of JSON values."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


def damage(data: bytes, suffix: str, number: int) -> bytes:
    """Returns a damaged file; one of two of JSON or YAML can still be parsed."""
    chance = random.Random(number)
    if number % 2 and suffix == ".json":
        text = json.dumps(damage_values(json.loads(data), chance))
        return text.encode("utf-8", "surrogatepass")
    if number % 2 and suffix == ".yaml":
        text = yaml.safe_dump(damage_values(yaml.safe_load(data), chance))
        return text.encode("utf-8", "surrogatepass")
    return damage_bytes(data, chance)


@pytest.fixture(scope="module")
def originals(saved: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with all that is damaged, whole."""
    root = tmp_path_factory.mktemp("originals")
    shutil.copytree(saved / "run1", root / "run")
    shutil.copytree(data, root / "data")
    shutil.copy(data / "beach" / "0.png", root / "image.png")
    rows = [(f"data/{name}/{number}.png", name) for name in ("beach", "lake") for number in (0, 1)]
    (root / "data.csv").write_text("path,label\n" + "".join(f"{a},{b}\n" for a, b in rows))
    lines = (json.dumps({"path": path, "label": label}) for path, label in rows)
    (root / "data.jsonl").write_text("\n".join(lines) + "\n")
    (root / "classes.txt").write_text("beach\ncastle\nold forest\n")
    (root / "given.yaml").write_text("scenes: sand, water\n")
    (root / "arm.yaml").write_text("protocol: few-shot\ndatasets: scenes\narms: given\n")
    (root / "recipe.yaml").write_text(RECIPE)
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


def _run(command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> object:
    """Returns the exit code of `ipl COMMAND...`."""
    monkeypatch.setattr(sys, "argv", ["ipl", *command, "--quiet"])
    try:
        main()
    except SystemExit as end:
        return end.code or 0
    return 0


@pytest.mark.parametrize(("file", "command", "few"), TARGETS, ids=[each[0] for each in TARGETS])
def test_damaged_files(
    file: str,
    command: tuple[str, ...],
    few: int,
    times: Callable[[int, int], int],
    originals: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    home = tmp_path / "home"
    shutil.copytree(originals, home)
    monkeypatch.chdir(home)
    load_backbones_once(monkeypatch)
    assert _run(command, monkeypatch) == 0, capsys.readouterr().err
    data = (home / file).read_bytes()
    for number in range(times(few, 100 * few)):
        (home / file).write_bytes(damage(data, Path(file).suffix, number))
        code, err = _run(command, monkeypatch), capsys.readouterr().err
        assert code in (0, 1, 2), number
        assert len(err) <= LONGEST_MESSAGE + 200 * err.count("warning: "), number
        refusals = [line for line in err.splitlines() if line.startswith("error: ")]
        assert len(refusals) == (code == 2), (number, err)
