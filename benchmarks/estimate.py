"""How near the estimate of a plan comes to what its runs then take; and what the paper would take.

    python benchmarks/estimate.py --device cpu
    python benchmarks/estimate.py --device cuda
    python benchmarks/estimate.py --paper --device cuda

The first two commands estimate three small plans (`ipl bench --estimate`), run each of them (`ipl
bench`), and print the ratios; what a command takes is counted from its start to its end. On a CPU
the plans have PocketCLIP and drawn scenes, on a GPU they are larger: ViT-B/16 with random weights,
and a hundred classes of generated images. The third command estimates base-to-novel on the eleven
datasets of the paper with five learners, plain and with words, and three seeds: ViT-B/16 with
random weights, the numbers of classes and test images of the published splits, class names as long
as ImageNet's, and generated images of typical sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from common import build, long_class_names, save_vit_b16
from PIL import Image
from together import draw_dataset

from ipl.bench.calibration import SAMPLE, CostMeter, PlanData
from ipl.bench.estimate import duration, estimate_runs
from ipl.bench.plan import Plan
from ipl.bench.protocols.protocol import Task
from ipl.bench.run import Run, expand
from ipl.bench.work_counts import Cost
from ipl.datasets.benchmarks import BENCHMARKS
from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.scenes import scenes_dataset
from ipl.display.table import Table
from ipl.support.progress import Reporter
from ipl.words.pool import Pool

BASE_TO_NOVEL, FEW_SHOT = {"protocol": "base-to-novel"}, {"protocol": "few-shot"}
SMALL = {
    "CoOp and KgCoOp, base-to-novel": {
        **BASE_TO_NOVEL,
        "learners": "coop,kgcoop",
        "arms": "zero-shot,plain,words",
        "words": 1,
        "shots": 8,
        "seeds": "1,2",
        "epochs": 20,
        "views": 2,
    },
    "MaPLe, base-to-novel": {
        **BASE_TO_NOVEL,
        "learners": "maple",
        "arms": "plain,empty",
        "words": 2,
        "shots": 8,
        "seeds": "1,2",
        "epochs": 4,
        "views": 2,
    },
    "CoOp and CoCoOp, few-shot": {
        **FEW_SHOT,
        "learners": "coop,cocoop",
        "arms": "linear-probe,plain",
        "shots": "1,2,4",
        "seeds": "1",
        "epochs": 5,
        "views": 4,
    },
}
ON_GPU = {  # what changes, so that a plan takes about half a minute
    "CoOp and KgCoOp, base-to-novel": {"words": 3, "shots": 16, "epochs": 100},
    "MaPLe, base-to-novel": {"shots": 16, "epochs": 8},
    "CoOp and CoCoOp, few-shot": {"shots": "4,8,16", "epochs": 8},
}
# Typical width and height of the images; the others have about 500 x 375.
PIXELS = {
    "caltech101": (300, 250),
    "stanford_cars": (700, 480),
    "oxford_flowers": (560, 500),
    "food101": (512, 512),
    "fgvc_aircraft": (1100, 750),
    "sun397": (1000, 700),
    "dtd": (500, 480),
    "eurosat": (64, 64),
    "ucf101": (320, 240),
}
TRAIN_IMAGES = 48  # of each class that shots are drawn from
DRAWN = 64  # images of each dataset; the other files repeat them


def compare_small(device: str, per_class: int, plans: Sequence[str]) -> None:
    """Estimates and runs the small plans, and prints both."""
    gpu, rows = device.startswith("cuda"), []
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        if gpu:
            draw_dataset(folder / "data", 100, 256)
            save_vit_b16(folder / "vit-b16")
        else:
            scenes_dataset(folder / "data", per_class, per_class)
        for number, title in enumerate(plans):
            os.environ["IPL_CACHE"] = str(folder / f"cache-{number}")
            values = {**SMALL[title], "datasets": folder / "data", "device": device}
            values["out"] = folder / f"out-{number}"
            if gpu:
                values |= {**ON_GPU[title], "precision": "fp16", "backbone": folder / "vit-b16"}
            printed, calibration = bench(values, "--estimate", "--json")
            estimate = json.loads(printed)
            _, truth = bench(values, "--quiet")
            rows.append(row(title, estimate, truth, calibration))
            print(" | ".join(rows[-1]))
            for part, cost in estimate["parts"].items():
                print(f"  {part:<24}{cost['wall']:>8.1f} s{cost['cpu']:>8.1f} CPU s")
            took = times_of_methods(values["out"] / "records")
            for each in estimate["methods"]:
                guess, took_it = each["wall"], took[each["learner"], each["arm"]]
                name = f"{each['learner']}, {each['arm']}, {each['runs']} runs"
                print(f"  {name:<40}{guess:>8.1f} s, took {took_it:.1f} s", flush=True)
    columns = ["plan", "runs", "calibration, s", "estimate, s", "run, s", "ratio"]
    columns += ["estimate, CPU s", "run, CPU s", "ratio of CPU s", "most of it"]
    print(Table(columns, rows, numbers=columns[1:-1]).to_markdown())


def bench(values: Mapping[str, Any], *flags: str) -> tuple[str, Cost]:
    """Returns what `ipl bench` prints, and what the command took."""
    options = {name: value for name, value in values.items() if name != "protocol"}
    command = [sys.executable, "-m", "ipl", "bench", values["protocol"], *flags]
    command += [part for name, value in options.items() for part in (f"--{name}", str(value))]
    started, cpu = time.perf_counter(), cpu_of_children()
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return printed, Cost(time.perf_counter() - started, cpu_of_children() - cpu)


def cpu_of_children() -> float:
    """Returns the CPU seconds of all processes that were started from here and have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def times_of_methods(records: Path) -> dict[tuple[str, str], float]:
    """Returns the seconds of the runs of each learner and arm, as their records have them."""
    times: dict[tuple[str, str], float] = {}
    for path in records.glob("*.json"):
        record = json.loads(path.read_text())
        key = record["learner"], record["arm"]
        times[key] = times.get(key, 0.0) + sum(record["seconds"].values())
    return times


def row(title: str, estimate: Mapping[str, Any], truth: Cost, calibration: Cost) -> list[str]:
    """Returns the row of a plan: the estimate beside the truth."""
    wall, cpu = estimate["seconds"], estimate["cpu_seconds"]
    return [
        title,
        str(estimate["runs"]),
        f"{calibration.wall:.0f}",
        f"{wall:.1f}",
        f"{truth.wall:.1f}",
        f"{wall / truth.wall:.2f}",
        f"{cpu:.1f}",
        f"{truth.cpu:.1f}",
        f"{cpu / truth.cpu:.2f}",
        next(iter(estimate["parts"])),
    ]


# -- the whole paper ------------------------------------------------------------------------------


def paper_datasets(chosen: Sequence[str]) -> dict[str, Dataset]:
    """Returns the eleven datasets with the published sizes; their paths are only names."""
    words = Pool.bundled().words
    datasets = {}
    for name, known in BENCHMARKS.items():
        if known.is_variant or (chosen and name not in chosen):
            continue
        names = tuple(long_class_names(words, known.classes))
        train = [
            Item(Path(f"{name}/train/{label}/{index}"), label)
            for label in range(known.classes)
            for index in range(TRAIN_IMAGES)
        ]
        test = [
            Item(Path(f"{name}/test/{index}"), index % known.classes)
            for index in range(known.test_images)
        ]
        datasets[name] = Dataset(name, names, tuple(train), tuple(test))
    return datasets


def draw_images(folder: Path, names: Sequence[str]) -> Mapping[str, Sequence[Path]]:
    """Returns generated JPEG files of the typical size of each dataset."""
    stream = random.Random(0)
    files = {}
    for name in names:
        drawn = [draw_jpeg(*PIXELS.get(name, (500, 375)), stream) for _ in range(DRAWN)]
        files[name] = [folder / f"{name}-{index}.jpg" for index in range(SAMPLE)]
        for index, path in enumerate(files[name]):
            # Bytes after the end of the image, so that no two files are the same.
            path.write_bytes(drawn[index % DRAWN] + index.to_bytes(4, "big"))
    return files


def draw_jpeg(width: int, height: int, stream: random.Random) -> bytes:
    """Returns coarse noise, which has about as many bytes per pixel as a photograph."""
    size = width // 4, height // 4
    coarse = Image.frombytes("RGB", size, stream.randbytes(3 * size[0] * size[1]))
    file = BytesIO()
    coarse.resize((width, height), Image.Resampling.BICUBIC).save(file, "JPEG", quality=90)
    return file.getvalue()


def estimate_paper(
    device: str,
    precision: str,
    views: str,
    words: int,
    model: str,
    chosen: Sequence[str],
    jobs: int,
    engine: str,
) -> None:
    """Prints what the paper's base-to-novel table would take."""
    datasets = paper_datasets(chosen)
    values: dict[str, Any] = {
        "protocol": "base-to-novel",
        "datasets": list(datasets),
        "learners": "coop,cocoop,kgcoop,maple,promptsrc",
        "arms": "plain,words",
        "words": words,
        "seeds": "1,2,3",
        "precision": precision,
        "views": views,
    }
    runs = expand(Plan.from_values(values))
    tasks: dict[tuple[str, int, int], Task] = {}

    def task_of(run: Run) -> Task:
        key = run.dataset, run.shots, run.seed
        if key not in tasks:
            tasks[key] = run.rules.task(datasets[run.dataset], {}, run.shots, run.seed)
        return tasks[key]

    with tempfile.TemporaryDirectory() as work:
        started = time.perf_counter()
        images = draw_images(Path(work), list(datasets))
        drawn = time.perf_counter()
        backbone = build(model, device, precision)
        names = {
            len(part.class_names): part.class_names
            for run in runs
            for part in (task_of(run).training, *task_of(run).tests.values())
        }
        estimate = estimate_runs(
            runs,
            task_of,
            device,
            jobs=jobs,
            engine=engine if device.startswith("cuda") else "local",
            reporter=Reporter(),
            backbone=backbone,
            data=PlanData(names, images),
        )
        calibrated = time.perf_counter()
    print(f"drawing {drawn - started:.0f} s, calibration {calibrated - drawn:.0f} s")
    for table in estimate.tables():
        print(table.to_markdown())
    by_dataset: dict[str, Cost] = {}
    for work_of_run in estimate.works:
        name = work_of_run.run.dataset
        by_dataset[name] = by_dataset.get(name, Cost()) + estimate.cost_of(work_of_run)
    cells = [[name, duration(cost.wall)] for name, cost in by_dataset.items()]
    print(Table(["dataset", "time"], cells, numbers=["time"]).to_markdown())
    print(estimate.summary)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--paper", action="store_true")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="fp16")
    parser.add_argument("--views", default="8", help="0, a number of crops, or fresh")
    parser.add_argument("--words", type=int, default=3)
    parser.add_argument("--datasets", default="", help="some of the eleven, with commas")
    parser.add_argument("--model", default="vit-b16", help="vit-b16, or pocket to try it out")
    parser.add_argument("--jobs", type=int, default=6, help="runs at a time on the GPU")
    parser.add_argument("--engine", default="joined", help="of the paper's runs on the GPU")
    parser.add_argument(
        "--seconds", type=float, default=0.4, help="for each piece of the paper's work"
    )
    parser.add_argument("--per-class", type=int, default=16, help="drawn images to test on")
    parser.add_argument("--plans", default="", help="a part of the titles of small plans")
    options = parser.parse_args()
    CostMeter.seconds = options.seconds
    if options.paper:
        chosen = [name for name in options.datasets.split(",") if name]
        estimate_paper(
            options.device,
            options.precision,
            options.views,
            options.words,
            options.model,
            chosen,
            options.jobs,
            options.engine,
        )
    else:
        plans = [title for title in SMALL if options.plans.lower() in title.lower()]
        compare_small(options.device, options.per_class, plans)


if __name__ == "__main__":
    main()
