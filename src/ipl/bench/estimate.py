"""What a plan costs before it runs: its runs as counts of pieces, each of a measured cost.

`count_work` says how often a run does what (images encoded, words searched, steps trained, images
classified), from its settings and the sizes of its data alone. `ipl.bench.calibration` measures
what each piece costs on this machine. The estimate is the sum of the products.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ipl.bench.arms import LINEAR_PROBE, SEARCHED, WORDS_ONLY, ZERO_SHOT
from ipl.bench.protocols.protocol import Task
from ipl.bench.run import Run
from ipl.config import CHOSEN, FRESH, MOST_WORDS, PAPER, RANDOM, FitConfig, settings
from ipl.config_fields import MODEL, WORDS
from ipl.datasets.dataset import Dataset, Item
from ipl.display.formatting import several
from ipl.display.table import Table
from ipl.learners.learner import Learner
from ipl.learners.registry import learner_class, learner_spec
from ipl.support.recent_values import RecentValues
from ipl.training.decoded_images import KEPT_BYTES
from ipl.training.schedule import images_per_epoch
from ipl.training.views import AT_ONCE

REPLACEMENTS = 5  # draws of random words that a record of a finished prompt has
RECORD_BYTES, EPOCH_BYTES = 12_000, 100  # of a record, and of each epoch in it
FEATURE_BYTES = 700  # of an image's entry in the cache, beside the feature itself

# What is done, and how a table names it.
START, ENCODE, READ, CROP, TOWER = "start", "encode", "read", "crop", "tower"
OPEN = "open"
EMBED, SEARCH, SEARCH_AGAIN, CANDIDATES, DRAW = "embed", "search", "again", "candidates", "draw"
PREPARE, STEP, TEXTS, CLASSIFY = "prepare", "step", "texts", "classify"
HAND_MADE, PROBE = "zero-shot", "probe"
TITLES = {
    START: "loading the backbone",
    ENCODE: "encoding images",
    READ: "cutting crops",
    CROP: "cutting crops",
    TOWER: "encoding crops",
    EMBED: "searching words",
    SEARCH: "searching words",
    SEARCH_AGAIN: "searching words",
    CANDIDATES: "searching words",
    DRAW: "drawing random words",
    PREPARE: "preparing trainings",
    STEP: "training",
    TEXTS: "testing",
    OPEN: "testing",
    CLASSIFY: "testing",
    HAND_MADE: "testing",
    PROBE: "linear probes",
}


@dataclass(frozen=True)
class WorkPiece:
    """A piece of work, with all that its cost depends on.

    Parameters
    ----------
    kind : str
        A key of `TITLES`.
    config : FitConfig or None
        Settings that its cost depends on, those that it does not depend on at their defaults.
    dataset : str
        The dataset whose images are opened; empty if none is.
    classes : int
        The classes; 0 if they make no difference.
    images : int
        Images that are handled together, such as those of a batch; 0 if that makes no difference.
    """

    kind: str
    config: FitConfig | None = None
    dataset: str = ""
    classes: int = 0
    images: int = 0


@dataclass(frozen=True)
class Cost:
    """Seconds by the clock and of the processor."""

    wall: float = 0.0
    cpu: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.wall + other.wall, self.cpu + other.cpu)

    def __mul__(self, times: float) -> Cost:
        return Cost(times * self.wall, times * self.cpu)


@dataclass(frozen=True)
class RunWork:
    """A run, and how often it does each piece."""

    run: Run
    counts: Mapping[WorkPiece, int]


# -- counting -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CropMemory:
    """How much a process keeps of the images of a dataset, for the runs that it does on it.

    Parameters
    ----------
    crop_bytes : int
        The size of a crop as the image tower takes it.
    feature_bytes : int
        The size of its feature.
    bank : int
        Bytes for the crops of the shots and their features.
    tests : int
        Images whose centre crops are kept for learners that prompt images.
    """

    crop_bytes: int = 0
    feature_bytes: int = 0
    bank: int = KEPT_BYTES
    tests: int = sys.maxsize


class WorkCounter:
    """Counts the pieces of runs in their order; what an earlier run has done is not done again.

    Parameters
    ----------
    cache : bool
        Whether features and words are kept between runs of different datasets and learners.
    stored_words : callable
        Whether text features of the whole pool for so many classes stay in memory.
    memory : CropMemory, optional
        How many crops stay in memory; by default, all.
    """

    def __init__(
        self,
        cache: bool,
        stored_words: Callable[[int], bool],
        memory: CropMemory | None = None,
    ) -> None:
        self.cache, self.stored_words = cache, stored_words
        self.memory = memory or CropMemory()
        self._dataset = ""
        self._bank = RecentValues()  # crops of the shots: their bytes, their features
        self._opened: set[Hashable] = set()  # images whose centre crops are kept
        self._encoded: set[Hashable] = set()
        self._found: Counter[Hashable] = Counter()  # words, by question
        self._texts: set[Hashable] = set()  # questions whose first step is in memory
        self._embedded: set[Hashable] = set()

    def count(self, run: Run, task: Task) -> RunWork:
        """Returns the pieces of a run."""
        counts: Counter[WorkPiece] = Counter()
        self._count(counts, run, task)
        return RunWork(run, +counts)  # without what is done no times

    def _count(self, counts: Counter[WorkPiece], run: Run, task: Task) -> None:
        if run.dataset != self._dataset:  # what is in memory is that of one dataset
            self._dataset, self._texts = run.dataset, set()
            self._bank, self._opened = RecentValues(), set()
            if not self.cache:
                self._encoded = set()
        for name, test in task.tests.items():
            self._encode(counts, name if name in run.targets else run.dataset, test.test)
        if run.arm == ZERO_SHOT:
            self._hand_made(counts, task)
            return
        self._encode(counts, run.dataset, task.training.train)
        if run.arm == LINEAR_PROBE:
            classes, images = _sizes(task.training)
            counts[WorkPiece(PROBE, classes=classes, images=images)] += 1
        elif run.arm == WORDS_ONLY:
            self._search(counts, run, task.training, int(run.words))
            self._hand_made(counts, task)
        else:
            self._fit(counts, run, task)

    def _encode(self, counts: Counter[WorkPiece], dataset: str, items: Iterable[Any]) -> None:
        new = {item.path for item in items} - self._encoded
        self._encoded |= new
        counts[WorkPiece(ENCODE, dataset=dataset)] += len(new)

    def _hand_made(self, counts: Counter[WorkPiece], task: Task) -> None:
        for test in task.tests.values():
            counts[WorkPiece(HAND_MADE, classes=len(test.class_names))] += 1

    def _search(self, counts: Counter[WorkPiece], run: Run, training: Dataset, k: int) -> None:
        """Counts the steps of a search that no earlier run has done."""
        classes, images = _sizes(training)
        config = search_config(run.config)
        counts[WorkPiece(CANDIDATES, config)] += 1
        if config not in self._embedded:
            counts[WorkPiece(EMBED, config)] += 1
            if self.cache:
                self._embedded.add(config)
        question = (run.dataset, config)
        asked = (*question, run.seed, run.shots)
        new = k - (self._found[asked] if self.cache else 0)
        if new <= 0:
            return
        known = 0
        if self.stored_words(classes):
            if new == k and question in self._texts:
                known = 1
            if self._found[asked] >= k and self.stored_words(k * classes):  # without a cache
                known = k
        counts[WorkPiece(SEARCH_AGAIN, config, classes=classes, images=images)] += known
        counts[WorkPiece(SEARCH, config, classes=classes, images=images)] += new - known
        self._texts.add(question)
        self._found[asked] = max(k, self._found[asked])

    def _fit(self, counts: Counter[WorkPiece], run: Run, task: Task) -> None:
        config = run.config
        classes, images = _sizes(task.training)
        numbers = word_numbers(config)
        if run.arm in SEARCHED:
            self._search(counts, run, task.training, numbers[-1])
        if run.arm == RANDOM:
            counts[WorkPiece(DRAW, search_config(config))] += 1
        hyperparameters = config.hyperparameters
        batch = min(hyperparameters.batch, images)
        per_epoch = images_per_epoch(images, hyperparameters.batch)
        seen = hyperparameters.epochs * per_epoch * len(numbers)  # images in all steps
        self._crops(counts, run, images, seen, batch)
        for k in numbers:
            trained = training_config(config, k)
            counts[WorkPiece(PREPARE, trained, classes=classes, images=batch)] += 1
            counts[WorkPiece(STEP, trained, classes=classes, images=batch)] += (
                hyperparameters.epochs * per_epoch // batch
            )
            self._classify(counts, run.dataset, trained, task.training, task.training.train)
        trained = training_config(config, numbers[-1])
        for name, test in task.tests.items():
            dataset = name if name in run.targets else run.dataset
            self._classify(counts, dataset, trained, test, test.test)
            if run.arm in (CHOSEN, RANDOM) and _is_cheap(config.learner):
                counts[WorkPiece(TEXTS, trained, classes=len(test.class_names))] += REPLACEMENTS
        if run.arm in (CHOSEN, RANDOM) and numbers[-1] and _is_cheap(config.learner):
            counts[WorkPiece(DRAW, search_config(config))] += 1

    def _crops(
        self, counts: Counter[WorkPiece], run: Run, images: int, seen: int, batch: int
    ) -> None:
        """Counts the crops of the shots that no earlier run has cut or encoded."""
        spec, views, room = learner_spec(run.config.learner), run.config.views, self.memory.bank
        reading = WorkPiece(READ, dataset=run.dataset)
        in_bank = WorkPiece(CROP, dataset=run.dataset, images=AT_ONCE)
        in_steps = WorkPiece(CROP, dataset=run.dataset, images=batch)
        key = (run.seed, run.shots, views)
        if views == FRESH:
            counts[reading] += images * self._is_new(key, room)
            counts[in_steps] += seen
            counts[WorkPiece(TOWER, images=batch)] += seen * spec.wants_features
            return
        crops = max(int(views), 1) * images
        size = crops * self.memory.crop_bytes
        has_bytes, cuts = self._bank.get(("bytes", *key)) is not None, False
        if spec.prompts_images and not has_bytes:
            if size <= room:
                has_bytes = cuts = self._is_new(("bytes", *key), size)
            else:
                counts[in_steps] += seen
        if spec.wants_features and views != 0:
            new = self._is_new(("features", *key), crops * self.memory.feature_bytes)
            counts[WorkPiece(TOWER, images=AT_ONCE)] += crops * new
            cuts = cuts or (new and not has_bytes)
        counts[in_bank] += crops * cuts
        counts[reading] += images * bool(counts[in_bank] or counts[in_steps])

    def _is_new(self, key: Hashable, size: int) -> bool:
        """Returns whether a run has to make something, which is kept if there is room."""
        is_new = self._bank.get(key) is None
        self._bank.keep(key, lambda: True, size, self.memory.bank)
        return is_new

    def _classify(
        self,
        counts: Counter[WorkPiece],
        name: str,
        config: FitConfig,
        dataset: Dataset,
        items: Sequence[Item],
    ) -> None:
        """Counts the test of a finished prompt: its texts, and what is done for every image."""
        classes = len(dataset.class_names)
        counts[WorkPiece(TEXTS, config, classes=classes)] += 1
        if not learner_spec(config.learner).prompts_images:
            counts[WorkPiece(CLASSIFY, config, classes=classes)] += len(items)
            return
        counts[WorkPiece(CLASSIFY, config)] += len(items)
        new = [item.path for item in items if item.path not in self._opened]
        counts[WorkPiece(OPEN, dataset=name)] += len(new)
        self._opened.update(new[: self.memory.tests - len(self._opened)])


def count_work(
    runs: Iterable[Run],
    task_of: Callable[[Run], Task],
    cache: bool,
    stored_words: Callable[[int], bool],
    memory: CropMemory | None = None,
) -> list[RunWork]:
    """Returns how often each run does each piece, in the order of the runs."""
    counter = WorkCounter(cache, stored_words, memory)
    return [counter.count(run, task_of(run)) for run in runs]


def word_numbers(config: FitConfig) -> tuple[int, ...]:
    """Returns the numbers of words that a fit trains with; for auto, the most that it may find."""
    if isinstance(config.words, int):
        return (config.words,)
    hyperparameters = config.hyperparameters
    most = min(MOST_WORDS, hyperparameters.epochs // hyperparameters.interval)
    return tuple(range(1, most + 1)) if config.words == PAPER else (most,)


def training_config(config: FitConfig, slots: int) -> FitConfig:
    """Returns what the cost of a training depends on: not on what stands in the slots."""
    return replace(_neutral(config), words=slots, empty_slots=slots > 0)


def _neutral(config: FitConfig) -> FitConfig:
    """Returns a config without what makes one run differ from another of the same cost."""
    return replace(
        config,
        seed=1,
        shots=1,
        class_template=FitConfig.class_template,
        words=len(config.words_given.split(",")) if config.words_given else config.words,
        words_given=None,
        random_words=None,
        empty_slots=False,
    )


def search_config(config: FitConfig) -> FitConfig:
    """Returns what the cost of a search depends on, and the features of its sentences."""
    names = [s.name for s in settings() if s.option.part in (MODEL, WORDS) and s.name != "words"]
    return FitConfig(**{name: getattr(config, name) for name in names}, words=1)


def _is_cheap(learner: str) -> bool:
    """Returns whether a finished prompt is tested with random words in its slots."""
    kind = learner_class(learner)
    return kind.logits is Learner.logits and not kind.prompts_images


def _sizes(training: Dataset) -> tuple[int, int]:
    return len(training.class_names), len(training.train)


# -- the estimate ---------------------------------------------------------------------------------


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
        What a process needs before its first run.
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
