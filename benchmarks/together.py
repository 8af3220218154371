"""What three seeds cost on one GPU: as a command, one after the other and in worker processes.

    python benchmarks/together.py
    python benchmarks/together.py --mps
    python benchmarks/together.py --source OTHER/src --options="--engine joined"

Base-to-novel rows of each learner with ViT-B/16's sizes and random weights, on generated images:
`ipl bench base-to-novel` with one seed, with three seeds and `--jobs 1`, and with three seeds and
`--jobs 3`. Every command has a cache of its own, empty at first; a short one before has compiled
the kernels. With --mps the worker processes share the GPU by NVIDIA's Multi-Process Service, which
is started and ended here. --source is the source of another version, whose own options for several
jobs --options gives.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from common import long_class_names, save_vit_b16
from PIL import Image

from ipl.display.table import Table
from ipl.words.pool import Pool

LEARNERS = "coop,cocoop,kgcoop,maple,promptsrc"
TRAINED, TESTED = 32, 24  # images of each class that shots are drawn from, and to test on
ONE, THREE, WARM = "1", "1,2,3", "9"  # seeds


def draw_dataset(folder: Path, classes: int, edge: int) -> None:
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
        for part, images in (("train", TRAINED), ("test", TESTED))
        for index in range(images)
    ]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(draw, tasks))


class Commands:
    """Runs `ipl bench base-to-novel` in a folder."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self.folder, self.options = folder, options
        self._number = count()

    def seconds(self, learner: str, seeds: str, jobs: int, *more: str) -> float:
        """Returns the seconds that a command takes."""
        out = self.folder / f"row-{next(self._number)}"
        environment = {**os.environ, "IPL_CACHE": str(out / "cache")}
        if self.options.source:
            environment["PYTHONPATH"] = str(self.options.source)
        values = {
            **{"datasets": self.folder / "data", "backbone": self.folder / "vit-b16", "out": out},
            **{"learners": learner, "arms": "plain", "seeds": seeds, "jobs": jobs},
            **{"precision": "fp16", "device": self.options.device},
        }
        command = [sys.executable, "-m", "ipl", "bench", "base-to-novel", "--quiet", *more]
        command += [part for name, value in values.items() for part in (f"--{name}", str(value))]
        if jobs > 1:
            command += shlex.split(self.options.options)
        started = time.perf_counter()
        subprocess.run(command, check=True, env=environment)
        return time.perf_counter() - started

    def row(self, learner: str) -> list[str]:
        """Returns the cells of a learner."""
        self.seconds(learner, WARM, 1, "--epochs", "3")
        one = self.seconds(learner, ONE, 1)
        in_turn = self.seconds(learner, THREE, 1)
        with shared_gpu(self.folder, self.options.mps):
            together = self.seconds(learner, THREE, 3)
        times = [f"{seconds:.1f}" for seconds in (one, in_turn, together)]
        return [learner, *times, f"{together / one:.2f}"]


@contextmanager
def shared_gpu(folder: Path, wanted: bool) -> Iterator[None]:
    """Lets processes compute on the GPU at the same time during the block, if that is wanted."""
    if not wanted:
        yield
        return
    pipes = folder / "mps"
    pipes.mkdir(exist_ok=True)
    names = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")
    os.environ.update(dict.fromkeys(names, str(pipes)))
    try:
        subprocess.run(["nvidia-cuda-mps-control", "-d"], check=True)
        yield
    finally:
        subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, check=False)
        for name in names:
            del os.environ[name]


def measure(options: argparse.Namespace) -> Sequence[list[str]]:
    """Returns the row of each learner."""
    rows = []
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        draw_dataset(folder / "data", options.classes, options.edge)
        save_vit_b16(folder / "vit-b16")
        commands = Commands(folder, options)
        for learner in options.learners.split(","):
            rows.append(commands.row(learner))
            print(*rows[-1], sep="; ", flush=True)
    return rows


def main() -> None:
    """Reads the command line and prints a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--classes", type=int, default=100, help="half of them are trained")
    parser.add_argument("--learners", default=LEARNERS)
    parser.add_argument("--edge", type=int, default=256, help="pixels of the images")
    parser.add_argument("--mps", action="store_true", help="share the GPU by NVIDIA's MPS")
    parser.add_argument("--source", type=Path, help="the source of another version")
    parser.add_argument("--options", default="", help="more options of the command with --jobs 3")
    rows = measure(parser.parse_args())
    columns = ["learner", "one seed, s", "three, --jobs 1, s", "three, --jobs 3, s", "three / one"]
    print(Table(columns, rows, numbers=columns[1:]).to_markdown())


if __name__ == "__main__":
    main()
