"""A run: one learner with its words and seed on one dataset, and the runs of a plan."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import Any

from ipl.bench.plan import ZERO_SHOT, Plan
from ipl.config import FitConfig, hyperparameter_names, settings
from ipl.config_fields import DATA, MODEL
from ipl.datasets.benchmarks import teacher_template_of, template_of
from ipl.learners.hyperparameters import Hyperparameters
from ipl.support.errors import DataError
from ipl.words.pool import Pool

# Published numbers that hold for one dataset: (dataset, learner) without words.
PUBLISHED_EPOCHS = {("imagenet", "coop"): 50}

# The settings that version 0.1.0 recorded, in its order; this never changes. A setting that was
# added later is recorded where it is not at its default, so that the ids of earlier runs stay.
RECORDED_IN_0_1_0 = (
    *("epochs", "interval", "batch", "lr", "m", "depth", "average_mean", "average_std"),
    *("views", "class_template", "lambda_", "preset", "word_embedding", "template"),
    *("placeholder", "search"),
)
POOL = "pool"  # in a record: `words_file` and `no_names`, with a hash of the words
# Fields of FitConfig that have a place of their own in a record, or follow from what is there.
RECORDED_APART = frozenset(
    {"learner", "words", "seed", "shots", "backbone", "precision", "protocol"}
    | {"shortlist", "words_file", "no_names"}
)


@dataclass(frozen=True)
class Run:
    """One configuration on one dataset.

    Parameters
    ----------
    protocol : str
        The name of the protocol.
    dataset : str
        The dataset that is trained on.
    targets : tuple of str
        The datasets that are also tested, with their own class names.
    learner : str
        The learner, or `zero-shot`, which trains nothing.
    config : FitConfig
        Everything else that decides the result, with the learner, words, seed and class template
        of this run. Of zero-shot only what concerns the data and the backbone matters.
    pool_sha256 : str
        The SHA-256 of the words to choose from; empty without words.
    """

    protocol: str
    dataset: str
    targets: tuple[str, ...]
    learner: str
    config: FitConfig
    pool_sha256: str = ""

    @property
    def words(self) -> int | str:
        """Returns the number of words, or auto."""
        return self.config.words

    @property
    def seed(self) -> int:
        """Returns the seed."""
        return self.config.seed

    @property
    def shots(self) -> int:
        """Returns the training images per class."""
        return self.config.shots

    @property
    def backbone(self) -> str:
        """Returns the name of the backbone."""
        return self.config.backbone

    @property
    def precision(self) -> str:
        """Returns the precision of the backbone."""
        return self.config.precision

    @cached_property
    def id(self) -> str:
        """Returns a readable name that ends in eight hex digits of a hash of all values."""
        values = self.as_values()
        # The order of targets and the path of a list of words change no result.
        values["targets"] = sorted(self.targets)
        if POOL in self.settings:
            pool = {**self.settings[POOL], "words_file": None}
            values["settings"] = {**self.settings, POOL: pool}
        text = json.dumps(values, sort_keys=True)
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

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Returns the settings in force as a record has them: without words, none about words."""
        if self.learner == ZERO_SHOT:
            return {"templates": {n: template_of(n) for n in (self.dataset, *self.targets)}}
        config = self.config
        values = {name: getattr(config, name) for name in _recorded_fields()}
        values |= vars(config.hyperparameters)
        names = [*RECORDED_IN_0_1_0, *(name for name in values if name not in RECORDED_IN_0_1_0)]
        recorded = {
            name: values[name]
            for name in names
            if name in RECORDED_IN_0_1_0 or values[name] != _default(name)
        }
        if not config.words:
            return {k: v for k, v in recorded.items() if k not in settings_about_words()}
        if config.search == "screen":
            recorded["shortlist"] = config.shortlist
        recorded[POOL] = {
            "words_file": config.words_file,
            "sha256": self.pool_sha256,
            "no_names": config.no_names,
        }
        return recorded

    def as_values(self) -> dict[str, Any]:
        """Returns what a record says of the run before it is done, as plain values."""
        return {
            "protocol": self.protocol,
            "dataset": self.dataset,
            "targets": list(self.targets),
            "learner": self.learner,
            "words": self.words,
            "seed": self.seed,
            "shots": self.shots,
            "backbone": self.backbone,
            "precision": self.precision,
            "settings": self.settings,
        }

    def as_dict(self) -> dict[str, Any]:
        """Returns everything as plain values that `from_dict` takes."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return {**values, "targets": list(self.targets), "config": self.config.as_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Run:
        """Returns the run that `as_dict` gave.

        Raises
        ------
        ConfigError
            If the config is not allowed here, for example with a learner that is not installed.
        """
        config = FitConfig.from_dict(values["config"])
        return cls(**{**values, "targets": tuple(values["targets"]), "config": config})


@cache
def settings_about_words() -> frozenset[str]:
    """Returns the settings in a record that a prompt without words does not depend on."""
    return frozenset([POOL, *(s.name for s in settings() if s.option.concerns_words)])


@cache
def added_settings() -> Mapping[str, Any]:
    """Returns the settings that version 0.1.0 did not have, with their defaults."""
    names = [*_recorded_fields(), *(entry.name for entry in fields(Hyperparameters))]
    return {name: _default(name) for name in names if name not in RECORDED_IN_0_1_0}


@cache
def _recorded_fields() -> tuple[str, ...]:
    """Returns the fields of FitConfig that stand among a record's settings as they are."""
    apart = RECORDED_APART.union(hyperparameter_names())
    return tuple(s.name for s in settings() if s.changes_result and s.name not in apart)


@cache
def _default(name: str) -> Any:
    """Returns the default of a number of a recipe or of a field of FitConfig."""
    defaults = {setting.name: setting.default for setting in settings()}
    defaults |= {e.name: e.default for e in fields(Hyperparameters) if e.default is not MISSING}
    return defaults.get(name)


def titles_of(runs: Sequence[Run]) -> dict[str, str]:
    """Returns a title for each run by its id; equal titles get the settings that differ."""
    by_title: dict[str, list[Run]] = {}
    for run in runs:
        by_title.setdefault(run.title, []).append(run)
    titles = {}
    for title, group in by_title.items():
        values = {run.id: {"shots": run.shots, **run.settings} for run in group}
        names = sorted({name for settings_of_run in values.values() for name in settings_of_run})
        varied = [n for n in names if len({str(v.get(n)) for v in values.values()}) > 1]
        for run in group:
            parts = [f"{name.rstrip('_')} {values[run.id].get(name)}" for name in varied]
            titles[run.id] = ", ".join([title, *parts])
    return titles


def expand(plan: Plan) -> tuple[Run, ...]:
    """Returns the runs of a plan, those of one dataset together.

    Raises
    ------
    ConfigError, DataError
        If the settings of a run contradict each other, or its list of words cannot be read.
    """
    datasets = plan.datasets if plan.source is None else (plan.source,)
    targets = () if plan.source is None else plan.datasets
    sha256 = _pool_sha256(plan.config.words_file)
    runs = []
    for dataset in datasets:
        for seed in plan.seeds:
            for learner in plan.learners:
                if learner == ZERO_SHOT:
                    if seed == plan.seeds[0]:  # nothing is drawn, so one seed is enough
                        config = _zero_shot_config(plan, seed)
                        runs.append(Run(plan.protocol, dataset, targets, learner, config))
                    continue
                for shots, words in product(plan.shots, plan.words):
                    config = _run_config(plan, dataset, learner, words)
                    config = replace(config, shots=shots, seed=seed)
                    pool = sha256 if words else ""
                    runs.append(Run(plan.protocol, dataset, targets, learner, config, pool))
    return tuple(runs)


def _run_config(plan: Plan, dataset: str, learner: str, words: int | str) -> FitConfig:
    """Returns the plan's config with what is one run's; without words, none about words."""
    changes: dict[str, Any] = {
        "class_template": teacher_template_of(dataset),
        "protocol": plan.rules.recipe_protocol,
    }
    if not words:
        changes |= {s.name: s.default for s in settings() if s.option.concerns_words}
        if plan.config.epochs is None:
            changes["epochs"] = PUBLISHED_EPOCHS.get((dataset, learner))
    return replace(plan.config, learner=learner, words=words, **changes)


def _zero_shot_config(plan: Plan, seed: int) -> FitConfig:
    """Returns a config with what zero-shot depends on: the data and the backbone."""
    names = [s.name for s in settings() if s.option.part in (DATA, MODEL)]
    values = {name: getattr(plan.config, name) for name in names}
    return FitConfig(**{**values, "words": 0, "shots": plan.shots[0], "seed": seed})


def _pool_sha256(words_file: str | None) -> str:
    """Returns what tells one list of words from another: a hash of it."""
    if words_file is None:
        return Pool.bundled().sha256
    try:
        return hashlib.sha256(Path(words_file).read_bytes()).hexdigest()
    except OSError as error:
        raise DataError(f"The word list {words_file} cannot be read: {error.strerror}.") from None
