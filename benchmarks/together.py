"""Runs at the same time on one GPU: three seeds at once beside one seed.

    python benchmarks/together.py --device cuda
    python benchmarks/together.py --device cuda --commands
    python benchmarks/together.py --device cuda --classes 100,400 --learners coop,maple --in-turn

For each learner, the runs of a base-to-novel row (train on half of the classes, test on all), from
image files to records: those of one seed, and those of three seeds at the same time, with the
engines `threads` and `joined`; with --in-turn, one after the other, too. Epochs are the published
ones unless --epochs says otherwise. Images are generated. Every measurement has a cache of its own,
empty at first. By default all is done in this process, after short runs of other seeds, so that
kernels and the backbone are loaded. With --commands every measurement is a command of its own,
`ipl bench base-to-novel ...`, as people type it, and `threads` is left out; kernels have been
compiled by a short one before. The last column says how far the losses of `joined` are from those
of `threads`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

from common import build, long_class_names, save_vit_b16
from PIL import Image

import ipl.bench.runner
from ipl.bench.engines import make_engine
from ipl.bench.grid import run_grid
from ipl.bench.plan import Plan
from ipl.bench.records import record_path
from ipl.bench.run import Run, expand, prompts_images
from ipl.bench.runner import RunEnvironment
from ipl.display.table import Table
from ipl.words.pool import Pool

LEARNERS = "coop,cocoop,kgcoop,maple,promptsrc"
TRAINED, TESTED = 32, 24  # images of each class that shots are drawn from, and to test on
SHOTS = 16
ONE, THREE, WARM = "1", "1,2,3", "8,9"  # seeds


def draw_dataset(
    folder: Path, classes: int, edge: int, trained: int = SHOTS, tested: int = 8
) -> None:
    """Writes a dataset in class folders, with images to train on and others to test on."""
    names = long_class_names(Pool.bundled().words, classes)

    def draw(task: tuple[int, str, str, int]) -> None:
        number, part, name, index = task
        stream = random.Random(f"{number} {part} {index}")
        path = folder / part / name / f"{index}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        coarse = Image.frombytes(
            "RGB", (edge // 8, edge // 8), stream.randbytes(3 * (edge // 8) ** 2)
        )
        coarse.resize((edge, edge), Image.Resampling.BILINEAR).save(path, quality=85)

    tasks = [
        (number, part, name, index)
        for number, name in enumerate(names)
        for part, images in (("train", trained), ("test", tested))
        for index in range(images)
    ]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(draw, tasks))


class Rows:
    """Does base-to-novel rows on one dataset."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self.folder, self.options = folder, options
        self._number = count()

    def take(
        self, learner: str, seeds: str, engine: str, jobs: int, epochs: int = 0
    ) -> tuple[float, Path]:
        """Returns the seconds that a row takes, and the folder of its records."""
        out = self.folder / f"row-{next(self._number)}"
        os.environ["IPL_CACHE"] = str(out / "cache")
        do = self._command if self.options.commands else self._runs
        return do(self.values(learner, epochs), seeds, engine, jobs, out), out

    def values(self, learner: str, epochs: int) -> dict[str, Any]:
        """Returns the settings of a row; 0 epochs are as many as the options say."""
        values = {
            "protocol": "base-to-novel",
            "learners": learner,
            "arms": self.options.arms,
            "shots": SHOTS,
            "views": self.options.views,
            "precision": self.options.precision,
        }
        if self.options.commands:
            values["backbone"] = str(self.folder / "vit-b16")
        if epochs := epochs or self.options.epochs:
            values["epochs"] = epochs
        if self.options.arms != "plain":
            values["words"] = 3
        return values

    def _runs(self, values: dict[str, Any], seeds: str, engine: str, jobs: int, out: Path) -> float:
        paths = {"data": str(self.folder / "data")}
        plan = Plan.from_values({**values, "datasets": "data", "seeds": seeds})
        runs: Sequence[Run] = expand(plan)
        environment = RunEnvironment(
            str(self.folder), self.options.device, paths=paths, keeps_crops=prompts_images(runs)
        )
        started = time.perf_counter()
        result = run_grid(runs, out, make_engine(engine, environment, jobs))
        if result.failed:
            raise SystemExit(next(iter(result.failed.values())))
        return time.perf_counter() - started

    def _command(
        self, values: dict[str, Any], seeds: str, engine: str, jobs: int, out: Path
    ) -> float:
        given = {**values, "seeds": seeds, "engine": engine, "jobs": jobs}
        given |= {"datasets": str(self.folder / "data"), "device": self.options.device, "out": out}
        command = [sys.executable, "-m", "ipl", "bench", given.pop("protocol"), "--quiet"]
        command += [part for name, value in given.items() for part in (f"--{name}", str(value))]
        started = time.perf_counter()
        subprocess.run(command, check=True)
        return time.perf_counter() - started

    def measure(self, learner: str) -> list[str]:
        """Returns the cells of a learner."""
        jobs, options = self.options.jobs, self.options
        self.take(learner, WARM, "joined", 2, epochs=3)
        one, _ = self.take(learner, ONE, "threads", 1)
        cells = [learner, f"{one:.1f}", ""]
        if options.in_turn:
            cells[-1] = f"{self.take(learner, THREE, 'threads', 1)[0]:.1f}"
        outs = []
        for engine in ("threads", "joined"):
            if engine == "threads" and options.commands:
                cells += ["", ""]
                continue
            seconds, out = self.take(learner, THREE, engine, jobs)
            cells += [f"{seconds:.1f}", f"{seconds / one:.2f}"]
            outs.append(out)
        return [*cells, _distance(*outs) if len(outs) == 2 else ""]


def _distance(one: Path, other: Path) -> str:
    """Returns how far apart the losses of the last epochs in two folders of records are."""
    apart = [0.0]
    for path in sorted((one / "records").glob("*.json")):
        there = json.loads(record_path(other, path.stem).read_text())
        records = (json.loads(path.read_text()), there)
        if all(record["history"] for record in records):
            losses = [record["history"]["epochs"][-1]["loss"] for record in records]
            apart.append(abs(losses[0] - losses[1]) / losses[0])
    return f"{max(apart):.0e}"


def main() -> None:
    """Reads the command line and prints a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", choices=["pocket", "vit-b16"], default="vit-b16")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="fp16")
    parser.add_argument("--classes", default="100", help="of the dataset; half of them are trained")
    parser.add_argument("--learners", default=LEARNERS)
    parser.add_argument("--arms", default="plain")
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=0, help="0: the published ones")
    parser.add_argument("--views", default="8")
    parser.add_argument("--edge", type=int, default=256, help="pixels of the images")
    parser.add_argument("--commands", action="store_true", help="measure whole commands")
    parser.add_argument("--in-turn", action="store_true", help="three seeds one after the other")
    options = parser.parse_args()
    columns = ["learner", "one seed, s", "three in turn, s", "threads, s", "threads / one"]
    columns += ["joined, s", "joined / one", "losses apart"]
    for classes in map(int, options.classes.split(",")):
        with tempfile.TemporaryDirectory() as work:
            rows, folder = [], Path(work)
            draw_dataset(folder / "data", classes, options.edge, TRAINED, TESTED)
            if options.commands:
                save_vit_b16(folder / "vit-b16")
            else:
                backbone = build(options.model, options.device, options.precision)
                ipl.bench.runner.load_backbone = lambda *_, loaded=backbone: loaded
            bench = Rows(folder, options)
            for learner in options.learners.split(","):
                rows.append(bench.measure(learner))
                print(*rows[-1], sep="; ", flush=True)
        print(f"\n{classes // 2} classes\n")
        print(Table(columns, rows, numbers=columns[1:]).to_markdown())


if __name__ == "__main__":
    main()
