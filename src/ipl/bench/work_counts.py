"""The work of runs, as counts of pieces that each have a cost.

`count_work` says how often a run does what (images encoded, words searched, steps trained, images
classified), from its settings and the sizes of its data alone.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ipl.backbone.image_processes import MANY
from ipl.bench.arms import LINEAR_PROBE, SEARCHED, WORDS_ONLY, ZERO_SHOT
from ipl.bench.protocols.protocol import Task
from ipl.bench.run import Run, prompts_images
from ipl.config import CHOSEN, FRESH, MOST_WORDS, PAPER, RANDOM, FitConfig, settings
from ipl.config_fields import MODEL, WORDS
from ipl.datasets.dataset import Dataset, Item
from ipl.learners.learner import Learner
from ipl.learners.registry import learner_class, learner_spec
from ipl.support.recent_values import RecentValues
from ipl.training.decoded_images import KEPT_BYTES
from ipl.training.schedule import images_per_epoch

REPLACEMENTS = 5  # draws of random words that a record of a finished prompt has

# What is done, and how a table names it.
START, ENCODE, READ, CROP, TOWER = "start", "encode", "read", "crop", "tower"
OPEN = "open"
EMBED, SEARCH, SEARCH_AGAIN = "embed", "search", "again"
PREPARE, STEP, TEXTS, CLASSIFY = "prepare", "step", "texts", "classify"
HAND_MADE, PROBE = "zero-shot", "probe"
TITLES = {
    START: "starting up",
    ENCODE: "encoding images",
    READ: "cutting crops",
    CROP: "cutting crops",
    TOWER: "encoding crops",
    EMBED: "searching words",
    SEARCH: "searching words",
    SEARCH_AGAIN: "searching words",
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
        Images that are handled together, such as those of a batch; 0 for as many as usual.
    joined : int
        Trainings whose steps are computed as one.
    """

    kind: str
    config: FitConfig | None = None
    dataset: str = ""
    classes: int = 0
    images: int = 0
    joined: int = 1

    def at_classes(self, classes: int) -> WorkPiece:
        """Returns the piece for another number of classes, with as many images of each."""
        images = self.images
        if self.kind in (SEARCH, SEARCH_AGAIN, PROBE):
            images = max(1, round(images * classes / self.classes))
        return replace(self, classes=classes, images=images)


@dataclass(frozen=True)
class Cost:
    """Seconds by the clock and of the processor."""

    wall: float = 0.0
    cpu: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.wall + other.wall, self.cpu + other.cpu)

    def __mul__(self, times: float) -> Cost:
        return Cost(times * self.wall, times * self.cpu)

    def beyond(self, other: Cost) -> Cost:
        """Returns what this costs more than another."""
        return Cost(max(0.0, self.wall - other.wall), max(0.0, self.cpu - other.cpu))


@dataclass(frozen=True)
class RunWork:
    """A run, and how often it does each piece."""

    run: Run
    counts: Mapping[WorkPiece, int]


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
    keeps_crops : bool
        Whether crops are kept from the first time that they are cut, because a later run prompts
        images.
    """

    def __init__(
        self,
        cache: bool,
        stored_words: Callable[[int], bool],
        memory: CropMemory | None = None,
        keeps_crops: bool = False,
    ) -> None:
        self.cache, self.stored_words, self.keeps_crops = cache, stored_words, keeps_crops
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
        encoded = [
            (name if name in run.targets else run.dataset, test.test)
            for name, test in task.tests.items()
        ]
        encoded += [] if run.arm == ZERO_SHOT else [(run.dataset, task.training.train)]
        self._encode(counts, encoded)
        if run.arm == ZERO_SHOT:
            self._hand_made(counts, task)
        elif run.arm == LINEAR_PROBE:
            classes, images = _sizes(task.training)
            counts[WorkPiece(PROBE, classes=classes, images=images)] += 1
        elif run.arm == WORDS_ONLY:
            self._search(counts, run, task.training, int(run.words))
            self._hand_made(counts, task)
        else:
            self._fit(counts, run, task)

    def _encode(
        self, counts: Counter[WorkPiece], images: Sequence[tuple[str, Sequence[Item]]]
    ) -> None:
        """Counts the images of each dataset that no earlier run has encoded."""
        new = {
            item.path: dataset
            for dataset, items in images
            for item in items
            if item.path not in self._encoded
        }
        self._encoded.update(new)
        # Many files are read by processes.
        together = MANY if sum(isinstance(path, Path) for path in new) >= MANY else 0
        for dataset, number in Counter(new.values()).items():
            counts[WorkPiece(ENCODE, dataset=dataset, images=together)] += number
        if self.keeps_crops:
            self._open(new)

    def _open(self, paths: Iterable[Hashable]) -> int:
        """Returns how many images are opened; their centre crops are kept as long as they fit."""
        new = [path for path in paths if path not in self._opened]
        self._opened.update(new[: self.memory.tests - len(self._opened)])
        return len(new)

    def _hand_made(self, counts: Counter[WorkPiece], task: Task) -> None:
        for test in task.tests.values():
            counts[WorkPiece(HAND_MADE, classes=len(test.class_names))] += 1

    def _search(self, counts: Counter[WorkPiece], run: Run, training: Dataset, k: int) -> None:
        """Counts the steps of a search that no earlier run has done."""
        classes, images = _sizes(training)
        config = search_config(run.config)
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
            if run.arm in (CHOSEN, RANDOM) and _is_tested_with_random_words(config.learner):
                counts[WorkPiece(TEXTS, trained, classes=len(test.class_names))] += REPLACEMENTS

    def _crops(
        self, counts: Counter[WorkPiece], run: Run, images: int, seen: int, batch: int
    ) -> None:
        """Counts the crops of the shots that no earlier run has cut or encoded."""
        spec, views, room = learner_spec(run.config.learner), run.config.views, self.memory.bank
        reading = WorkPiece(READ, dataset=run.dataset)
        in_bank = WorkPiece(CROP, dataset=run.dataset)
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
        encodes = spec.wants_features and views != 0 and self._bank.get(("features", *key)) is None
        if not has_bytes and (spec.prompts_images or (encodes and self.keeps_crops)):
            if size <= room:
                has_bytes = cuts = self._is_new(("bytes", *key), size)
            elif spec.prompts_images:
                counts[in_steps] += seen
        if spec.wants_features and views != 0:
            new = self._is_new(("features", *key), crops * self.memory.feature_bytes)
            counts[WorkPiece(TOWER)] += crops * new
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
        counts[WorkPiece(OPEN, dataset=name)] += self._open([item.path for item in items])


def count_work(
    runs: Sequence[Run],
    task_of: Callable[[Run], Task],
    cache: bool,
    stored_words: Callable[[int], bool],
    memory: CropMemory | None = None,
) -> list[RunWork]:
    """Returns how often each run does each piece, in the order of the runs."""
    counter = WorkCounter(cache, stored_words, memory, prompts_images(runs))
    return [counter.count(run, task_of(run)) for run in runs]


def alike_together(runs: Sequence[Run]) -> tuple[Run, ...]:
    """Returns runs in an order in which those whose steps can be computed as one are neighbours.

    These are the seeds of a dataset, and its arms with as many words: their steps have the same
    shapes.
    """
    keys = {run.id: (run.dataset, run.learner, _shape_of(run.config)) for run in runs}
    first: dict[Hashable, int] = {}
    for index, run in enumerate(runs):
        first.setdefault(keys[run.id], index)
    return tuple(sorted(runs, key=lambda run: first[keys[run.id]]))


def _shape_of(config: FitConfig) -> FitConfig:
    return training_config(config, word_numbers(config)[-1])


def join_steps(works: Sequence[RunWork], jobs: int) -> list[RunWork]:
    """Returns the work of runs whose steps are computed as one, as many of them as there are jobs.

    These are runs on the same dataset whose steps cost the same.
    """
    alike = Counter(
        (work.run.dataset, piece)
        for work in works
        for piece in work.counts
        if piece.kind == STEP and learner_spec(work.run.config.learner).recordable
    )

    def joined(work: RunWork, piece: WorkPiece) -> WorkPiece:
        together = min(jobs, alike[work.run.dataset, piece])
        return replace(piece, joined=together) if together > 1 else piece

    return [
        replace(work, counts={joined(work, p): count for p, count in work.counts.items()})
        for work in works
    ]


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


def _is_tested_with_random_words(learner: str) -> bool:
    """Returns whether finished prompts are tested with random words too, where that is cheap."""
    kind = learner_class(learner)
    return kind.logits is Learner.logits and not kind.prompts_images


def _sizes(training: Dataset) -> tuple[int, int]:
    return len(training.class_names), len(training.train)
