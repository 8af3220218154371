"""How our setting differs from the paper's; where it does not, its numbers stand beside ours."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Any

from ipl.bench import paper_numbers as paper
from ipl.bench.arms import ZERO_SHOT
from ipl.bench.protocols import find_protocol
from ipl.bench.protocols.protocol import Values
from ipl.bench.records import RunRecord
from ipl.bench.run import BUNDLED, Run
from ipl.config import CHOSEN, FRESH, PAPER, FitConfig
from ipl.datasets.benchmarks import teacher_template_of
from ipl.support.errors import IplError

ARCHITECTURE = "clip, text 12 x 512, image 12 x 768, patches of 16 in 224, quick_gelu, 512 features"
NOT_TESTED = "the paper does not test on"
# As good as the paper's own value: k found as the paper finds it, the precision that CLIP's frozen
# towers had in the published runs, and the search that finds the same words.
ALSO_PUBLISHED = {"words": PAPER, "precision": "fp16", "search": "exhaustive"}


def published_settings(run: RunRecord) -> dict[str, Any]:
    """The paper's value of each setting that a run's record holds; {} if not known."""
    return _published(run.protocol, run.dataset, run.learner, run.shots, run.words != 0)


@cache
def _published(
    protocol: str, dataset: str, learner: str, shots: int, with_words: bool
) -> dict[str, Any]:
    if learner == ZERO_SHOT:
        return {"precision": FitConfig.precision}
    values = {**paper.PAPER_SETTINGS, "learner": learner, "views": FRESH}
    values["words"] = paper.WORDS.get(dataset, PAPER) if with_words else 0
    values["lambda_"] = paper.LAMBDA.get(dataset)
    values["class_template"] = teacher_template_of(dataset)
    values["protocol"] = find_protocol(protocol).recipe_protocol
    values |= paper.schedule(protocol, dataset, learner, shots, with_words)
    try:
        run = Run(protocol, dataset, (), learner, FitConfig(**values), BUNDLED)
    except IplError:  # such a learner is not known
        return {}
    own = {"words": run.words, "shots": paper.SHOTS, "precision": run.config.precision}
    return run.settings | own


def setting_differences(run: RunRecord) -> list[str]:
    """How a run's settings differ from the paper's, a few words each."""
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
            value, expected = config.get(name), published.get(name)
            allowed = dict.fromkeys([ALSO_PUBLISHED.get(name, expected), expected])
            if value not in list(allowed):  # 1.0 is 1
                texts = f"not {' or '.join(map(_text, allowed))}"
                texts = texts if allowed.keys() - {None} else "which the paper does not have"
                differences.append(f"{name.rstrip('_')} is {_text(value)}, {texts}")
    return differences


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def ablation_numbers(run: RunRecord, dataset: str, differences: Collection[str]) -> Values:
    """The paper's numbers of CoOp + IPL with another sentence or no penalty, if that is ours."""
    is_ablated = (run.protocol, run.learner, run.arm) == ("base-to-novel", "coop", CHOSEN)
    if not is_ablated or len(differences) != 1:
        return {}
    (difference,) = differences
    if difference.startswith("template is"):
        by_sentence = paper.templates().get(run.settings["template"], {})
        return {"hm": by_sentence[dataset]} if dataset in by_sentence else {}
    if difference.startswith("lambda is") and run.settings["lambda_"] == 0:
        return paper.without_penalty().get(dataset, {})
    return {}


def _backbone_differences(backbone: Mapping[str, Any]) -> list[str]:
    """A local copy counts if its architecture is the paper's; `about_weights` says so."""
    name, on_hub = backbone.get("name"), backbone.get("on_hub")
    is_copy = not on_hub and backbone.get("architecture") == ARCHITECTURE
    if is_copy or (name == paper.BACKBONE and on_hub is not False):
        return []
    return [f"the backbone is {name}, not CLIP ViT-B/16"]


def about_weights(backbone: Mapping[str, Any]) -> str:
    """What was compared of a backbone that counts as the paper's."""
    compared = "name" if backbone.get("name") == paper.BACKBONE else "architecture"
    if backbone.get("weights_checked"):
        compared += " and by the hash of its weights, which was given"
    else:
        compared += "; its weights were not compared"
    return f"{backbone.get('name')} counts as the paper's backbone by its {compared}."


def data_differences(run: RunRecord, dataset: str) -> list[str]:
    """How the classes and test images of a dataset differ from the published ones."""
    if dataset not in paper.SIZES:
        return [f"{NOT_TESTED} {dataset}"]
    tests = run.rules.test_names(dataset)
    classes, images = paper.SIZES[dataset]
    counts = [("classes", tests, classes), ("test_images", tests, images)]
    if run.rules.has_source and dataset != run.dataset == paper.SOURCE:
        counts.append(("classes", (paper.SOURCE,), paper.SIZES[paper.SOURCE][0]))
    differences = []
    for what, names, published in counts:
        count = sum(run.data.get(what, {}).get(name, 0) for name in names)
        if count != published:
            of_source = f" of {paper.SOURCE}" if names == (paper.SOURCE,) != tests else ""
            noun = what.replace("_", " ") + of_source
            differences.append(f"{count:,} {noun}, not {published:,}")
    return differences


def seed_differences(seeds: Sequence[int]) -> list[str]:
    """How the seeds differ from the paper's 1, 2, 3."""
    if tuple(sorted(seeds)) == paper.SEEDS:
        return []
    ours = ", ".join(map(str, sorted(seeds)))
    return [f"the {'seed is' if len(seeds) == 1 else 'seeds are'} {ours}, not 1, 2, 3"]
