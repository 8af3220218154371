"""A run: one learner with its words and seed on one dataset."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from typing import Any

from ipl.bench.arms import LINEAR_PROBE, SEARCHED, UNTRAINED, WORDS_ONLY, ZERO_SHOT, arm_of
from ipl.bench.protocols import find_protocol
from ipl.bench.protocols.protocol import Protocol
from ipl.config import (
    AUTO,
    EMPTY,
    GIVEN,
    PLAIN,
    RANDOM,
    WORDS,
    FitConfig,
    fit_settings,
)
from ipl.datasets.benchmarks import template_of
from ipl.learners.hyperparameters import Hyperparameters
from ipl.learners.registry import learner_class

POOL = "pool"  # in a record, in place of `words_file` and `pool_part`
BUNDLED = "bundled"  # the pool of words in the package
# Fields of FitConfig that have a place of their own in a record, or follow from what is there.
RECORDED_APART = frozenset(
    {"learner", "words", "seed", "shots", "backbone", "precision", "protocol"}
    | {"words_file", "pool_part"}
)


@dataclass(frozen=True)
class Run:
    """One configuration on one dataset."""

    protocol: str
    dataset: str  # that is trained on
    targets: tuple[str, ...]  # that are also tested, with their own class names
    learner: str  # or an arm that has none
    # Of an arm without a learner only what concerns the data, the backbone and its words matters.
    config: FitConfig
    pool: str = ""  # the words to choose from; empty without a search

    @property
    def rules(self) -> Protocol:
        return find_protocol(self.protocol)

    @property
    def arm(self) -> str:
        return arm_of(self.learner, self.config.arm)

    @property
    def searches(self) -> bool:
        """Whether the run depends on a search for words."""
        return depends_on_search(self.arm, self.words)

    @property
    def words(self) -> int | str:
        return self.config.words

    @property
    def seed(self) -> int:
        return self.config.seed

    @property
    def shots(self) -> int:
        assert self.config.shots is not None  # a plan names them
        return self.config.shots

    @cached_property
    def id(self) -> str:
        """A readable name that ends in eight hex digits of a hash of all values."""
        # The order of targets changes no result.
        return f"{self.name}-{_digest({**self.as_values(), 'targets': sorted(self.targets)})}"

    @cached_property
    def training(self) -> str:
        """The id of the training, which runs share that test prompts of one source."""
        return training_id(self.id, self.arm, self.as_values())

    @property
    def name(self) -> str:
        words = f"{self.words}w" if isinstance(self.words, int) else self.words
        if self.arm in (EMPTY, GIVEN):
            words += f"-{self.arm}"
        elif self.arm == RANDOM:
            words += f"-{self.arm}{self.config.random_words}"
        return f"{self.dataset.replace('/', '-')}-{self.learner}-{words}-seed{self.seed}"

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The settings in force as a record has them: none that make no difference."""
        if self.arm == ZERO_SHOT:
            return {"templates": {n: template_of(n) for n in (self.dataset, *self.targets)}}
        values = self.config.as_dict() | vars(self.config.hyperparameters)
        values["lambda_"] = self.config.objective.lambda_
        values[POOL] = self.pool
        names = settings_in_force(self.arm, self.words)
        return {name: value for name, value in values.items() if name in names}

    def as_values(self) -> dict[str, Any]:
        """What a record says of the run before it is done, as plain values."""
        return {
            "protocol": self.protocol,
            "dataset": self.dataset,
            "targets": list(self.targets),
            "learner": self.learner,
            "words": self.words,
            "seed": self.seed,
            "shots": self.shots,
            "backbone": self.config.backbone,
            "precision": self.config.precision,
            "settings": self.settings,
        }


def training_id(run_id: str, arm: str, values: Mapping[str, Any]) -> str:
    """The id of the training of a run with these values, as `Run.as_values` has them."""
    if not values["targets"] or arm in UNTRAINED:
        return run_id
    name, _, _ = run_id.rpartition("-")
    return f"{name}-{_digest({**values, 'protocol': None, 'targets': None})}"


def _digest(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]


def depends_on_search(arm: str, words: int | str) -> bool:
    """Whether a run of this arm depends on a search for words."""
    return arm in SEARCHED or (arm == EMPTY and words == AUTO)


@cache
def settings_in_force(arm: str, words: int | str) -> frozenset[str]:
    """The settings in a record that the result of a run of this arm depends on."""
    if arm in (ZERO_SHOT, LINEAR_PROBE):
        return frozenset()
    fit = {setting.name for setting in fit_settings() if setting.changes_result}
    names = (fit - RECORDED_APART) | {POOL} | {entry.name for entry in fields(Hyperparameters)}
    if arm == WORDS_ONLY:
        names &= settings_about_search()
    elif arm == PLAIN:
        names -= {POOL, *(setting.name for setting in fit_settings() if setting.concerns_words)}
    elif not depends_on_search(arm, words):
        names -= settings_about_search()
    return frozenset(names)


@cache
def settings_about_search() -> frozenset[str]:
    """The settings in a record that decide which words a search chooses."""
    return frozenset([POOL, *(setting.name for setting in fit_settings(WORDS))])


def titles_of(runs: Sequence[Run]) -> dict[str, str]:
    """The id of each run, and the settings that differ between runs of the same name."""
    by_name: dict[str, list[Run]] = {}
    for run in runs:
        by_name.setdefault(run.name, []).append(run)
    titles = {}
    for group in by_name.values():
        values = [{"protocol": run.protocol, "shots": run.shots, **run.settings} for run in group]
        varied = varying(values)
        for run, own in zip(group, values, strict=True):
            parts = [f"{name.rstrip('_')} {own.get(name)}" for name in varied]
            titles[run.id] = ", ".join([run.id, *parts])
    return titles


def varying(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings that are not the same in all of these configs."""
    names = dict.fromkeys(name for config in configs for name in config)
    return [name for name in names if len({canonical(c.get(name)) for c in configs}) > 1]


def canonical(value: Any) -> str:
    """A text that is equal for equal values, numbers being equal across types."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, sort_keys=True, default=str)


def prompts_images(runs: Iterable[Run]) -> bool:
    """Whether a learner of these runs has prompts in the image tower."""
    learners = {run.learner for run in runs if run.learner not in UNTRAINED}
    return any(learner_class(learner).prompts_images for learner in learners)
