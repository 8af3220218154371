"""The cost of the pieces of an estimate, measured on this machine with the code that runs use.

Every piece is measured with the real backbone, learners and images, for a fraction of a second
each. Where a plan has many numbers of classes, a few of them are measured and the others
interpolated.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.nn.functional import normalize

from ipl.backbone.backbone import Backbone
from ipl.backbone.encode_images import (
    BATCH,
    GPU_BATCH,
    CentreCrops,
    batch_size,
    decoders,
    decoding_threads,
    encode_pixels,
)
from ipl.backbone.feature_store import TEXT_BYTES, FeatureStore, StoredImage
from ipl.backbone.image_processes import processes_for
from ipl.backbone.labelled_features import LabelledFeatures
from ipl.backbone.linear_probe import fit_linear_probe
from ipl.bench.profile import UsageMonitor
from ipl.bench.sample_trainings import SampleTrainings
from ipl.bench.work_counts import (
    CLASSIFY,
    CROP,
    EMBED,
    ENCODE,
    HAND_MADE,
    OPEN,
    PREPARE,
    PROBE,
    READ,
    SEARCH,
    SEARCH_AGAIN,
    STEP,
    TEXTS,
    TOWER,
    Cost,
    WorkPiece,
)
from ipl.config import FitConfig
from ipl.datasets.dataset import Item
from ipl.learners.learner import Learner
from ipl.support.cache import Cache
from ipl.support.progress import SILENT, Reporter
from ipl.training.decoded_images import decoded_images
from ipl.training.fit import new_learner, read_pool, word_choice
from ipl.training.loop import training_threads
from ipl.words.choice import WordChoice
from ipl.words.pool import Pool

NODES = 4  # numbers of classes that are measured
SAMPLE = 6 * GPU_BATCH  # images of a dataset that are opened on a GPU, several batches ahead
WORDS_ON_CPU = 3000  # of the pool that are searched; a GPU searches all of it
MOST_REPEATS = 200
TESTED_ON_GPU = 1024  # features that are classified together
ROUNDS_ON_GPU = 16  # steps that are queued before the clock waits for the GPU, as in training


@dataclass(frozen=True)
class PlanData:
    """What calibration needs of a plan's data: class names, and some images of each dataset."""

    names: Mapping[int, Sequence[str]]  # by their number
    images: Mapping[str, Sequence[StoredImage]]  # by dataset


class CostMeter:
    """Measures pieces, each when it is first asked for.

    Parameters
    ----------
    backbone : Backbone
        The backbone of the plan.
    data : PlanData
        Class names and images.
    memory : float
        GiB of working memory for the search.
    cache : bool
        Whether runs write features to the cache; that is measured in a temporary folder.
    reporter : Reporter
        Hears how far the calibration has come.
    at_once : int
        Trainings that take turns on one GPU; a step is measured beside those of the others.
    """

    seconds = 0.4  # that a piece is repeated for

    def __init__(
        self,
        backbone: Backbone,
        data: PlanData,
        memory: float = 2.0,
        cache: bool = True,
        reporter: Reporter = SILENT,
        at_once: int = 1,
    ) -> None:
        self.backbone, self.data, self.memory, self.cache = backbone, data, memory, cache
        self.reporter, self.at_once = reporter, at_once
        self.peak_memory = 0
        self._beyond_usual = Cost()  # of first calls; noise of many pieces adds up to little
        self.nodes = choose_nodes(data.names)
        self.samples = SampleTrainings(backbone, data.names)
        self._costs: dict[WorkPiece, Cost] = {}
        self._learners: dict[tuple[FitConfig, int], Learner] = {}

    def cost(self, piece: WorkPiece) -> Cost:
        """Returns the cost of a piece: measured, or interpolated between numbers of classes."""
        if piece.kind == ENCODE and not self._on_gpu:
            piece = replace(piece, images=0)  # threads read images, however many there are
        if piece not in self._costs:
            near = neighbours(piece.classes, self.nodes)
            if near is None:
                self._costs[piece] = self._measure(piece)
            else:
                low, high = near
                share = (piece.classes - low) / (high - low)
                costs = [self.cost(piece.at_classes(node)) for node in near]
                self._costs[piece] = costs[0] * (1 - share) + costs[1] * share
        return self._costs[piece]

    @property
    def first_use(self) -> Cost:
        """Returns what first calls cost beyond later ones: imports, kernels, memory."""
        return self._beyond_usual.beyond(Cost())

    def stores_words(self, classes: int) -> bool:
        """Returns whether the text features of the whole pool stay in memory."""
        size = 4 * self.backbone.feature_dim * classes * len(Pool.bundled())
        return size <= TEXT_BYTES

    def _measure(self, piece: WorkPiece) -> Cost:
        with UsageMonitor(self.backbone.device) as usage:
            cost = MEASURES[piece.kind](self, piece)
        self.peak_memory = max(self.peak_memory, usage.peak_memory)
        return cost

    # -- images ---------------------------------------------------------------------------------

    def _encode(self, piece: WorkPiece) -> Cost:
        """One image: opened, encoded and written to the cache."""
        images = list(self.data.images[piece.dataset])[: SAMPLE if self._on_gpu else BATCH]
        kind, preprocessing = self.backbone.device.type, self.backbone.preprocessing
        with (
            tempfile.TemporaryDirectory() as folder,
            processes_for(piece.images, preprocessing, kind, decoders()) as processes,
        ):
            times, started = count(), processes.cpu_seconds() if processes else 0.0

            def encode() -> None:
                number = next(times)
                cache = Cache(Path(folder) / str(number)) if self.cache else None
                FeatureStore(self.backbone, cache).encode(images, processes=processes)

            cost = self._timed(encode)
            if processes is not None:
                spent = processes.cpu_seconds() - started  # less, if one of them has ended
                cost += Cost(cpu=max(0.0, spent) / next(times))
            return cost * (1 / len(images))

    def _crop(self, piece: WorkPiece) -> Cost:
        """One random crop of a decoded image, in a batch."""
        paths = _repeated(self.data.images[piece.dataset], piece.images or self._batch)
        images, every = decoded_images(self.backbone, paths, random_crops=True), range(len(paths))
        images.read(every)

        def cut() -> None:
            images.crops(every, [random.Random(index) for index in every])

        return self._timed(cut) * (1 / len(paths))

    def _read(self, piece: WorkPiece) -> Cost:
        """One image that is decoded for its crops, in a batch."""
        paths = _repeated(self.data.images[piece.dataset], self._batch)

        def read() -> None:
            decoded_images(self.backbone, paths, random_crops=True).read(range(len(paths)))

        return self._timed(read) * (1 / len(paths))

    def _tower(self, piece: WorkPiece) -> Cost:
        """One crop through the frozen image tower, in a batch."""
        pixels = self.samples.pixels(piece.images or self._batch).to(self.backbone.device)
        return self._timed(lambda: encode_pixels(self.backbone, pixels)) * (1 / len(pixels))

    # -- words ----------------------------------------------------------------------------------

    def _embed(self, piece: WorkPiece) -> Cost:
        """The embeddings of the whole pool, which redundancy compares."""
        choice = self._choice(piece)
        words = choice.candidates(self.backbone).words
        part = words if self._on_gpu else words[:: max(1, len(words) // WORDS_ON_CPU)]
        scale = len(words) / len(part)
        cost = self._timed(lambda: choice.objective.embed_words(self.backbone, part))
        return cost * scale

    def _search(self, piece: WorkPiece) -> Cost:
        """One step of the search: a word is chosen."""
        return self._search_twice(piece)[0]

    def _search_again(self, piece: WorkPiece) -> Cost:
        """The first step for other images of the same classes, whose texts are in memory."""
        return self._search_twice(piece)[1]

    def _search_twice(self, piece: WorkPiece) -> tuple[Cost, Cost]:
        choice = self._choice(piece)
        pool = choice.candidates(self.backbone)
        part = pool
        if not self._on_gpu and len(pool) > WORDS_ON_CPU:
            step = len(pool) // WORDS_ON_CPU
            part = Pool.from_words(pool.words[::step], "a part of the pool")
        names = self.data.names[piece.classes]
        choice = replace(choice, pool=part)
        costs = []
        store = FeatureStore(self.backbone)
        # On a GPU of as many images as the others: which kernels are compiled depends on it.
        others = self._labelled(piece.classes, piece.images if self._on_gpu else 2, 9)
        first = self._first(
            lambda: choice.choose(
                self.backbone, names, others, 1, None, FeatureStore(self.backbone)
            )
        )
        for seed in (0, 1):
            images = self._labelled(piece.classes, piece.images, seed)

            def search(images: LabelledFeatures = images) -> None:
                choice.choose(self.backbone, names, images, 1, None, store)

            costs.append(self._once(search))
        fresh, again = (cost * (len(pool) / len(part)) for cost in costs)
        self._beyond_usual += first.beyond(costs[0])  # a search takes long, and its time varies
        self._costs[replace(piece, kind=SEARCH)] = fresh
        self._costs[replace(piece, kind=SEARCH_AGAIN)] = again
        return fresh, again

    def _choice(self, piece: WorkPiece) -> WordChoice:
        assert piece.config is not None
        config = replace(piece.config, memory=self.memory)
        return word_choice(config, read_pool(config, self.backbone))

    # -- training -------------------------------------------------------------------------------

    def _prepare(self, piece: WorkPiece) -> Cost:
        """Everything of a training but its steps."""
        config = piece.config
        assert config is not None
        names = self.data.names[piece.classes]
        first = self._first(lambda: self.samples.step(piece)) if self._on_gpu else Cost()
        started = _Clock(self.backbone)
        new_learner(config, self.backbone, names, int(config.words))  # a fit checks it first
        learner, step = self.samples.step(piece)
        step()
        prepared = started.read()
        self._learners[config, piece.classes] = learner
        self._count_first(first, prepared)
        return prepared.beyond(self._once(step))

    def _step(self, piece: WorkPiece) -> Cost:
        """One step of training, of several that take turns on one GPU or are computed as one."""
        beside = max(1, self.at_once // piece.joined)
        make = self.samples.joined_step if piece.joined > 1 else self.samples.step
        try:
            learners, steps = zip(*(make(piece) for _ in range(beside)), strict=True)
        except RuntimeError:  # then the engine does not join them either
            if piece.joined == 1:
                raise
            return self.cost(replace(piece, joined=1))
        streams = [torch.cuda.Stream() if beside > 1 else None for _ in steps]
        rounds = ROUNDS_ON_GPU if self._on_gpu else 1

        def take_turns() -> None:
            for _ in range(rounds):
                for step, stream in zip(steps, streams, strict=True):
                    with torch.cuda.stream(stream):
                        step()

        with training_threads(learners[0]):
            return self._timed(take_turns) * (1 / (rounds * beside * piece.joined))

    # -- tests ----------------------------------------------------------------------------------

    def _texts(self, piece: WorkPiece) -> Cost:
        """The prompts of other classes, from the trained vectors to features."""
        learner = self._learner(piece)
        names = self.data.names[piece.classes]
        if not learner.fixed_texts:
            return self._timed(lambda: learner.rebuilt(class_names=names))

        def texts() -> None:
            with torch.no_grad():
                learner.rebuilt(class_names=names).text_features()

        return self._timed(texts)

    def _open(self, piece: WorkPiece) -> Cost:
        """One test image that is opened and cropped, in a batch."""
        images = _repeated(self.data.images[piece.dataset], SAMPLE if self._on_gpu else BATCH)
        crops = CentreCrops(self.backbone)

        with decoding_threads() as threads:

            def cut() -> None:
                list(threads.map(crops.cut, [[image] for image in images]))

            return self._timed(cut) * (1 / len(images))

    def _classify(self, piece: WorkPiece) -> Cost:
        """One test image: from its crop where the learner prompts images, else its feature."""
        learner = self._learner(piece)
        if learner.prompts_images:
            count = SAMPLE if self._on_gpu else BATCH
            images = _repeated(next(iter(self.data.images.values())), count)
            crops = CentreCrops(self.backbone, sys.maxsize)
            return self._timed(lambda: learner.encode_images(images, crops=crops)) * (1 / count)
        features = self.samples.features(TESTED_ON_GPU if self._on_gpu else BATCH)
        if learner.fixed_texts:
            texts = self.samples.features(piece.classes)
            logits: Callable[[], Any] = lambda: self.backbone.logits(features, texts)  # noqa: E731
        else:

            def logits() -> None:
                with torch.no_grad():
                    learner.logits(features)

        return self._timed(logits) * (1 / len(features))

    def _hand_made(self, piece: WorkPiece) -> Cost:
        """A hand-made prompt for every class."""
        texts = [f"a photo of a {name}." for name in self.data.names[piece.classes]]
        return self._timed(lambda: self.backbone.encode_texts(texts))

    def _probe(self, piece: WorkPiece) -> Cost:
        """A linear probe on the features of the shots."""
        images = self._labelled(piece.classes, piece.images, 0)
        return self._once(
            lambda: fit_linear_probe(images.features, images.labels, piece.classes, 1)
        )

    # -- helpers --------------------------------------------------------------------------------

    @property
    def _batch(self) -> int:
        return batch_size(self.backbone.device)

    @property
    def _on_gpu(self) -> bool:
        return self.backbone.device.type == "cuda"

    def _learner(self, piece: WorkPiece) -> Learner:
        assert piece.config is not None
        classes = piece.classes or self.nodes[0]
        key = piece.config, classes
        if key not in self._learners:
            names = self.data.names[classes]
            learner = new_learner(piece.config, self.backbone, names, int(piece.config.words))
            self._learners[key] = learner
        return self._learners[key]

    def _labelled(self, classes: int, images: int, seed: int) -> LabelledFeatures:
        """Returns features like those of real images.

        They are near each other, and hardly nearer to the texts of their classes than to others
        (cosines of about 0.8 and 0.15). How many words a search has to score depends on it.
        """
        texts = [f"a photo of a {name}." for name in self.data.names[classes]]
        labels = [index % classes for index in range(max(images, classes))]
        with torch.no_grad():
            centres = normalize(self.backbone.encode_texts(texts).float(), dim=-1)
        common, noise = self.samples.features(1, seed=-1), self.samples.features(len(labels), seed)
        features = normalize(common + 0.2 * centres[labels] + 0.4 * noise, dim=-1)
        items = tuple(Item(Path(str(index)), label) for index, label in enumerate(labels))
        return LabelledFeatures(items, features, ())

    def _once(self, work: Callable[[], Any]) -> Cost:
        clock = _Clock(self.backbone)
        work()
        return clock.read()

    def _timed(self, work: Callable[[], Any]) -> Cost:
        """Returns the median cost of a piece that is repeated for a while."""
        first = self._first(work)
        costs: list[Cost] = []
        spent = 0.0
        while len(costs) < 3 or (spent < self.seconds and len(costs) < MOST_REPEATS):
            costs.append(self._once(work))
            spent += costs[-1].wall
            if spent > 10 * self.seconds:
                break
        usual = Cost(median(c.wall for c in costs), sum(c.cpu for c in costs) / len(costs))
        self._count_first(first, usual)
        return usual

    def _count_first(self, first: Cost, usual: Cost) -> None:
        """Adds what a first call cost beyond the usual, if that is known."""
        if first.wall:
            self._beyond_usual += first + usual * -1

    def _first(self, work: Callable[[], Any]) -> Cost:
        """Returns the cost of a first call, or nothing if it compiled kernels.

        Triton compiles them once on a machine; the runs will find them.
        """
        compiled = _compiled_kernels()
        cost = self._once(work)
        return cost if _compiled_kernels() == compiled else Cost()


MEASURES: Mapping[str, Callable[[CostMeter, WorkPiece], Cost]] = {
    ENCODE: CostMeter._encode,
    CROP: CostMeter._crop,
    READ: CostMeter._read,
    TOWER: CostMeter._tower,
    EMBED: CostMeter._embed,
    SEARCH: CostMeter._search,
    SEARCH_AGAIN: CostMeter._search_again,
    PREPARE: CostMeter._prepare,
    STEP: CostMeter._step,
    TEXTS: CostMeter._texts,
    OPEN: CostMeter._open,
    CLASSIFY: CostMeter._classify,
    HAND_MADE: CostMeter._hand_made,
    PROBE: CostMeter._probe,
}


class _Clock:
    """Wall-clock and CPU seconds since it was made, with the device's work finished."""

    def __init__(self, backbone: Backbone) -> None:
        self._device = backbone.device
        self._wall, self._cpu = self._now()

    def _now(self) -> tuple[float, float]:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.perf_counter(), time.process_time()

    def read(self) -> Cost:
        """Returns the cost so far."""
        wall, cpu = self._now()
        return Cost(wall - self._wall, cpu - self._cpu)


def _compiled_kernels() -> int:
    """Returns how many kernels Triton has compiled on this machine."""
    folder = os.environ.get("TRITON_CACHE_DIR") or Path.home() / ".triton" / "cache"
    with suppress(OSError):
        return len(os.listdir(folder))
    return 0


def choose_nodes(numbers: Mapping[int, Any] | Sequence[int]) -> tuple[int, ...]:
    """Returns the numbers of classes to measure: the ends, and some evenly between their logs."""
    ordered = sorted(numbers)
    if len(ordered) <= NODES:
        return tuple(ordered)
    low, high = ordered[0], ordered[-1]
    wanted = [low * (high / low) ** (step / (NODES - 1)) for step in range(NODES)]
    return tuple(sorted({min(ordered, key=lambda n: abs(n - goal)) for goal in wanted}))


def neighbours(classes: int, nodes: Sequence[int]) -> tuple[int, int] | None:
    """Returns the nodes on both sides of a number of classes; None if it is one, or 0."""
    if classes == 0 or classes in nodes:
        return None
    return max(n for n in nodes if n < classes), min(n for n in nodes if n > classes)


def _repeated(images: Sequence[StoredImage], count: int) -> list[StoredImage]:
    return [images[index % len(images)] for index in range(count)]
