"""What a plan costs before it runs: its runs as counts of pieces, each of a measured cost.

`ipl.bench.work_counts` says how often each run does what, and `ipl.bench.calibration` measures what
each piece costs on this machine. The estimate is the sum of the products.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import StoredImage
from ipl.backbone.loading import load_backbone
from ipl.bench.calibration import SAMPLE, CostMeter, PlanData
from ipl.bench.engine_options import JOINED, ON_ONE_GPU
from ipl.bench.engines import check_gpu
from ipl.bench.protocols.protocol import Task
from ipl.bench.run import Run
from ipl.bench.runner import memory_for_crops
from ipl.bench.work_counts import (
    ENCODE,
    START,
    STEP,
    TITLES,
    Cost,
    CropMemory,
    RunWork,
    WorkPiece,
    alike_together,
    count_work,
    join_steps,
)
from ipl.config import SENTENCE
from ipl.datasets.dataset import Dataset
from ipl.display.formatting import several
from ipl.display.table import Table
from ipl.support.errors import ConfigError
from ipl.support.progress import SILENT, Reporter
from ipl.training.decoded_images import room_on

RECORD_BYTES, EPOCH_BYTES = 12_000, 100  # of a record, and of each epoch in it
FEATURE_BYTES = 700  # of an image's entry in the cache, beside the feature itself


@dataclass(frozen=True)
class Estimate:
    """What a plan costs.

    Parameters
    ----------
    works : tuple of RunWork
        The runs.
    costs : mapping
        The cost of each piece.
    start : Cost
        What a process costs beyond its runs: imports, the backbone, the first use of everything.
    device : str
        Where the pieces were measured: the name of a GPU, or cpu.
    jobs : int
        The runs at the same time.
    one_gpu : bool
        Whether they share one GPU; the costs of steps are then those beside the other jobs' steps.
    peak_memory : int
        The largest peak of the pieces that were measured, in bytes: of the GPU, if it is one.
    feature_dim : int
        The width of an image's feature.
    cache : bool
        Whether features are kept on disk.
    """

    works: tuple[RunWork, ...]
    costs: Mapping[WorkPiece, Cost]
    start: Cost = field(default_factory=Cost)
    device: str = "cpu"
    jobs: int = 1
    one_gpu: bool = False
    peak_memory: int = 0
    feature_dim: int = 0
    cache: bool = True

    @property
    def total(self) -> Cost:
        """Returns the cost of all runs, with the start of every process."""
        total = self.start * self.processes
        for work in self.works:
            total = total + self.cost_of(work)
        return total

    @property
    def wall(self) -> float:
        """Returns the seconds until all runs are done, if processes do not hold each other up."""
        return self.total.wall / (1 if self.one_gpu else self.jobs)

    @property
    def processes(self) -> int:
        """Returns how many processes do the runs."""
        return 1 if self.one_gpu else min(self.jobs, max(1, len(self.works)))

    @property
    def disk(self) -> int:
        """Returns the bytes of the records and of the image features in the cache."""
        images = sum(
            count
            for work in self.works
            for piece, count in work.counts.items()
            if piece.kind == ENCODE
        )
        epochs = sum(
            work.run.config.hyperparameters.epochs
            for work in self.works
            if any(piece.kind == STEP for piece in work.counts)
        )
        features = images * (4 * self.feature_dim + FEATURE_BYTES) if self.cache else 0
        return int(len(self.works) * RECORD_BYTES + epochs * EPOCH_BYTES + features)

    def cost_of(self, work: RunWork) -> Cost:
        """Returns the cost of one run."""
        cost = Cost()
        for piece, count in work.counts.items():
            cost = cost + self.costs[piece] * count
        return cost

    def parts(self) -> dict[str, Cost]:
        """Returns the cost of each kind of work, by its title, the largest first."""
        parts: dict[str, Cost] = {TITLES[START]: self.start * self.processes}
        for work in self.works:
            for piece, count in work.counts.items():
                title = TITLES[piece.kind]
                parts[title] = parts.get(title, Cost()) + self.costs[piece] * count
        return dict(sorted(parts.items(), key=lambda part: -part[1].wall))

    def methods(self) -> dict[tuple[str, str], tuple[int, Cost]]:
        """Returns the number of runs and their cost for each learner and arm."""
        methods: dict[tuple[str, str], tuple[int, Cost]] = {}
        for work in self.works:
            key = (work.run.learner, work.run.arm)
            runs, cost = methods.get(key, (0, Cost()))
            methods[key] = runs + 1, cost + self.cost_of(work)
        return methods

    def as_dict(self) -> dict[str, Any]:
        """Returns the estimate as plain values for JSON."""
        return {
            "runs": len(self.works),
            "device": self.device,
            "jobs": self.jobs,
            "seconds": self.total.wall,
            "cpu_seconds": self.total.cpu,
            "seconds_until_done": self.wall,
            "peak_memory": self.peak_memory,
            "disk": self.disk,
            "parts": {title: vars(cost) for title, cost in self.parts().items()},
            "methods": [
                {"learner": learner, "arm": arm, "runs": runs, **vars(cost)}
                for (learner, arm), (runs, cost) in self.methods().items()
            ],
        }

    def tables(self) -> list[Table]:
        """Returns a table of the kinds of work, and one of the learners and arms."""
        total = self.total
        numbers = ["time", "CPU time", "share"]

        def row(cost: Cost) -> list[str]:
            share = cost.wall / total.wall if total.wall else 0.0
            return [duration(cost.wall), duration(cost.cpu), f"{100 * share:.0f} %"]

        parts = [[title, *row(cost)] for title, cost in self.parts().items()]
        parts.append(["all", *row(total)])
        methods = [
            [learner, "" if arm == learner else arm, str(runs), *row(cost)]
            for (learner, arm), (runs, cost) in self.methods().items()
        ]
        return [
            Table(["work", *numbers], parts, numbers=numbers),
            Table(["learner", "arm", "runs", *numbers], methods, numbers=["runs", *numbers]),
        ]

    @property
    def summary(self) -> str:
        """Returns a few sentences on what the plan costs and what most of it is for."""
        total, gpu = self.total, self.device != "cpu"
        hours = "GPU" if gpu else "machine"
        lines = [
            f"{several(len(self.works), 'run')} on {self.device}: {duration(total.wall)} "
            f"({total.wall / 3600:.2f} {hours} hours, {total.cpu / 3600:.2f} CPU hours)"
        ]
        if self.jobs > 1 and self.one_gpu:
            lines[0] += f", {self.jobs} at a time"
        elif self.jobs > 1:
            lines[0] += (
                f"; with {self.jobs} jobs at least {duration(self.wall)}, if they do not hold each "
                "other up"
            )
        lines[0] += "."
        title, cost = next(iter(self.parts().items()))
        share = 100 * cost.wall / total.wall if total.wall else 0.0
        lines.append(f"Most of it is {title}: {share:.0f} %.")
        memory = f"{self.peak_memory / 2**30:.1f} GiB of {'GPU ' if gpu else ''}memory"
        each = "" if self.one_gpu else " per job"
        lines.append(f"At least {memory}{each}, and {self.disk / 1e6:,.0f} MB on disk.")
        if len(self.works) > 1:
            lines.append(
                "What runs share, such as encoded images and the search for words, is counted for "
                "the first run that needs it."
            )
        return "\n".join(lines)


def duration(seconds: float) -> str:
    """Returns a time for people: 0.8 s, 12 s, 3 min 5 s, 2 h 10 min."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    hours, minutes_left = divmod(minutes, 60)
    return f"{hours} h {minutes_left} min" if hours else f"{minutes} min {rest} s"


def plan_data(runs: Sequence[Run], task_of: Callable[[Run], Task]) -> PlanData:
    """Returns the class names of a plan by their number, and a sample of each dataset's images."""
    names: dict[int, Sequence[str]] = {}
    images: dict[str, Sequence[StoredImage]] = {}
    for run in runs:
        task = task_of(run)
        parts: list[tuple[str, Dataset]] = [(run.dataset, task.training)]
        parts += [(n if n in run.targets else run.dataset, t) for n, t in task.tests.items()]
        for dataset, part in parts:
            names.setdefault(len(part.class_names), part.class_names)
            items = part.test or part.train
            step = max(1, len(items) // SAMPLE)
            images.setdefault(dataset, [item.path for item in items[::step][:SAMPLE]])
    return PlanData(names, images)


def crop_memory(backbone: Backbone, processes: int) -> CropMemory:
    """Returns how many crops each of so many processes on this machine keeps."""
    crop_bytes = 3 * backbone.preprocessing.crop**2
    return CropMemory(
        crop_bytes,
        4 * backbone.feature_dim,
        room_on(backbone.device),
        memory_for_crops(processes) // crop_bytes,
    )


def estimate_runs(
    runs: Sequence[Run],
    task_of: Callable[[Run], Task],
    device: str = "auto",
    memory: float = 2.0,
    cache: bool = True,
    jobs: int = 1,
    reporter: Reporter = SILENT,
    backbone: Backbone | None = None,
    data: PlanData | None = None,
    engine: str = "local",
    before: Cost | None = None,
) -> Estimate:
    """Returns what runs cost, from a short calibration on this machine.

    Parameters
    ----------
    runs : sequence of Run
        The runs, in their order, all with one backbone.
    task_of : callable
        Returns what a run trains on and is tested on.
    device : str
        auto, cpu, cuda, cuda:1, mps.
    memory : float
        GiB of working memory for the search.
    cache : bool
        Whether features and words are kept in the cache, which is assumed to be empty.
    jobs : int
        Runs at the same time.
    reporter : Reporter
        Gets the progress.
    backbone : Backbone, optional
        The backbone; by default the one that the runs name is loaded.
    data : PlanData, optional
        Class names and images to measure with; by default those of the runs.
    engine : str
        What does the runs; in `threads`, steps are measured beside those of the other jobs, and in
        `joined` together with those of the same shapes.
    before : Cost, optional
        What a process has cost before it loads the backbone, such as imports.

    Raises
    ------
    ConfigError
        If there is no run, if the runs have several backbones, or if words are scored in prompts.
    """
    if not runs:
        raise ConfigError("There is no run left to estimate.")
    if len({(run.backbone, run.precision) for run in runs}) > 1:
        raise ConfigError("The runs have several backbones; estimate those of one at a time.")
    if any(run.searches and run.config.select_in != SENTENCE for run in runs):
        raise ConfigError(f"select_in must be {SENTENCE!r} for an estimate.")
    check_gpu(engine, device)
    started = time.perf_counter(), time.process_time()
    run = runs[0]
    backbone = backbone or load_backbone(run.backbone, device, run.precision)
    start = Cost(time.perf_counter() - started[0], time.process_time() - started[1])
    data = data or plan_data(runs, task_of)
    one_gpu = engine in ON_ONE_GPU
    at_once = jobs if one_gpu else 1
    calibration = CostMeter(backbone, data, memory, cache, reporter, at_once)
    kept = crop_memory(backbone, 1 if one_gpu else jobs)
    runs = alike_together(runs) if engine == JOINED else runs
    works = count_work(runs, task_of, cache, calibration.stores_words, kept)
    works = join_steps(works, jobs) if engine == JOINED else works
    pieces = list(dict.fromkeys(piece for work in works for piece in work.counts))
    costs = {}
    with reporter.task("Measuring", len(pieces)) as advance:
        for piece in pieces:
            costs[piece] = calibration.cost(piece)
            advance()
    start += calibration.first_use + (before or Cost())
    name = "cpu"
    if backbone.device.type == "cuda":
        name = torch.cuda.get_device_name(backbone.device)
    return Estimate(
        tuple(works),
        costs,
        start,
        name,
        jobs,
        one_gpu,
        calibration.peak_memory,
        backbone.feature_dim,
        cache,
    )
