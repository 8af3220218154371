"""A plan: which learners, arms, words, shots and seeds on which datasets, and its runs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ipl.bench.arms import (
    ARMS,
    DEFAULT_ARMS,
    LINEAR_PROBE,
    UNTRAINED,
    WITH_WORDS,
    WORDS_ONLY,
    ZERO_SHOT,
)
from ipl.bench.paper_numbers import BY_DATASET, PAPER_SETTINGS, schedule
from ipl.bench.protocols import find_protocol, known_protocols
from ipl.bench.protocols.protocol import Protocol
from ipl.bench.run import BUNDLED, Run
from ipl.config import (
    AUTO,
    CHOSEN,
    DATA,
    EMPTY,
    GIVEN,
    MODEL,
    PAPER,
    PLAIN,
    RANDOM,
    WORDS,
    FitConfig,
    Setting,
    checked_value,
    field_name,
    fit_settings,
    given_words,
)
from ipl.datasets.benchmarks import teacher_template_of
from ipl.learners.registry import learner_class
from ipl.support.errors import ConfigError, brief, closest
from ipl.support.files import read_text

_SETTINGS = {setting.name: setting for setting in fit_settings()}
# The settings that a plan has several values of.
LISTS = {
    "learners": _SETTINGS["learner"],
    "words": _SETTINGS["words"],
    "shots": _SETTINGS["shots"],
    "seeds": _SETTINGS["seed"],
}
# Those that follow from a run's dataset, arm or protocol.
OF_A_RUN = (
    *("held_out", "class_template", "head", "protocol"),
    *("words_given", "empty_slots", "random_words"),
)
# Those that a plan has one value of, for all its runs.
SHARED = {
    name: setting
    for name, setting in _SETTINGS.items()
    if setting.changes_result and name not in OF_A_RUN and setting not in LISTS.values()
}
DRAWS = replace(_SETTINGS["random_words"], name="draws", flag="--draws", optional=False, most=1000)


def _paper_config() -> FitConfig:
    """The defaults of a bench, which compares with published numbers, whatever a fit has."""
    return FitConfig(words=0, **PAPER_SETTINGS)


@dataclass(frozen=True)
class Plan:
    """Everything that decides what a grid of runs computes, but not where or how fast."""

    protocol: str
    datasets: tuple[str, ...]  # to train on and test, one by one; with a source, its targets
    arms: tuple[str, ...] = DEFAULT_ARMS  # without a learner, they are run once for all learners
    learners: tuple[str, ...] = ("coop",)
    words: tuple[int | str, ...] = (3,)  # or slots, in the arms that have them
    draws: int = 3  # of random words for each seed
    given: str | None = None  # the words of the arm `given`, with commas
    shots: tuple[int, ...] = ()  # empty for those of the protocol
    seeds: tuple[int, ...] = (1, 2, 3)
    source: str | None = None  # None for the protocol's own
    # All other settings. Learner, words, shots, seed, class template and protocol are each run's.
    config: FitConfig = field(default_factory=_paper_config)
    per_dataset: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # A setting and its values, one after the other; `paper` is the paper's for each dataset.
    vary: tuple[str, tuple[Any, ...]] | None = None

    def __post_init__(self) -> None:
        protocol = self.rules
        object.__setattr__(self, "shots", self.shots or protocol.default_shots)
        for name in ("datasets", "arms", *LISTS):
            if not getattr(self, name):
                raise ConfigError(f"{name} is empty; give at least one.")
        for arm in self.arms:
            if arm not in ARMS:
                raise ConfigError(
                    f"arms contains {arm!r}; allowed are {', '.join(ARMS)}.{closest(arm, ARMS)}"
                )
        if not any(arm in WITH_WORDS for arm in self.arms):
            object.__setattr__(self, "words", (0,))
        for learner in self.learners:
            if learner in UNTRAINED:
                raise ConfigError(
                    f"learners contains {learner!r}, which is an arm; name it among the arms."
                )
            learner_class(learner)
        if self.source is None:
            object.__setattr__(self, "source", protocol.default_source)
        elif not protocol.has_source:
            raise ConfigError(
                f"source is {self.source!r}; in {protocol.name} each dataset is its own source, so "
                "leave it out."
            )
        if self.source in self.datasets:
            raise ConfigError(
                f"datasets contains {self.source!r}, which is the source; name only the targets "
                "(the test images of the source are always scored)."
            )

    @property
    def rules(self) -> Protocol:
        return find_protocol(self.protocol)

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Plan:
        """The plan that plain values mean, as a command line or a YAML file gives them.

        A list may be a single value or text with commas. What is left out keeps its default; with
        0 words, these are the arms that have none.
        """
        if "protocol" not in values:
            raise ConfigError(f"protocol is missing: one of {', '.join(known_protocols())}.")
        if "datasets" not in values:
            raise ConfigError("datasets is missing: one or more, or all (--datasets).")
        first = cls(
            _text("protocol", values["protocol"]),
            _entries("datasets", values["datasets"]),
            source=values.get("source"),
        )
        plan = first.changed({key: value for key, value in values.items() if key != "protocol"})
        if "arms" not in values and plan.words == (0,):
            plan = replace(plan, arms=tuple(a for a in DEFAULT_ARMS if a not in WITH_WORDS))
        return plan

    def changed(self, values: Mapping[str, Any]) -> Plan:
        """The plan with other settings, in plain values."""
        own, config = dict[str, Any](), dict[str, Any]()
        for key, value in values.items():
            name = field_name(str(key))
            if name in ("datasets", "arms"):
                own[name] = _entries(name, value)
            elif name in LISTS:
                own[name] = tuple(checked_value(LISTS[name], v) for v in _items(name, value))
            elif name == "source":
                own[name] = None if value is None else _text(name, value)
            elif name == "given":
                own[name] = ", ".join(given_words(",".join(_entries(name, value))))
            elif name == "draws":
                own[name] = checked_value(DRAWS, value)
            elif name in ("per_dataset", "vary"):
                own[name] = value
            elif name in SHARED:
                config[name] = value
            else:
                known = [*(each.name for each in fields(Plan)), *SHARED]
                hint = closest(str(key), [name.rstrip("_") for name in known])
                raise ConfigError(f"{key!r} is not a setting of a plan.{hint}")
        # A learner that takes all settings: some are for certain learners alone.
        learners = [name for name in own.get("learners", self.learners) if name not in UNTRAINED]
        config |= {"learner": learners[0]} if learners else {}
        return replace(self, **own, config=replace(self.config, **config))

    def of_dataset(self, dataset: str, level: Any = None) -> Plan:
        """The plan with the settings of a dataset, and with a value of the setting that varies."""
        values = dict(self.per_dataset.get(dataset, {}))
        if self.vary is not None:
            setting = field_name(self.vary[0])
            if level == PAPER:
                # For a dataset that the paper lacks: words found in training, the usual lambda.
                other = self.config.objective.lambda_ if setting == "lambda_" else PAPER
                level = BY_DATASET.get(setting, {}).get(dataset, other)
            values[setting] = level
        return self.changed(values) if values else self

    def runs(self) -> tuple[Run, ...]:
        """The runs, each once, those of one dataset together."""
        runs: dict[str, Run] = {}
        for level in self.vary[1] if self.vary else (None,):
            for dataset in self.datasets if self.source is None else (self.source,):
                plan = self.of_dataset(dataset, level)
                pool = _pool_name(plan.config)
                for learner, config in _configs(plan, dataset):
                    targets = () if self.source is None else self.datasets
                    run = Run(self.protocol, dataset, targets, learner, config)
                    run = replace(run, pool=pool) if run.searches else run
                    runs.setdefault(run.id, run)
        return tuple(runs.values())


# -- what a plan takes, as options and as plain values -------------------------------------------


def plan_options() -> Iterator[Setting]:
    """The settings of a plan in the form that command-line options are made from."""
    defaults: dict[str, Any] = {entry.name: entry.default for entry in fields(Plan)}
    for name, setting in LISTS.items():
        default = ",".join(str(value) for value in defaults[name]) or "the protocol's"
        yield replace(
            setting,
            name=name,
            kinds=(str,),
            optional=False,
            default=default,
            help=f"{setting.help.rstrip('.')}; several with commas.",
            flag=f"--{name}",
        )
    config = _paper_config()
    for name, setting in SHARED.items():
        yield replace(setting, default=getattr(config, name))


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{name} is {brief(value)}; it must be text.")
    return value


def _items(name: str, value: Any) -> tuple[Any, ...]:
    """The items of a list, a single value, or text with commas, each once."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    elif isinstance(value, int):
        value = [value]
    if not isinstance(value, list | tuple) or any(isinstance(v, list | dict) for v in value):
        raise ConfigError(f"{name} is {brief(value)}; it must be a list, or text with commas.")
    return tuple(dict.fromkeys(value))


def _entries(name: str, value: Any) -> tuple[str, ...]:
    """The names in a list or a text with commas."""
    return tuple(_text(f"an entry of {name}", entry) for entry in _items(name, value))


# -- the configs of a plan's runs -----------------------------------------------------------------


def _configs(plan: Plan, dataset: str) -> Iterator[tuple[str, FitConfig]]:
    """The learner, or an arm without one, and the config of each run on a dataset.

    Some come more than once: nothing is drawn for zero-shot, and 0 words make several arms the
    same.
    """
    for seed in plan.seeds:
        for shots in plan.shots:
            for arm in plan.arms:
                for words, slots in _slots(plan, dataset, arm):
                    if arm == ZERO_SHOT:
                        yield arm, _untrained_config(plan, plan.shots[0], plan.seeds[0], words)
                    elif arm in UNTRAINED:
                        yield arm, _untrained_config(plan, shots, seed, words)
                    else:
                        own = {"shots": shots, "seed": seed, "words": words, **slots}
                        for learner in plan.learners:
                            yield learner, _run_config(plan, dataset, learner, own)


def _slots(plan: Plan, dataset: str, arm: str) -> Iterator[tuple[int | str, dict[str, Any]]]:
    """Each number of words or slots of an arm, and what fills them."""
    given = None if plan.given is None else len(plan.given.split(","))
    if arm == GIVEN:
        if given is None:
            raise ConfigError(
                f"The arm {GIVEN} has no words for {dataset}; give them with --given FILE, a line "
                f"`{dataset}: word, word` for each dataset (in a recipe, as `given`)."
            )
        yield given, {"words_given": plan.given}
        return
    numbers = (0,) if arm in (PLAIN, ZERO_SHOT, LINEAR_PROBE) else _numbers(plan, dataset, arm)
    if arm == EMPTY and GIVEN in plan.arms and given is not None:
        numbers = tuple(dict.fromkeys([*numbers, given]))  # given words, and as many empty slots
    for number in numbers:
        if number and arm == EMPTY:
            yield number, {"empty_slots": True}
        elif number and arm == RANDOM:
            for draw in range(1, plan.draws + 1):
                yield number, {"random_words": draw}
        else:
            yield number, {}


def _numbers(plan: Plan, dataset: str, arm: str) -> tuple[int | str, ...]:
    """The numbers of words of an arm; ConfigError if one is not possible."""
    for words in plan.words:
        if (words == PAPER and arm != CHOSEN) or (words == AUTO and arm in (WORDS_ONLY, GIVEN)):
            raise ConfigError(
                f"words is {words} for {dataset}; the arm {arm} needs a number, so that it is as "
                "long as the prompt it is compared with: --words 3, or --arms plain,words."
            )
    if not any(plan.words) and arm != CHOSEN:
        raise ConfigError(f"words is 0; the arm {arm} needs 1 or more.")
    return plan.words


def _run_config(plan: Plan, dataset: str, learner: str, own: Mapping[str, Any]) -> FitConfig:
    """The plan's config with what is a run's own: its shots, seed and words, and their slots."""
    published: dict[str, Any] = {
        "learner": learner,
        "class_template": teacher_template_of(dataset),
        "protocol": plan.rules.recipe_protocol,
    }
    if plan.config.epochs is None:
        published |= schedule(plan.protocol, dataset, learner, own["shots"], own["words"] != 0)
    return replace(plan.config, **published, **own)


def _untrained_config(plan: Plan, shots: int, seed: int, words: int | str) -> FitConfig:
    """A config with what an arm without a learner depends on."""
    parts = (DATA, MODEL, WORDS) if words else (DATA, MODEL)
    values = {s.name: getattr(plan.config, s.name) for s in fit_settings() if s.part in parts}
    # An interval of 1 leaves room for any number of words; nothing is trained.
    fixed = {"learner": "coop", "words": words, "shots": shots, "seed": seed, "interval": 1}
    return FitConfig(**{**values, **fixed})


def _pool_name(config: FitConfig) -> str:
    """What a pool of words is called: bundled, or the name of its file with a hash."""
    name = BUNDLED
    if config.words_file is not None:
        sha256 = hashlib.sha256(read_text(Path(config.words_file)).encode()).hexdigest()
        name = f"{Path(config.words_file).name} {sha256[:8]}"
    return name if config.pool_part == "all" else f"{name}, {config.pool_part}"
