"""Runs at the same time on one GPU: three seeds at once, in turn, and one seed.

    python benchmarks/together.py --device cuda
    python benchmarks/together.py --device cuda --classes 50,500 --learners coop,maple --jobs 3,6

For each learner, the runs of a base-to-novel row (train on half of the classes, test on all) are
done in this process: those of one seed, those of three seeds one after the other, and those of
three seeds at the same time (`--engine threads --jobs 3`). Images are generated, features of the
frozen tower are in the cache beforehand, and epochs are few (`--epochs`), because every epoch takes
the same time. The last column says whether the losses of both ways are the same to the last bit, or
how far apart.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from common import build, long_class_names
from PIL import Image

import ipl.bench.runner
from ipl.backbone.backbone import Backbone
from ipl.bench.engines.thread_engine import ThreadEngine
from ipl.bench.grid import run_grid
from ipl.bench.plan import Plan
from ipl.bench.records import record_path
from ipl.bench.run import Run, expand
from ipl.bench.runner import RunEnvironment
from ipl.display.table import Table
from ipl.learners.registry import learner_spec
from ipl.words.pool import Pool

LEARNERS = "coop,cocoop,kgcoop,maple,promptsrc"
TESTED = 8  # images of each class
SHOTS = 16


def draw_dataset(folder: Path, classes: int, edge: int) -> None:
    """Writes a dataset in class folders: SHOTS images to train on and TESTED to test on."""
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
        for part, count in (("train", SHOTS), ("test", TESTED))
        for index in range(count)
    ]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(draw, tasks))


def time_runs(runs: Sequence[Run], out: Path, environment: RunEnvironment, jobs: int) -> float:
    """Returns the seconds that runs take."""
    started = time.perf_counter()
    result = run_grid(runs, out, ThreadEngine(environment, jobs))
    if result.failed:
        raise SystemExit(next(iter(result.failed.values())))
    return time.perf_counter() - started


def losses(run: Run, out: Path) -> list[float]:
    """Returns the losses of a finished run, epoch after epoch."""
    record = json.loads(record_path(out, run.id).read_text())
    return [epoch["loss"] for epoch in record["history"]["epochs"]]


def agreement(runs: Sequence[Run], one: Path, other: Path) -> str:
    """Returns whether two folders have the same losses, and how far apart they are if not."""
    pairs = [
        pair for run in runs for pair in zip(losses(run, one), losses(run, other), strict=True)
    ]
    apart = max(abs(a - b) for a, b in pairs)
    return "yes" if not apart else f"{apart:.0e} apart"


def measure(
    folder: Path, backbone: Backbone, classes: int, learner: str, jobs: Sequence[int], options: Any
) -> list[list[str]]:
    """Returns a row for each number of jobs."""
    paths = {"drawn": str(folder / "data")}
    keeps = learner_spec(learner).prompts_images  # as `ipl bench` has it
    environment = RunEnvironment(str(folder), options.device, paths=paths, keeps_crops=keeps)
    values = {
        "protocol": "base-to-novel",
        "datasets": "drawn",
        "learners": learner,
        "arms": options.arms,
        "words": 3,
        "shots": SHOTS,
        "epochs": options.epochs,
        "interval": 1,
        "views": options.views,
        "precision": backbone.precision,
    }
    runs = {s: expand(Plan.from_values({**values, "seeds": s})) for s in ("9", "1", "1,2,3")}
    time_runs(runs["9"], folder / f"warm-{learner}", environment, 1)
    one = time_runs(runs["1"], folder / f"one-{learner}", environment, 1)
    first = folder / f"in-turn-{learner}"
    in_turn = time_runs(runs["1,2,3"], first, environment, 1)
    rows = []
    for number in jobs:
        out = folder / f"together-{learner}-{number}"
        together = time_runs(runs["1,2,3"], out, environment, number)
        rows.append(
            [
                learner,
                str(classes // 2),
                f"{one:.1f}",
                f"{in_turn:.1f}",
                str(number),
                f"{together:.1f}",
                f"{together / one:.2f}",
                f"{in_turn / together:.2f}",
                agreement(runs["1,2,3"], first, out),
            ]
        )
    return rows


def main() -> None:
    """Reads the command line and prints a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", choices=["pocket", "vit-b16"], default="vit-b16")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="fp16")
    parser.add_argument("--classes", default="100", help="of the dataset; half of them are trained")
    parser.add_argument("--learners", default=LEARNERS)
    parser.add_argument("--arms", default="plain,words")
    parser.add_argument("--jobs", default="3,6", help="numbers with commas between")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--views", default="8")
    parser.add_argument("--edge", type=int, default=256, help="pixels of the images")
    options = parser.parse_args()
    backbone = build(options.model, options.device, options.precision)
    ipl.bench.runner.load_backbone = lambda *_: backbone
    jobs = [int(number) for number in options.jobs.split(",")]
    rows = []
    for classes in map(int, options.classes.split(",")):
        with tempfile.TemporaryDirectory() as work:
            os.environ["IPL_CACHE"] = str(Path(work) / "cache")
            draw_dataset(Path(work) / "data", classes, options.edge)
            for learner in options.learners.split(","):
                found = measure(Path(work), backbone, classes, learner, jobs, options)
                rows += found
                print(*found, sep="\n", flush=True)
    columns = ["learner", "classes", "one seed, s", "three in turn, s", "jobs", "together, s"]
    columns += ["together / one", "in turn / together", "same losses"]
    print(Table(columns, rows, numbers=columns[1:-1]).to_markdown())


if __name__ == "__main__":
    main()
