"""A run: one learner with its words and seed on one dataset, and the runs of a plan."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from ipl.bench.arms import (
    LINEAR_PROBE,
    SEARCHED,
    UNTRAINED,
    WORDS_ONLY,
    ZERO_SHOT,
    arm_of,
)
from ipl.bench.plan import Plan, shared_settings
from ipl.bench.protocols.protocol import Protocol
from ipl.bench.protocols.registry import find_protocol
from ipl.config import (
    AUTO,
    CHOSEN,
    EMPTY,
    GIVEN,
    PAPER,
    PLAIN,
    RANDOM,
    FitConfig,
    hyperparameter_names,
    settings,
)
from ipl.config_fields import DATA, MODEL, TRAINING, WORDS, Setting
from ipl.datasets.benchmarks import teacher_template_of, template_of
from ipl.display.formatting import several
from ipl.learners.hyperparameters import Hyperparameters
from ipl.learners.registry import learner_class
from ipl.support.errors import ConfigError, DataError
from ipl.words.pool import Pool

# Published numbers that hold for one dataset: (dataset, learner) without words.
PUBLISHED_EPOCHS = {("imagenet", "coop"): 50}

POOL = "pool"  # in a record: `words_file` and `no_names`, with a hash of the words
# Fields of FitConfig that have a place of their own in a record, or follow from what is there.
RECORDED_APART = frozenset(
    {"learner", "words", "seed", "shots", "backbone", "precision", "protocol"}
    | {"words_file", "no_names"}
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
        The learner, or an arm that has none.
    config : FitConfig
        Everything else that decides the result, with the learner, words, seed and class template
        of this run. Of an arm without a learner only what concerns the data, the backbone and, if
        it has words, their choice matters.
    pool_sha256 : str
        The SHA-256 of the words to choose from; empty without a search.
    """

    protocol: str
    dataset: str
    targets: tuple[str, ...]
    learner: str
    config: FitConfig
    pool_sha256: str = ""

    @property
    def rules(self) -> Protocol:
        """Returns the protocol."""
        return find_protocol(self.protocol)

    @property
    def arm(self) -> str:
        """Returns the arm, a key of `ARMS`."""
        return arm_of(self.learner, self.config.arm)

    @property
    def searches(self) -> bool:
        """Returns whether the run depends on a search for words."""
        return depends_on_search(self.arm, self.words)

    @property
    def words(self) -> int | str:
        """Returns the number of words, auto or paper."""
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
        if self.arm in (EMPTY, GIVEN):
            words += f"-{self.arm}"
        elif self.arm == RANDOM:
            words += f"-{self.arm}{self.config.random_words}"
        dataset = self.dataset.replace("/", "-")
        return f"{dataset}-{self.learner}-{words}-seed{self.seed}-{digest}"

    @property
    def title(self) -> str:
        """Returns a short line for people."""
        if self.arm == ZERO_SHOT:
            return f"{self.dataset}, {ZERO_SHOT}"
        parts = [self.dataset, self.learner]
        if self.arm != LINEAR_PROBE:
            parts.append(self._words_title)
        return ", ".join([*parts, f"seed {self.seed}"])

    @property
    def _words_title(self) -> str:
        if self.words == 0:
            return "no words"
        if self.arm == GIVEN:
            return f"given words ({self.config.words_given})"
        noun = "slot" if self.arm == EMPTY else "word"
        if isinstance(self.words, str):
            return f"{noun}s {self.words}" if self.arm != RANDOM else f"random words {self.words}"
        kind = f"{self.arm} " if self.arm in (EMPTY, RANDOM) else ""
        draw = f" (draw {self.config.random_words})" if self.arm == RANDOM else ""
        return f"{self.words} {kind}{noun}{'' if self.words == 1 else 's'}{draw}"

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Returns the settings in force as a record has them: none that make no difference."""
        if self.arm == ZERO_SHOT:
            return {"templates": {n: template_of(n) for n in (self.dataset, *self.targets)}}
        if self.arm == LINEAR_PROBE:
            return {}
        config = self.config
        values = {name: getattr(config, name) for name in _recorded_fields()}
        values |= vars(config.hyperparameters)
        values[POOL] = {
            "words_file": config.words_file,
            "sha256": self.pool_sha256,
            "no_names": config.no_names,
        }
        names = settings_in_force(self.arm, self.words)
        return {name: value for name, value in values.items() if name in names}

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


def depends_on_search(arm: str, words: int | str) -> bool:
    """Returns whether a run of this arm depends on a search for words."""
    return arm in SEARCHED or (arm == EMPTY and words == AUTO)


def settings_in_force(arm: str, words: int | str) -> frozenset[str]:
    """Returns the settings in a record that the result of a run of this arm depends on."""
    if arm in (ZERO_SHOT, LINEAR_PROBE):
        return frozenset()
    names = recorded_settings()
    if arm == WORDS_ONLY:
        return names & settings_about_search()
    if arm == PLAIN:
        return names - settings_about_words()
    return names if depends_on_search(arm, words) else names - settings_about_search()


@cache
def recorded_settings() -> frozenset[str]:
    """Returns every setting that a record of a trained prompt may have."""
    return frozenset([*_recorded_fields(), *_hyperparameters(), POOL])


@cache
def settings_about_words() -> frozenset[str]:
    """Returns the settings in a record that a prompt without words does not depend on."""
    return frozenset([POOL, *(s.name for s in settings() if s.option.concerns_words)])


@cache
def settings_about_search() -> frozenset[str]:
    """Returns the settings in a record that decide which words a search chooses."""
    return frozenset([POOL, *(s.name for s in settings() if s.option.part == WORDS)])


def settings_without_effect(names: Iterable[str], runs: Sequence[Run]) -> list[Setting]:
    """Returns those of these settings of a plan that none of the runs depends on."""
    searches = any(run.searches for run in runs)
    trained = [run for run in runs if run.arm not in UNTRAINED]

    def has_effect(setting: Setting) -> bool:
        if setting.name in settings_about_search():
            return searches
        if setting.option.concerns_words:
            return any(run.arm != PLAIN for run in trained)
        return setting.option.part != TRAINING or bool(trained)

    given = {*names}
    return [s for s in shared_settings() if s.name in given and not has_effect(s)]


@cache
def _recorded_fields() -> tuple[str, ...]:
    """Returns the fields of FitConfig that stand among a record's settings as they are."""
    apart = RECORDED_APART.union(hyperparameter_names())
    return tuple(s.name for s in settings() if s.changes_result and s.name not in apart)


def _hyperparameters() -> tuple[str, ...]:
    return tuple(entry.name for entry in fields(Hyperparameters))


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
    runs: dict[str, Run] = {}  # 0 words make several arms the same
    for dataset in datasets:
        for seed in plan.seeds:
            for learner, config in _configs(plan, dataset, seed):
                run = Run(plan.protocol, dataset, targets, learner, config)
                run = replace(run, pool_sha256=sha256) if run.searches else run
                runs.setdefault(run.id, run)
    return tuple(runs.values())


def _configs(plan: Plan, dataset: str, seed: int) -> Iterator[tuple[str, FitConfig]]:
    """Yields the learner, or an arm without one, and the config of each run of a seed."""
    for shots in plan.shots:
        for arm in plan.arms:
            if arm == LINEAR_PROBE:
                yield arm, _untrained_config(plan, shots, seed, 0)
            elif arm == WORDS_ONLY:
                for words in _numbers(plan, dataset, arm):
                    yield arm, _untrained_config(plan, shots, seed, words)
    if ZERO_SHOT in plan.arms and seed == plan.seeds[0]:  # nothing is drawn: one seed is enough
        yield ZERO_SHOT, _untrained_config(plan, plan.shots[0], seed, 0)
    for learner in plan.learners:
        for shots in plan.shots:
            for arm in plan.arms:
                if arm not in UNTRAINED:
                    for config in _arm_configs(plan, dataset, learner, arm):
                        yield learner, replace(config, shots=shots, seed=seed)


def _arm_configs(plan: Plan, dataset: str, learner: str, arm: str) -> Iterator[FitConfig]:
    """Yields the configs of a learner's arm: one for each number of words and each draw."""
    if arm == GIVEN:
        if plan.given is None:
            raise ConfigError(
                f"The arm {GIVEN} has no words for {dataset}; give them with --given FILE, a line "
                f"`{dataset}: word, word` for each dataset (in a recipe, as `given`)."
            )
        words = len(plan.given.split(","))
        yield _run_config(plan, dataset, learner, words, words_given=plan.given)
        return
    numbers = (0,) if arm == PLAIN else _numbers(plan, dataset, arm)
    if arm == EMPTY and GIVEN in plan.arms and plan.given is not None:
        # Given words are compared with as many empty slots.
        numbers = tuple(dict.fromkeys([*numbers, len(plan.given.split(","))]))
    for number in numbers:
        if number and not _has_slots(learner, plan):
            raise ConfigError(
                f"The learner {learner} has no slots for words; it cannot have the arm {arm}."
            )
        if number and arm == EMPTY:
            yield _run_config(plan, dataset, learner, number, empty_slots=True)
        elif number and arm == RANDOM:
            for draw in range(1, plan.draws + 1):
                yield _run_config(plan, dataset, learner, number, random_words=draw)
        else:
            yield _run_config(plan, dataset, learner, number)


def prompts_images(runs: Iterable[Run]) -> bool:
    """Returns whether a learner of these runs has prompts in the image tower."""
    learners = {run.learner for run in runs if run.learner not in UNTRAINED}
    return any(learner_class(learner).prompts_images for learner in learners)


def _has_slots(learner: str, plan: Plan) -> bool:
    kind = learner_class(learner)
    m = kind.hyperparameters(1, plan.rules.recipe_protocol).m
    return kind.layout_for(1, m).slots == 1


def _numbers(plan: Plan, dataset: str, arm: str) -> tuple[int | str, ...]:
    """Returns the numbers of words of an arm; raises ConfigError if one is not possible."""
    for words in plan.words:
        if (words == PAPER and arm != CHOSEN) or (words == AUTO and arm in (WORDS_ONLY, GIVEN)):
            raise ConfigError(
                f"words is {words} for {dataset}; the arm {arm} needs a number, so that it is as "
                "long as the prompt it is compared with: --words 3, or --arms plain,words."
            )
    if not any(plan.words) and arm != CHOSEN:
        raise ConfigError(f"words is 0; the arm {arm} needs 1 or more.")
    if arm == RANDOM and plan.config.words_file is not None:
        size = len(_read_words(plan.config.words_file).split())
        most = max((words for words in plan.words if isinstance(words, int)), default=1)
        if size < 2 * most:
            raise ConfigError(
                f"words is {most}; {plan.config.words_file} has {several(size, 'word')}, and the "
                f"chosen words and as many random ones are {2 * most}."
            )
    return plan.words


def _run_config(
    plan: Plan, dataset: str, learner: str, words: int | str, **slots: Any
) -> FitConfig:
    """Returns the plan's config with what is one run's, and defaults where it depends on none."""
    changes: dict[str, Any] = {
        "class_template": teacher_template_of(dataset),
        "protocol": plan.rules.recipe_protocol,
    }
    if not words:
        changes |= {s.name: s.default for s in settings() if s.option.concerns_words}
        if plan.config.epochs is None:
            changes["epochs"] = PUBLISHED_EPOCHS.get((dataset, learner))
    elif "words_given" in slots or (
        "empty_slots" in slots and words != AUTO
    ):  # nothing is searched
        about_search = settings_about_search()
        changes |= {s.name: s.default for s in settings() if s.name in about_search}
    changes |= slots
    return replace(plan.config, **{**changes, "learner": learner, "words": words})


def _untrained_config(plan: Plan, shots: int, seed: int, words: int | str) -> FitConfig:
    """Returns a config with what an arm without a learner depends on."""
    parts = (DATA, MODEL, WORDS) if words else (DATA, MODEL)
    names = [s.name for s in settings() if s.option.part in parts]
    values = {name: getattr(plan.config, name) for name in names}
    # An interval of 1 leaves room for any number of words; nothing is trained.
    return FitConfig(**{**values, "words": words, "shots": shots, "seed": seed, "interval": 1})


def _pool_sha256(words_file: str | None) -> str:
    """Returns what tells one list of words from another: a hash of it."""
    if words_file is None:
        return Pool.bundled().sha256
    return hashlib.sha256(_read_words(words_file)).hexdigest()


def _read_words(words_file: str) -> bytes:
    try:
        return Path(words_file).read_bytes()
    except OSError as error:
        raise DataError(f"The word list {words_file} cannot be read: {error.strerror}.") from None
