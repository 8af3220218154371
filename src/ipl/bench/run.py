"""A run: one learner with its words and seed on one dataset, and all that a plan makes of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ipl.bench.plan import BASE_TO_NOVEL, CROSS_DATASET, RECIPE, ZERO_SHOT, Plan
from ipl.classifier import PromptClassifier
from ipl.datasets.benchmarks import teacher_template_of, template_of
from ipl.learners.registry import learner_class
from ipl.support.errors import DataError
from ipl.words.modes import Search
from ipl.words.pool import Pool

# Published numbers that hold for one dataset: (dataset, learner) without words.
PUBLISHED_EPOCHS = {("imagenet", "coop"): 50}


@dataclass(frozen=True)
class Run:
    """One configuration, with every setting that has an effect on its result."""

    protocol: str
    dataset: str  # learnt from
    targets: tuple[str, ...]  # also tested on, with their own class names
    learner: str
    words: int | str
    seed: int
    shots: int
    backbone: str
    precision: str
    settings: Mapping[str, Any]  # plain values

    @property
    def id(self) -> str:
        """Returns a name that tells what it is, with eight hex digits of all of it."""
        text = json.dumps(self._identity(), sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        words = f"{self.words}w" if isinstance(self.words, int) else self.words
        dataset = self.dataset.replace("/", "-")
        return f"{dataset}-{self.learner}-{words}-seed{self.seed}-{digest}"

    @property
    def title(self) -> str:
        """Returns a short line for people."""
        if self.learner == ZERO_SHOT:
            return f"{self.dataset}, {ZERO_SHOT}"
        words = "1 word" if self.words == 1 else f"{self.words} words"
        words = {"0 words": "no words", "auto words": "words auto"}.get(words, words)
        return f"{self.dataset}, {self.learner}, {words}, seed {self.seed}"

    @property
    def recipe_protocol(self) -> str:
        """Returns the protocol whose published numbers the learner trains with."""
        return BASE_TO_NOVEL if self.protocol == BASE_TO_NOVEL else CROSS_DATASET

    def as_dict(self) -> dict[str, Any]:
        """Returns everything as plain values for JSON."""
        return {**asdict(self), "targets": list(self.targets)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Run:
        """Returns the run that as_dict() gave."""
        return cls(**{**values, "targets": tuple(values["targets"])})

    def classifier(self, **where: Any) -> PromptClassifier:
        """Returns the untrained classifier; `where` says on what backbone, with what reporter."""
        settings = {k: v for k, v in self.settings.items() if k in RECIPE}
        for name in ("lambda_", "preset", "word_embedding", "template", "placeholder", "views"):
            if name in self.settings:
                settings[name] = self.settings[name]
        if "search" in self.settings:
            settings["search"] = Search(
                self.settings["search"], self.settings.get("shortlist", Search.shortlist)
            )
        return PromptClassifier(
            learner=self.learner,
            words=self.words,
            shots=self.shots,
            seed=self.seed,
            protocol=self.recipe_protocol,
            class_template=self.settings["class_template"],
            **settings,
            **where,
        )

    def _identity(self) -> dict[str, Any]:
        # The order of targets and the place of a list of words change no result.
        settings = dict(self.settings)
        if "pool" in settings:
            settings["pool"] = {**settings["pool"], "words_file": None}
        return {**self.as_dict(), "targets": sorted(self.targets), "settings": settings}


def titles_of(runs: Sequence[Run]) -> dict[str, str]:
    """Returns a title for each run by its id; those that would be the same say what differs."""
    alike: dict[str, list[Run]] = {}
    for run in runs:
        alike.setdefault(run.title, []).append(run)
    titles = {}
    for title, group in alike.items():
        names = {name for run in group for name in run.settings}
        told = [n for n in sorted(names) if len({str(r.settings.get(n)) for r in group}) > 1]
        for run in group:
            differs = [f"{name.rstrip('_')} {run.settings.get(name)}" for name in told]
            titles[run.id] = ", ".join([title, *differs])
    return titles


def expand(plan: Plan) -> tuple[Run, ...]:
    """Returns the runs of a plan, those of one dataset together; what cannot be is said here."""
    sources = plan.datasets if plan.source is None else (plan.source,)
    targets = () if plan.source is None else plan.datasets
    pool = _pool(plan)
    runs = []
    for dataset in sources:
        for seed in plan.seeds:
            for learner in plan.learners:
                once = learner == ZERO_SHOT
                if once and seed != plan.seeds[0]:
                    continue  # nothing is drawn, so another seed would say the same again
                for words in (0,) if once else plan.words:
                    run = Run(
                        plan.protocol,
                        dataset,
                        targets,
                        learner,
                        words,
                        seed,
                        plan.shots,
                        plan.backbone,
                        plan.precision,
                        _settings(plan, dataset, learner, words, pool),
                    )
                    if not once:
                        run.classifier()  # raises what is wrong with its settings
                    runs.append(run)
    return tuple(runs)


def _settings(
    plan: Plan, dataset: str, learner: str, words: int | str, pool: dict[str, Any]
) -> dict[str, Any]:
    """Returns the settings in force: without words, none of those that concern words."""
    if learner == ZERO_SHOT:
        names = plan.datasets if plan.source is not None else ()
        return {"templates": {name: template_of(name) for name in (dataset, *names)}}
    k = words if isinstance(words, int) else 1
    protocol = BASE_TO_NOVEL if plan.source is None else CROSS_DATASET
    given = {name: getattr(plan, name) for name in RECIPE}
    if given["epochs"] is None and not words:
        given["epochs"] = PUBLISHED_EPOCHS.get((dataset, learner))
    recipe = learner_class(learner).recipe(k, protocol).override(**given)
    settings: dict[str, Any] = {
        **vars(recipe),
        "views": plan.views,
        "class_template": teacher_template_of(dataset),
    }
    if not words:
        del settings["interval"]
        return settings
    for name in ("lambda_", "preset", "word_embedding", "template", "placeholder", "search"):
        settings[name] = getattr(plan, name)
    if plan.search == "screen":
        settings["shortlist"] = plan.shortlist
    return {**settings, "pool": pool}


def _pool(plan: Plan) -> dict[str, Any]:
    """Returns what tells one list of candidates from another: a hash of the words."""
    if plan.words_file is None:
        sha256 = Pool.bundled().sha256
    else:
        try:
            sha256 = hashlib.sha256(Path(plan.words_file).read_bytes()).hexdigest()
        except OSError as error:
            raise DataError(
                f"The word list {plan.words_file} cannot be read: {error.strerror}."
            ) from None
    return {"words_file": plan.words_file, "sha256": sha256, "no_names": plan.no_names}
