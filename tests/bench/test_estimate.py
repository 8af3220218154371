"""What a plan costs: counts of pieces against hand-computed ones, and their sum."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from ipl.backbone.backbone import Backbone
from ipl.backbone.image_processes import MANY, ImageProcesses
from ipl.bench import calibration
from ipl.bench.calibration import CostMeter, PlanData, choose_nodes, neighbours
from ipl.bench.estimate import Estimate, duration
from ipl.bench.plan import Plan
from ipl.bench.protocols.protocol import Task
from ipl.bench.run import Run, expand
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
    TITLES,
    TOWER,
    Cost,
    CropMemory,
    RunWork,
    WorkPiece,
    alike_together,
    count_work,
    join_steps,
)
from ipl.datasets.dataset import Dataset, Item

CLASSES, TRAIN, TEST = 6, 5, 4  # and images of each class


@pytest.fixture
def mine() -> Dataset:
    """Returns six classes with five images each to draw from and four to test on."""
    names = tuple(f"class {label}" for label in range(CLASSES))
    parts = [
        tuple(
            Item(Path(f"{part}-{label}-{index}.png"), label)
            for label in range(CLASSES)
            for index in range(count)
        )
        for part, count in (("train", TRAIN), ("test", TEST))
    ]
    return Dataset("mine", names, *parts)


def works(
    dataset: Dataset,
    cache: bool = True,
    stored: bool = True,
    memory: CropMemory | None = None,
    **values: Any,
) -> list[RunWork]:
    """Returns the counted work of a plan on one dataset."""
    given = {"protocol": "few-shot", "datasets": "mine", "shots": 2, "seeds": 1, "views": 0}
    runs = expand(Plan.from_values({**given, **values}))

    def task(run: Run) -> Task:
        return run.rules.task(dataset, {}, run.shots, run.seed)

    return count_work(runs, task, cache, lambda classes: stored, memory)


def kinds(work: RunWork) -> dict[str, int]:
    """Returns how often a run does each kind of piece."""
    counts: Counter[str] = Counter()
    for piece, count in work.counts.items():
        counts[piece.kind] += count
    return {kind: count for kind, count in counts.items() if count}


def test_a_plain_training(mine: Dataset) -> None:
    (work,) = works(mine, arms="plain", epochs=3, batch=5)
    assert kinds(work) == {
        ENCODE: 6 * 4 + 6 * 2,  # the test images and the shots
        PREPARE: 1,
        STEP: 3 * 2,  # of 12 shots, an epoch has two batches of five; the rest is dropped
        TEXTS: 2,  # of the training and of the test
        CLASSIFY: 12 + 24,
    }
    (step,) = (piece for piece in work.counts if piece.kind == STEP)
    assert (step.classes, step.images) == (6, 5)


def test_half_of_the_classes_are_trained_on(mine: Dataset) -> None:
    (work,) = works(mine, protocol="base-to-novel", arms="plain", epochs=1)
    classified = {
        (piece.classes, count) for piece, count in work.counts.items() if piece.kind == CLASSIFY
    }
    assert classified == {(3, 6 + 12 + 12)}  # shots, base and novel images
    assert kinds(work)[ENCODE] == 6 * 4 + 3 * 2


def test_crops_of_the_views(mine: Dataset) -> None:
    (banked,) = works(mine, arms="plain", epochs=3, views=4)
    assert (kinds(banked)[CROP], kinds(banked)[TOWER]) == (48, 48)
    assert kinds(banked)[READ] == 12  # each shot is decoded once
    (fresh,) = works(mine, arms="plain", epochs=3, batch=5, views="fresh")
    assert (kinds(fresh)[CROP], kinds(fresh)[TOWER]) == (30, 30)
    (pixels,) = works(mine, arms="plain", learners="maple", epochs=1, views=4)
    assert kinds(pixels)[CROP] == 48  # which it encodes itself, in its steps
    assert TOWER not in kinds(pixels)
    small = CropMemory(crop_bytes=1000, bank=48 * 1000 - 1)
    large = works(mine, memory=small, arms="plain", learners="maple", epochs=3, views=4, batch=5)
    assert kinds(large[0])[CROP] == 3 * 10  # cut in every step, because a bank would be too large
    assert kinds(large[0])[READ] == 12


@pytest.mark.parametrize(
    ("learners", "views", "expected"),
    [
        # CROP, TOWER and READ of every run
        ("coop,kgcoop", 4, [(48, 48, 12), (0, 0, 0)]),
        ("promptsrc,maple,coop", 4, [(48, 48, 12), (0, 0, 0), (0, 0, 0)]),
        ("maple,coop", 4, [(48, 0, 12), (0, 48, 0)]),  # encoded from bytes in memory
        ("coop,maple,promptsrc", 4, [(48, 48, 12), (0, 0, 0), (0, 0, 0)]),
        ("coop,kgcoop", "fresh", [(30, 30, 12), (30, 30, 0)]),
        ("maple,promptsrc", 0, [(12, 0, 12), (0, 0, 0)]),
    ],
)
def test_runs_of_the_same_shots_share_their_crops(
    mine: Dataset, learners: str, views: int | str, expected: list[tuple[int, int, int]]
) -> None:
    given = {"arms": "plain", "epochs": 3, "batch": 5, "views": views}
    counted = [kinds(work) for work in works(mine, learners=learners, **given)]
    assert [tuple(k.get(kind, 0) for kind in (CROP, TOWER, READ)) for k in counted] == expected
    seeds = [kinds(work) for work in works(mine, learners="maple", seeds="1,2", **given)]
    assert seeds[0][CROP] == seeds[1][CROP]  # those of another seed are other crops


def test_as_many_test_images_stay_in_memory_as_there_is_room_for(mine: Dataset) -> None:
    given = {"learners": "maple", "arms": "plain,empty", "words": 1, "epochs": 1}
    images = 12 + 24  # shots and test images
    for tests, again in ((100, 0), (0, images), (30, images - 30)):
        first, second = works(mine, memory=CropMemory(tests=tests), **given)
        assert [kinds(work)[CLASSIFY] for work in (first, second)] == [images, images]
        assert [kinds(work).get(ENCODE, 0) for work in (first, second)] == [images, 0]
        assert [kinds(work).get(OPEN, 0) for work in (first, second)] == [again, again]
    (opened,) = {piece.dataset for piece in first.counts if piece.kind == OPEN}
    assert opened == "mine"
    assert OPEN not in kinds(works(mine, arms="plain", epochs=1)[0])  # its features are kept


def test_what_an_earlier_run_has_done_is_not_done_again(mine: Dataset) -> None:
    first, second, other_seed, _ = works(
        mine, arms="words", learners="coop,kgcoop", words=3, seeds="1,2", epochs=3
    )
    assert kinds(first)[SEARCH] == 3
    assert kinds(first)[EMBED] == 1
    assert not {SEARCH, SEARCH_AGAIN, EMBED, ENCODE} & set(kinds(second))  # all in the cache
    # Other shots of the same classes: the texts of the first step are in memory.
    assert (kinds(other_seed)[SEARCH], kinds(other_seed)[SEARCH_AGAIN]) == (2, 1)
    assert 0 < kinds(other_seed)[ENCODE] <= 12  # only shots that seed 1 has not drawn
    too_large = works(mine, stored=False, arms="words", words=3, seeds="1,2", epochs=3)[1]
    assert SEARCH_AGAIN not in kinds(too_large)


def test_without_a_cache_every_run_searches(mine: Dataset) -> None:
    _, second = works(mine, cache=False, arms="words", learners="coop,kgcoop", words=2, epochs=2)
    assert kinds(second)[SEARCH_AGAIN] == 2
    assert kinds(second)[EMBED] == 1


def test_arms_without_a_learner(mine: Dataset) -> None:
    probe, words_only, zero_shot = works(mine, arms="zero-shot,linear-probe,words-only", words=2)
    assert kinds(zero_shot) == {HAND_MADE: 1}
    assert kinds(probe) == {ENCODE: 36, PROBE: 1}
    assert (kinds(words_only)[SEARCH], kinds(words_only)[HAND_MADE]) == (2, 1)


def test_the_papers_number_of_words_trains_with_each(mine: Dataset) -> None:
    (work,) = works(mine, arms="words", words="paper", epochs=6, interval=2, batch=12)
    assert kinds(work)[PREPARE] == 3  # 1, 2 and 3 words
    assert kinds(work)[STEP] == 3 * 6
    assert kinds(work)[SEARCH] == 3
    assert kinds(work)[TEXTS] == 3 + 1 + 5  # trainings, the test, and random words in its slots


def test_the_sum(mine: Dataset) -> None:
    counted = works(mine, arms="zero-shot,plain", epochs=3, batch=5)
    seconds = dict.fromkeys(TITLES, 0.0) | {ENCODE: 0.5, STEP: 2.0, CLASSIFY: 0.25, PREPARE: 1.0}
    pieces = {piece for work in counted for piece in work.counts}
    costs = {piece: Cost(seconds[piece.kind], 2 * seconds[piece.kind]) for piece in pieces}
    estimate = Estimate(tuple(counted), costs, Cost(3.0, 4.0), jobs=2, feature_dim=512)
    # 36 images, 6 steps, 36 classified, one preparation, and the start of two processes
    wall = 36 * 0.5 + 6 * 2.0 + 36 * 0.25 + 1.0 + 2 * 3.0
    assert estimate.total.wall == pytest.approx(wall)
    assert estimate.total.cpu == pytest.approx(2 * (wall - 6.0) + 8.0)
    assert estimate.wall == pytest.approx(wall / 2)
    assert next(iter(estimate.parts())) == "encoding images"
    assert "Most of it is encoding images: 39 %." in estimate.summary
    shared = "is counted for the first run that needs it."
    assert estimate.summary.endswith(shared)
    assert shared not in Estimate(tuple(counted[:1]), costs).summary
    assert estimate.as_dict()["methods"][1] == {
        "learner": "coop",
        "arm": "plain",
        "runs": 1,
        "wall": pytest.approx(12 + 9 + 1 + 6),
        "cpu": pytest.approx(56),
    }
    assert sum(cost.wall for _, cost in estimate.methods().values()) == pytest.approx(wall - 6)


def test_steps_that_are_computed_as_one(mine: Dataset) -> None:
    given = {"arms": "plain,empty,words", "words": 1, "seeds": "1,2", "epochs": 3}
    counted = works(mine, **given)
    for jobs, expected in ((1, [1] * 6), (3, [2, 3, 3] * 2), (8, [2, 4, 4] * 2)):
        found = join_steps(counted, jobs)
        steps = [next(p for p in work.counts if p.kind == STEP) for work in found]
        assert [step.joined for step in steps] == expected  # of each seed: plain, empty, words
        assert [kinds(work) for work in found] == [kinds(work) for work in counted]
    ordered = alike_together([work.run for work in counted])
    order = [(run.arm, run.seed) for run in ordered]
    slots = [("empty", 1), ("words", 1), ("empty", 2), ("words", 2)]
    assert order == [("plain", 1), ("plain", 2), *slots]


def test_few_numbers_of_classes_are_measured() -> None:
    assert choose_nodes([10, 5]) == (5, 10)
    numbers = [5, 18, 19, 23, 24, 50, 51, 98, 198, 199, 500]
    nodes = choose_nodes(numbers)
    assert (len(nodes), nodes[0], nodes[-1]) == (4, 5, 500)
    assert set(nodes) <= set(numbers)
    assert neighbours(0, nodes) is None
    assert neighbours(500, nodes) is None
    low, high = neighbours(198, nodes) or (0, 0)
    assert low < 198 < high


def test_costs_between_two_numbers_of_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    from ipl.bench.calibration import MEASURES, CostMeter, PlanData

    calibration = CostMeter.__new__(CostMeter)
    calibration.nodes, calibration._costs = (10, 20), {}
    calibration.data = PlanData({}, {})
    monkeypatch.setattr(CostMeter, "_measure", lambda self, piece: Cost(float(piece.classes), 1.0))
    assert STEP in MEASURES
    assert calibration.cost(WorkPiece(STEP, classes=10)) == Cost(10.0, 1.0)
    assert calibration.cost(WorkPiece(STEP, classes=13)).wall == pytest.approx(13.0)


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="only Linux has such processes")
@pytest.mark.parametrize("cache", [True, False])
def test_images_that_processes_read(
    pocket: Backbone, tmp_path: Path, cache: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    @contextmanager
    def start(images: int, *_: object) -> Iterator[ImageProcesses]:
        asked.append(images)
        processes = ImageProcesses(pocket.preprocessing, 1)
        yield processes
        processes.close()

    paths = [tmp_path / f"{index}.png" for index in range(3)]
    for index, path in enumerate(paths):
        Image.new("RGB", (64, 64), (index, 0, 0)).save(path)
    monkeypatch.setattr(calibration, "processes_for", start)
    monkeypatch.setattr(CostMeter, "seconds", 0.0)
    meter = CostMeter(pocket, PlanData({5: [], 9: []}, {"mine": paths}), cache=cache)
    piece = WorkPiece(ENCODE, dataset="mine", images=MANY)
    cost = meter._encode(piece)
    assert asked == [MANY]
    assert cost.wall > 0
    assert cost.cpu > 0
    assert meter.cost(piece) == meter.cost(replace(piece, images=0))  # on a CPU, threads read
    assert asked == [MANY, 0]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.84, "0.8 s"), (12.2, "12 s"), (185, "3 min 5 s"), (7800, "2 h 10 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
