"""Made-up run records, as `ipl bench` writes them, for tests of what reads them."""

from __future__ import annotations

import json
from math import ceil
from pathlib import Path
from typing import Any

from ipl.bench import paper_numbers as paper
from ipl.bench.arms import UNTRAINED
from ipl.bench.protocols import find_protocol
from ipl.bench.records import RunRecord
from ipl.bench.run import BUNDLED, Run
from ipl.config import FRESH, FitConfig
from ipl.datasets.benchmarks import teacher_template_of
from ipl.words.selection import Certainty, RankedWord
from tests.helpers.selections import make_selection, make_step

TIME = "2026-01-01T00:00:00"


def record(
    dataset: str = "oxford_pets",
    learner: str = "coop",
    words: int | str = "paper",
    seed: int = 1,
    accuracy: dict[str, float] | None = None,
    protocol: str = "base-to-novel",
    backbone: str = paper.BACKBONE,
    shots: int = 16,
    error: str | None = None,
    data: dict[str, Any] | None = None,
    pool: str = BUNDLED,
    **settings: Any,
) -> dict[str, Any]:
    """Returns the record of a run with the paper's settings; keyword arguments override them."""
    accuracy = {"base": 0.8, "novel": 0.6} if accuracy is None else accuracy
    values = {**paper.PAPER_SETTINGS, "views": FRESH, "lambda_": paper.LAMBDA.get(dataset, 0.1)}
    values |= {"class_template": teacher_template_of(dataset), "backbone": backbone}
    values |= {"words": words, "seed": seed, "shots": shots}
    values["protocol"] = find_protocol(protocol).recipe_protocol
    if learner not in UNTRAINED:
        values["learner"] = learner
    targets = () if protocol == "base-to-novel" else tuple(n for n in accuracy if n != dataset)
    run = Run(protocol, dataset, targets, learner, FitConfig(**{**values, **settings}), pool)
    made = record_of(run, accuracy)
    if error:
        made |= {"status": "failed", "error": error, "accuracy": {}}
    return made | ({"data": data} if data else {})


def record_of(run: Run, accuracy: dict[str, float]) -> dict[str, Any]:
    """Returns the record of a planned run that came to these accuracies."""
    made = RunRecord.failed(run, "").as_dict() | {"status": "done", "error": None, "time": TIME}
    made |= {"accuracy": accuracy, "data": published_data(run.dataset, run.protocol, accuracy)}
    made["backbone"]["weights_sha256"] = "ab" * 32
    values: dict[str, Any] = json.loads(json.dumps(made))
    return values


def search(seconds: tuple[float, ...], gains: tuple[float, ...] = ()) -> dict[str, Any]:
    """Returns the search of a record: a step for each time, in a pool of 100 words.

    The redundancy of each word to the ones before it is 1, with a weight of 0.1.
    """
    gains = gains or tuple(1.0 for _ in seconds)
    steps = [
        make_step(
            f"word{index}",
            gain,
            utility=gain + (0.1 if index else 0.0),
            redundancy=1.0 if index else 0.0,
            runners_up=(RankedWord("other", 0.0),),
            checked=64,
            seconds=time,
            margin=0.01,
            certainty=Certainty(0.5, 0.25, 0.0, 0.5),
        )
        for index, (time, gain) in enumerate(zip(seconds, gains, strict=True))
    ]
    found = make_selection(*steps, pool_size=100, pool_sha256="e6" * 32)
    values: dict[str, Any] = json.loads(json.dumps(found.as_dict()))
    return values


def published_data(dataset: str, protocol: str, accuracy: dict[str, float]) -> dict[str, Any]:
    """Returns the numbers of classes and test images that the paper's sets have."""
    sizes = {name: paper.SIZES.get(name, (7, 70)) for name in (dataset, *accuracy)}
    if protocol == "base-to-novel":
        classes, images = sizes[dataset]
        half = ceil(classes / 2)
        tested = {"base": images // 2, "novel": images - images // 2}
        return {"classes": {"base": half, "novel": classes - half}, "test_images": tested}
    return {
        "classes": {name: count for name, (count, _) in sizes.items()},
        "test_images": {name: count for name, (_, count) in sizes.items()},
    }


def write_records(folder: Path, *records: dict[str, Any]) -> Path:
    """Returns a bench's folder with these records in it."""
    (folder / "records").mkdir(parents=True, exist_ok=True)
    for value in records:
        path = folder / "records" / f"{value['id']}.json"
        path.write_text(json.dumps(value), encoding="utf-8")
    return folder


def paper_records(learner: str = "coop", words: int | str = "paper") -> list[dict[str, Any]]:
    """Returns 33 records whose means are the paper's numbers, with or without words."""
    records = []
    numbers = paper.base_to_novel()[learner, words != 0]
    for dataset in paper.ELEVEN:
        base, novel = numbers[dataset]["base"], numbers[dataset]["novel"]
        for seed, shift in ((1, -0.5), (2, 0.0), (3, 0.5)):
            accuracy = {"base": (base + shift) / 100, "novel": (novel - shift) / 100}
            short = (learner, dataset, words) == ("coop", "imagenet", 0)
            epochs = {"epochs": 50} if short else {}
            records.append(record(dataset, learner, words, seed, accuracy, **epochs))
    return records
