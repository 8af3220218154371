"""The paper's numbers for a row of a table, and how our setting differs from the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipl.bench.arms import ZERO_SHOT
from ipl.bench.records import BUNDLED, RunRecord
from ipl.bench.run import PUBLISHED_EPOCHS
from ipl.bench.tables import paper
from ipl.config import hyperparameter_names
from ipl.learners.registry import learner_class
from ipl.support.errors import IplError

SEARCHES = ("exact", "exhaustive")  # the same words
NOT_TESTED = "the paper does not test on"


def published_settings(run: RunRecord) -> dict[str, Any]:
    """Returns the paper's value of each setting that a run's record may hold; {} if not known."""
    if run.learner == ZERO_SHOT:
        return {}
    try:
        kind = learner_class(run.learner)
    except IplError:
        return {}
    recipe = vars(kind.hyperparameters(1 if run.with_words else 0, run.rules.recipe_protocol))
    published = {key: recipe[key] for key in hyperparameter_names()}
    settings = {"shots": paper.SHOTS} | published | {"views": "fresh"}
    if not run.with_words:
        epochs = PUBLISHED_EPOCHS.get((run.dataset, run.learner))
        settings["epochs"] = epochs or settings["epochs"]
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
    """Returns how the classes and test images of a dataset differ from the published ones."""
    if dataset not in paper.SIZES:
        return [f"{NOT_TESTED} {dataset}"]
    sizes = run.rules.sizes(run.data, dataset)
    return [text for size in sizes for text in _count_difference(*size)]


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
