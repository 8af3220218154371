"""How long a command that computes nothing takes, and what it would take with torch imported.

    python benchmarks/startup.py

Every command runs several times in a process of its own: as it is, and with torch imported first.
Of each the shortest time counts, because anything else that the machine does only adds to it. CPU
seconds say what an idle machine needs where this one is not idle.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ipl.datasets.scenes import scenes_dataset
from ipl.display.table import Table

HEAVY = (
    *("torch", "transformers", "matplotlib", "pandas", "sklearn", "gradio", "fastapi"),
    *("numpy", "jinja2", "nltk", "wordfreq"),
)
COMMANDS = (
    "--help",
    "fit --help",
    "bench --help",
    "table DIR",
    "table DIR --page",
    "recipe list",
    "recipe show base-to-novel/coop",
    "learners",
    "words",
    "words dog",
    "words xylem",
    "words crocodile",
    "words online",
    "data list",
    "data check DATA",
    "cache",
    "bench few-shot --datasets DATA --shots 1 --dry-run",
    "fit /nonexistent",
    "fit DATA --learner coopp",
    "predict /nonexistent x.png",
)
START = """
import sys
from ipl.cli.main import main
try:
    main()
finally:
    print("IMPORTED", *(name for name in {heavy} if name in sys.modules), file=sys.stderr)
"""


@dataclass(frozen=True)
class StartUp:
    """The shortest of several runs of a program, and the heavy packages that it imported."""

    wall: float
    cpu: float
    imported: str


def measure(code: str, arguments: Sequence[str], times: int) -> StartUp:
    """Runs a program several times, each in a process of its own."""
    walls, cpus, imported = [], [], ""
    for _ in range(times):
        before, started = os.times(), time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
        )
        after = os.times()
        walls.append(time.perf_counter() - started)
        cpus.append(sum(after[2:4]) - sum(before[2:4]))
        lines = [line for line in done.stderr.splitlines() if line.startswith("IMPORTED")]
        imported = ", ".join(lines[-1].split()[1:]) if lines else ""
    return StartUp(min(walls), min(cpus), imported)


def rows(folder: Path, times: int) -> Iterator[list[str]]:
    """Yields the row of each command."""
    places = {"DIR": str(folder / "bench"), "DATA": str(folder / "data")}
    programs = {"import ipl": ("import ipl", [])}
    for command in COMMANDS:
        arguments = [places.get(part, part) for part in command.split()]
        programs[f"ipl {command}"] = (START.format(heavy=HEAVY), arguments)
    for label, (code, arguments) in programs.items():
        light = measure(code, arguments, times)
        heavy = measure(f"import torch\n{code}", arguments, times)
        ratio = f"{heavy.cpu / light.cpu:.0f}"
        numbers = [f"{number:.2f}" for number in (light.wall, light.cpu, heavy.wall, heavy.cpu)]
        yield [label, *numbers, ratio, light.imported or "none"]


def make_data(folder: Path) -> None:
    """Writes what the commands read: forty images and the records of a small bench."""
    scenes_dataset(folder / "data", train=10, test=10, classes=("beach", "castle"))
    records = folder / "bench" / "records"
    records.mkdir(parents=True)
    for seed in (1, 2, 3):
        for words in (0, 3):
            values = {
                "format": 1,
                "id": f"dtd-coop-{words}w-seed{seed}",
                "protocol": "base-to-novel",
                "status": "done",
                "dataset": "dtd",
                "learner": "coop",
                "words": words,
                "seed": seed,
                "shots": 16,
                "accuracy": {"base": 0.8, "novel": 0.6 + 0.01 * words},
            }
            (records / f"{values['id']}.json").write_text(json.dumps(values), encoding="utf-8")


def main() -> None:
    """Runs the commands and prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=int, default=5)
    times = parser.parse_args().times
    with tempfile.TemporaryDirectory() as work:
        make_data(Path(work))
        os.environ["IPL_CACHE"] = str(Path(work) / "cache")
        first = ["s", "CPU s", "with torch first, s", "CPU s with torch", "ratio of CPU s"]
        columns = ["command", *first, "heavy packages imported"]
        table = Table(columns, list(rows(Path(work), times)), numbers=first)
        print(table.to_markdown())


if __name__ == "__main__":
    main()
