"""The paper's numbers for a row of a table, and how our setting differs from the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

from ipl.bench.plan import BASE_TO_NOVEL, CROSS_DATASET, RECIPE, ZERO_SHOT
from ipl.bench.run import PUBLISHED_EPOCHS
from ipl.bench.tables import paper
from ipl.bench.tables.results import BUNDLED, RunRecord
from ipl.learners.registry import learner_class
from ipl.metrics import harmonic_mean
from ipl.support.errors import IplError

SEARCHES = ("exact", "exhaustive")  # the same words
NOT_TESTED = "the paper does not test on"


def paper_average(protocol: str, learner: str, with_words: bool) -> dict[str, float] | None:
    """Returns the paper's averages of a row by measure, in %, or None if it has no such row."""
    row = (learner, with_words)
    if protocol == BASE_TO_NOVEL:
        numbers = paper.BASE_TO_NOVEL.get(row)
        return dict(zip(("base", "novel", "hm"), numbers, strict=True)) if numbers else None
    average = (paper.CROSS_DATASET if protocol == CROSS_DATASET else paper.DOMAIN).get(row)
    return {"accuracy": average} if average is not None else None


def paper_numbers(
    protocol: str, learner: str, with_words: bool, dataset: str
) -> dict[str, float] | None:
    """Returns the paper's numbers of one dataset by measure, in %, or None if not known here."""
    numbers = paper.PER_SET.get((learner, with_words), {}).get(dataset)
    if protocol != BASE_TO_NOVEL or numbers is None:
        return None
    base, novel = numbers
    return {"base": base, "novel": novel, "hm": harmonic_mean(base, novel)}


def targets_of(protocol: str, source: str) -> tuple[str, ...]:
    """Returns the datasets that the paper averages over: all eleven, ten targets or variants."""
    if protocol == BASE_TO_NOVEL:
        return paper.ELEVEN
    if source != paper.SOURCE:
        return ()
    return paper.TARGETS if protocol == CROSS_DATASET else paper.VARIANTS


def published_settings(run: RunRecord) -> dict[str, Any]:
    """Returns the paper's value of each setting that a run's record may hold; {} if not known."""
    if run.learner == ZERO_SHOT:
        return {}
    try:
        kind = learner_class(run.learner)
    except IplError:
        return {}
    inside = BASE_TO_NOVEL if run.protocol == BASE_TO_NOVEL else CROSS_DATASET
    recipe = vars(kind.recipe(1 if run.with_words else 0, inside))
    settings = {"shots": paper.SHOTS} | {key: recipe[key] for key in RECIPE} | {"views": "fresh"}
    if not run.with_words:
        published = PUBLISHED_EPOCHS.get((run.dataset, run.learner))
        settings["epochs"] = published or settings["epochs"]
    if run.with_words:
        settings |= {"lambda_": paper.LAMBDA.get(run.dataset, 0.1), "preset": "paper"}
        settings["template"] = paper.TEMPLATES[0]
    return settings


def setting_differences(run: RunRecord) -> list[str]:
    """Returns how a run's settings differ from the paper's, a few words each."""
    config = run.config()
    name = str(config.get("backbone"))
    differences = []
    if not name.rstrip("/").lower().endswith(paper.BACKBONE.rpartition("/")[2]):
        differences.append(f"the backbone is {name}, not CLIP ViT-B/16")
    published = published_settings(run)
    if not published and run.learner != ZERO_SHOT:
        return [*differences, f"the paper has no learner {run.learner}"]
    for key, value in published.items():
        if key in config and config[key] != value:
            differences.append(f"{key.rstrip('_')} is {config[key]}, not {value}")
    return differences + (_word_differences(run, config) if run.with_words else [])


def _word_differences(run: RunRecord, config: dict[str, Any]) -> list[str]:
    differences = []
    k = paper.WORDS.get(run.dataset)
    if run.words not in ("auto", k):
        differences.append(f"words is {run.words}, not auto" + (f" or {k}" if k else ""))
    search = config.get("search", SEARCHES[0])
    if search not in SEARCHES:
        differences.append(f"search is {search}, which is approximate")
    pool = config.get("pool", BUNDLED)
    if pool != BUNDLED:
        differences.append(f"the pool of words is {pool}, not the bundled one")
    return differences


def data_differences(run: RunRecord, dataset: str) -> list[str]:
    """Returns how the classes and test images of a dataset differ from the published ones.

    For base-to-novel both halves of the classes are compared.
    """
    if dataset not in paper.SIZES:
        return [f"{NOT_TESTED} {dataset}"]
    classes, images = paper.SIZES[dataset]
    our_classes, our_images = run.data.get("classes") or {}, run.data.get("test_images") or {}
    if run.protocol == BASE_TO_NOVEL:
        half = ceil(classes / 2)
        differences = []
        for name, count in (("base", half), ("novel", classes - half)):
            differences += _count_difference(f"{name} classes", our_classes.get(name), count)
        halves = [our_images.get(name) for name in ("base", "novel")]
        total = None if None in halves else sum(filter(None, halves))
        return differences + _count_difference("test images", total, images)
    differences = _count_difference("classes", our_classes.get(dataset), classes)
    differences += _count_difference("test images", our_images.get(dataset), images)
    return differences


def seed_differences(seeds: Sequence[int]) -> list[str]:
    """Returns how the seeds differ from the paper's 1, 2, 3."""
    if tuple(sorted(seeds)) == paper.SEEDS:
        return []
    ours = ", ".join(map(str, sorted(seeds))) or "none"
    return [f"the seeds are {ours}, not 1, 2, 3"]


def _count_difference(noun: str, count: Any, published: int) -> list[str]:
    if count == published:
        return []
    if count is None:
        return [f"the number of {noun} was not recorded"]
    return [f"{count:,} {noun}, not {published:,}"]
