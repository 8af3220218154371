"""What the paper says of a row, and why a row of ours may not be compared with it."""

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
    found = paper.PER_SET.get((learner, with_words), {}).get(dataset)
    if protocol != BASE_TO_NOVEL or found is None:
        return None
    base, novel = found
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


def why_not(run: RunRecord) -> list[str]:
    """Returns how a run's settings differ from the paper's, a few words each."""
    config = run.config()
    name = str(config.get("backbone"))
    reasons = []
    if not name.rstrip("/").lower().endswith(paper.BACKBONE.rpartition("/")[2]):
        reasons.append(f"the backbone is {name}, not CLIP ViT-B/16")
    published = published_settings(run)
    if not published and run.learner != ZERO_SHOT:
        return [*reasons, f"the paper has no learner {run.learner}"]
    for key, value in published.items():
        if key in config and config[key] != value:
            reasons.append(f"{key.rstrip('_')} is {config[key]}, not {value}")
    return reasons + (_why_not_words(run, config) if run.with_words else [])


def _why_not_words(run: RunRecord, config: dict[str, Any]) -> list[str]:
    reasons = []
    k = paper.WORDS.get(run.dataset)
    if run.words not in ("auto", k):
        reasons.append(f"words is {run.words}, not auto" + (f" or {k}" if k else ""))
    search = config.get("search", SEARCHES[0])
    if search not in SEARCHES:
        reasons.append(f"search is {search}, which is approximate")
    pool = config.get("pool", BUNDLED)
    if pool != BUNDLED:
        reasons.append(f"the pool of words is {pool}, not the bundled one")
    return reasons


def why_not_data(run: RunRecord, part: str) -> list[str]:
    """Returns how the classes and test images of a dataset differ from the published ones.

    `part` is the dataset; of base-to-novel both halves are looked at.
    """
    if part not in paper.SIZES:
        return [f"{NOT_TESTED} {part}"]
    classes, images = paper.SIZES[part]
    found_classes, found_images = run.data.get("classes") or {}, run.data.get("test_images") or {}
    if run.protocol == BASE_TO_NOVEL:
        half = ceil(classes / 2)
        reasons = []
        for name, count in (("base", half), ("novel", classes - half)):
            reasons += _fewer(f"{name} classes", found_classes.get(name), count)
        halves = [found_images.get(name) for name in ("base", "novel")]
        total = None if None in halves else sum(filter(None, halves))
        return reasons + _fewer("test images", total, images)
    reasons = _fewer("classes", found_classes.get(part), classes)
    reasons += _fewer("test images", found_images.get(part), images)
    return reasons


def why_not_seeds(seeds: Sequence[int]) -> list[str]:
    """Returns how the seeds differ from the paper's 1, 2, 3."""
    if tuple(sorted(seeds)) == paper.SEEDS:
        return []
    found = ", ".join(map(str, sorted(seeds))) or "none"
    return [f"the seeds are {found}, not 1, 2, 3"]


def _fewer(what: str, found: Any, published: int) -> list[str]:
    if found == published:
        return []
    if found is None:
        return [f"the number of {what} was not recorded"]
    return [f"{found:,} {what}, not {published:,}"]
