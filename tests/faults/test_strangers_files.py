"""Strangers' files that are well formed: pipes, escape sequences, other numbers, odd times."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from ipl.support.errors import CONTROLS
from tests.helpers.forked import run
from tests.helpers.records import record, search, write_records
from tests.helpers.saved_runs import same_run

ESCAPE = "\x1b]0;title\x07\x9b31m\u202e"
PIPES = [
    ("predict", "run1", "pipe"),
    ("predict", "run1", "beach/0.png", "--classes", "pipe"),
    ("evaluate", "run1", "images.csv", "--all"),
    ("evaluate", "run1", "pipe.csv", "--all"),
    ("fit", "images.csv", "--words", "0"),
    ("data", "pool", "--words-file", "pipe"),
    ("bench", "--recipe", "pipe"),
    ("table", "records"),
    ("rate", "--read", "pipe.csv"),
    ("predict", "run2", "beach/0.png"),
]


@pytest.mark.parametrize("command", PIPES, ids=" ".join)
def test_pipes_are_refused(
    command: tuple[str, ...], saved: Path, data: Path, tmp_path: Path
) -> None:
    """A command that waited for the other end of one would be killed as hanging."""
    home = tmp_path / "home"
    shutil.copytree(saved, home)
    shutil.copytree(data, home, dirs_exist_ok=True)
    (home / "records" / "records").mkdir(parents=True)
    (home / "run2" / "config.json").unlink()
    for name in ("pipe", "pipe.csv", "pipe.png", "records/records/a.json", "run2/config.json"):
        os.mkfifo(home / name)
    (home / "images.csv").write_text("path,label\npipe.png,a\npipe.png,b\n")
    ended = run(*command, folder=home)
    assert ended.code == 2, ended.err
    assert ended.err.count("error: ") == 1, ended.err


def test_escape_sequences_reach_nobody(saved: Path, data: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(saved, home)
    config = json.loads((home / "run1" / "config.json").read_text())
    config["selection"]["pool_sha256"] = config["training"]["data"] = f"a{ESCAPE}"
    config["ipl_version"] = config["selection"]["template"] = f"{{cls}} {{words}} {ESCAPE}"
    for comparison in filter(None, [config["results"]["comparison"]]):
        comparison["notes"] = [ESCAPE]
    (home / "run1" / "config.json").write_text(json.dumps(config))
    image = home / f"={ESCAPE}.png"
    shutil.copy(data / "beach" / "0.png", image)
    values = {**record(), "selection": search((0.5, 0.25)), "chosen": ["sand", "stone"]}
    values |= {"dataset": ESCAPE, "id": "one", "prompt": ESCAPE}
    write_records(home / "grid", values, {**record(words=0), "dataset": ESCAPE, "seed": 2})
    commands: list[tuple[object, ...]] = [
        *(("predict", "run1", image, *more) for more in ((), ("--json",), ("--format", "csv"))),
        ("predict", "run1", image, "--format", "jsonl"),
        ("predict", f"run{ESCAPE}", image),
        ("predict", "run1", image, f"--{ESCAPE}"),
        *(("export", "run1", "--to", "text", *more) for more in ((), ("--json",), ("--out", "t"))),
        *(
            ("report", "run1", "--overwrite", "--out", name)
            for name in ("r.html", "r.md", "r.json")
        ),
        *(("table", "grid", "--format", style) for style in ("md", "csv", "latex", "json")),
        ("evaluate", "run1", data, "--all"),
    ]
    before = {*home.rglob("*")}
    for command in commands:
        ended = run(*command, folder=home)
        assert ended.code in (0, 2), ended.err
        for text in (ended.out, ended.err):
            assert not CONTROLS.search(text), (command, repr(text))
    for path in {*home.rglob("*.*")} - before:
        if path.suffix in (".html", ".md", ".json", ".csv", ".tex", ".svg", ".txt"):
            assert not CONTROLS.search(path.read_text()), path


@pytest.mark.parametrize("kind", ["3e38", "F8_E4M3", "F4", "classes"])
def test_prompts_with_other_numbers_are_refused(
    kind: str, saved: Path, data: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(saved / "run1", tmp_path / "run1"))
    if kind == "classes":
        config = json.loads((folder / "config.json").read_text())
        config["classes"] = [f"class {number}" for number in range(200_000)]
        (folder / "config.json").write_text(json.dumps(config))
    elif kind == "3e38":
        tensors = load_file(folder / "prompt.safetensors")
        huge = {name: np.full_like(tensor, 3e38) for name, tensor in tensors.items()}
        save_file(huge, folder / "prompt.safetensors")
    else:
        _retype(folder / "prompt.safetensors", kind)
    ended = run("predict", "run1", data / "beach" / "0.png", folder=tmp_path)
    assert ended.code == 2, ended.err
    assert ended.err.startswith("error: run1"), ended.err


def _retype(path: Path, kind: str) -> None:
    """Makes the numbers of a file those of another type, of 4 or 8 bits."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header, end = json.loads(data[8 : 8 + size]), 0
    for name in sorted(header.keys() - {"__metadata__"}):
        count = int(np.prod(header[name]["shape"])) // (2 if kind == "F4" else 1)
        header[name] |= {"dtype": kind, "data_offsets": [end, end + count]}
        end += count
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(end))


@pytest.mark.parametrize("others", ["nan", "shapes", "facts", "1970", "2100"])
def test_a_cache_that_lies(
    others: str, fit: tuple[object, ...], saved: Path, tmp_path: Path
) -> None:
    """What cannot be used is computed again; the clock decides nothing."""
    home = tmp_path / "home"
    shutil.copytree(saved, home)
    entries = [path for path in (home / "cache").rglob("*") if path.is_file()]
    assert entries
    for path in entries:
        _change(path, others)
    ended = run(*fit, "--seed", 1, "--out", "new", folder=home)
    assert ended.code == 0, ended.err
    assert same_run(home / "new", saved / "run1")


def _change(path: Path, others: str) -> None:
    """Replaces an entry of the cache by a well-formed one that is wrong, or its time."""
    if others.isdecimal():
        seconds = (int(others) - 1970) * 365.25 * 24 * 3600
        os.utime(path, (seconds, seconds))
        return
    with safe_open(path, "numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        facts = file.metadata()["facts"]
    changes: dict[str, Callable[[np.ndarray], np.ndarray]] = {  # type: ignore[type-arg]
        "nan": lambda array: np.full_like(array, np.nan),
        "shapes": lambda array: np.zeros((*array.shape, 2), array.dtype),
    }
    if others == "facts":
        facts = facts.replace('"word":"', '"word":"zzz').replace("seconds", "time")
    else:
        arrays = {name: changes[others](array) for name, array in arrays.items()}
    save_file(arrays, path, {"facts": facts})
