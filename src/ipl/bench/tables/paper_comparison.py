"""How our setting differs from the paper's; where it does not, its numbers stand beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipl.bench.arms import ZERO_SHOT
from ipl.bench.protocols.protocol import recorded_count
from ipl.bench.records import BUNDLED, RecordedBackbone, RunRecord
from ipl.bench.run import (
    POOL,
    PUBLISHED_EPOCHS,
    settings_in_force,
)
from ipl.bench.tables import paper
from ipl.config import FRESH, PAPER, settings
from ipl.datasets.benchmarks import teacher_template_of
from ipl.learners.registry import learner_class
from ipl.support.errors import IplError

NOT_TESTED = "the paper does not test on"
# As good as the paper's own value: k found as the paper finds it, the precision that CLIP's frozen
# towers had in the published runs, and the search that finds the same words.
ALSO_PUBLISHED = {"words": PAPER, "precision": "fp16", "search": "exhaustive"}


def published_settings(run: RunRecord) -> dict[str, Any]:
    """Returns the paper's value of each setting that a run's record holds; {} if not known.

    A setting whose published value is not named here has its default.
    """
    values: dict[str, Any] = {"precision": _defaults()["precision"]}
    if run.learner == ZERO_SHOT:
        return values
    try:
        kind = learner_class(run.learner)
    except IplError:
        return {}
    recipe = kind.hyperparameters(1 if run.with_words else 0, run.rules.recipe_protocol)
    values |= _defaults() | vars(recipe) | {"views": FRESH, POOL: BUNDLED}
    values["class_template"] = teacher_template_of(run.dataset)
    values["lambda_"] = paper.LAMBDA.get(run.dataset, 0.1)
    if not run.with_words:
        values["epochs"] = PUBLISHED_EPOCHS.get((run.dataset, run.learner), recipe.epochs)
    names = settings_in_force(run.arm, run.words)
    values = {name: value for name, value in values.items() if name in names | {"precision"}}
    words = paper.WORDS.get(run.dataset, PAPER) if run.with_words else 0
    return {**values, "words": words, "shots": paper.SHOTS}


def setting_differences(run: RunRecord) -> list[str]:
    """Returns how a run's settings differ from the paper's, a few words each."""
    differences = []
    if run.rules.has_source and run.dataset != paper.SOURCE:
        differences.append(f"the paper's source is {paper.SOURCE}, not {run.dataset}")
    differences += _backbone_differences(run.backbone)
    published = published_settings(run)
    if not published:
        return [*differences, f"the paper has no learner {run.learner}"]
    config = run.config()
    for name in dict.fromkeys([*published, *config]):
        if name not in ("backbone", "weights"):
            expected = published.get(name, _defaults().get(name))
            differences += _setting_difference(name, config.get(name), expected)
    return differences


def _setting_difference(name: str, value: Any, expected: Any) -> list[str]:
    if value == expected or (value is not None and value == ALSO_PUBLISHED.get(name)):
        return []
    title = name.rstrip("_")
    if value is None:
        return [f"{title} was not recorded"]
    if expected is None:
        return [f"{title} is {value}, which the paper does not have"]
    allowed = dict.fromkeys([ALSO_PUBLISHED.get(name, expected), expected])
    return [f"{title} is {value}, not {' or '.join(map(str, allowed))}"]


def _backbone_differences(backbone: RecordedBackbone) -> list[str]:
    """Returns whether the weights may be others; the hash of the published ones is not known."""
    name, on_hub = str(backbone.get("name")), backbone.get("on_hub")
    if not name.rstrip("/").lower().endswith(paper.BACKBONE.rpartition("/")[2]):
        return [f"the backbone is {name}, not CLIP ViT-B/16"]
    if name != paper.BACKBONE or on_hub is False:  # None: a record that does not say it
        place = name if on_hub else f"the folder {name}"
        return [
            f"the weights are those of {place}, and whether they are the published ones was not "
            "checked"
        ]
    return [] if backbone.get("weights_sha256") else ["the hash of the weights was not recorded"]


def data_differences(run: RunRecord, dataset: str) -> list[str]:
    """Returns how the classes and test images of a dataset differ from the published ones."""
    if dataset not in paper.SIZES:
        return [f"{NOT_TESTED} {dataset}"]
    sizes = run.rules.sizes(run.data, dataset)
    if run.rules.has_source and dataset != run.dataset == paper.SOURCE:
        trained = recorded_count(run.data, "classes", paper.SOURCE)
        sizes.append((f"classes of {paper.SOURCE}", trained, paper.SIZES[paper.SOURCE][0]))
    return [text for size in sizes for text in _count_difference(*size)]


def seed_differences(seeds: Sequence[int]) -> list[str]:
    """Returns how the seeds differ from the paper's 1, 2, 3."""
    if tuple(sorted(seeds)) == paper.SEEDS:
        return []
    ours = ", ".join(map(str, sorted(seeds)))
    return [f"the {'seed is' if len(seeds) == 1 else 'seeds are'} {ours}, not 1, 2, 3"]


def _count_difference(noun: str, count: Any, published: int) -> list[str]:
    if count == published:
        return []
    if count is None:
        return [f"the number of {noun} was not recorded"]
    return [f"{count:,} {noun}, not {published:,}"]


def _defaults() -> dict[str, Any]:
    return {setting.name: setting.default for setting in settings()}
