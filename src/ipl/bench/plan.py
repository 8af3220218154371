"""A plan: which learners, arms, words, shots and seeds on which datasets, and one config."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any

from ipl.bench.arms import ARMS, DEFAULT_ARMS, UNTRAINED, WITH_WORDS
from ipl.bench.protocols.protocol import Protocol
from ipl.bench.protocols.registry import PROTOCOLS, find_protocol
from ipl.config import FitConfig, field_name, given_words, settings
from ipl.config_fields import Setting, checked_value
from ipl.learners.registry import learner_class
from ipl.support.errors import ConfigError, brief, closest

OWN_NAMES = ("protocol", "source", "arms", "draws", "given")  # of a plan, beside lists and config
MOST_DRAWS = 1000


def _without_words() -> FitConfig:
    return FitConfig(words=0)


@dataclass(frozen=True)
class Plan:
    """Everything that decides what a grid of runs computes, but not where or how fast.

    Parameters
    ----------
    protocol : str
        The name of a protocol.
    datasets : tuple of str
        If the protocol has a source, the targets to test on; otherwise the datasets to train on
        and test, one by one.
    arms : tuple of str
        What is compared, keys of `ARMS`; those without a learner are run once for all learners.
    learners : tuple of str
        The learners.
    words : tuple of int or str
        The numbers of words in the arms that have words; 0 is the plain learner.
    draws : int
        How often random words are drawn for each seed.
    given : str or None
        The words of the arm `given`, with commas between them.
    shots : tuple of int
        The training images per class; empty for those of the protocol.
    seeds : tuple of int
        The seeds.
    source : str or None
        The dataset to train on; None for the protocol's own.
    config : FitConfig
        All other settings. Its learner, words, shots and seed, its class template and its protocol
        are those of each run.

    Raises
    ------
    ConfigError
        If a value is not allowed.
    """

    protocol: str
    datasets: tuple[str, ...]
    arms: tuple[str, ...] = DEFAULT_ARMS
    learners: tuple[str, ...] = ("coop",)
    words: tuple[int | str, ...] = (3,)
    draws: int = 3
    given: str | None = None
    shots: tuple[int, ...] = ()
    seeds: tuple[int, ...] = (1, 2, 3)
    source: str | None = None
    config: FitConfig = field(default_factory=_without_words)

    def __post_init__(self) -> None:
        protocol = self.rules
        object.__setattr__(self, "shots", self.shots or protocol.default_shots)
        for name in ("datasets", "arms", *list_settings()):
            if not getattr(self, name):
                raise ConfigError(f"{name} is empty; give at least one.")
        self._check_arms()
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
        for learner in self.learners:
            if learner in UNTRAINED:
                raise ConfigError(
                    f"learners contains {learner!r}, which is an arm; name it among the arms."
                )
            learner_class(learner)
        for name, setting in list_settings().items():
            for value in getattr(self, name):
                checked_value(setting, value)
        for seed in self.seeds:
            replace(self.config, seed=seed)  # raises what is wrong with a seed

    def _check_arms(self) -> None:
        for arm in self.arms:
            if arm not in ARMS:
                raise ConfigError(
                    f"arms contains {arm!r}; allowed are {', '.join(ARMS)}.{closest(arm, ARMS)}"
                )
        whole = isinstance(self.draws, int) and not isinstance(self.draws, bool)
        if not (whole and 1 <= self.draws <= MOST_DRAWS):
            raise ConfigError(
                f"draws is {brief(self.draws)}; it must be a whole number from 1 to {MOST_DRAWS:,}."
            )
        if self.given is not None:
            object.__setattr__(self, "given", ", ".join(given_words(self.given)))
        if not self.has_words:
            object.__setattr__(self, "words", (0,))

    @property
    def has_words(self) -> bool:
        """Returns whether the number of words makes a difference to an arm."""
        return any(arm in WITH_WORDS for arm in self.arms)

    @property
    def rules(self) -> Protocol:
        """Returns the protocol."""
        return find_protocol(self.protocol)

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Plan:
        """Returns the plan that plain values mean, as a command line or a YAML file gives them.

        Parameters
        ----------
        values : mapping
            `protocol`, `datasets`, `source`, `arms`, `draws`, `given`, the settings that have
            several values by their plural (`learners`, `words`, `shots`, `seeds`), and those of
            FitConfig. A list may be a single value or text with commas. What is left out keeps its
            default; with 0 words, these are the arms that have none.

        Raises
        ------
        ConfigError
            If a name is unknown, or a value is not allowed.
        """
        lists = list_settings()
        plan: dict[str, Any] = {}
        config: dict[str, Any] = {}
        for key, value in values.items():
            name = field_name(str(key))
            if name in ("protocol", "source"):
                if not (isinstance(value, str) or (name == "source" and value is None)):
                    raise ConfigError(f"{name} is {brief(value)}; it must be text.")
                plan[name] = value
            elif name == "given":
                plan[name] = _given(value)
            elif name == "draws":
                is_number = isinstance(value, str) and value.isdecimal() and len(value) < 10
                plan[name] = int(value) if is_number else value
            elif name in ("datasets", "arms") or name in lists:
                plan[name] = _entries(name, value, lists.get(name))
            elif name in _shared_names():
                config[name] = value
            else:
                hint = closest(str(key), setting_names())
                raise ConfigError(f"{key!r} is not a setting of a plan.{hint}")
        if "protocol" not in plan:
            raise ConfigError(f"protocol is missing: one of {', '.join(PROTOCOLS)}.")
        find_protocol(plan["protocol"])
        if "datasets" not in plan:
            raise ConfigError("datasets is missing: one or more, or all (--datasets).")
        if "arms" not in plan and plan.get("words") == (0,):
            plan["arms"] = tuple(arm for arm in DEFAULT_ARMS if arm not in WITH_WORDS)
        # A learner that takes all settings: some are for certain learners alone.
        learners = [name for name in plan.get("learners", cls.learners) if name not in UNTRAINED]
        shared = {"words": 0, **({"learner": learners[0]} if learners else {})}
        return cls(**plan, config=FitConfig.from_dict({**config, **shared}))

    def as_values(self) -> dict[str, Any]:
        """Returns the plan as plain values that `from_values` takes."""
        values: dict[str, Any] = {"protocol": self.protocol, "source": self.source}
        for name in ("datasets", "arms", *list_settings()):
            values[name] = list(getattr(self, name))
        values |= {"draws": self.draws, "given": self.given}
        return values | {s.title: getattr(self.config, s.name) for s in shared_settings()}


# -- what a plan takes, derived from FitConfig ----------------------------------------------------


@cache
def list_settings() -> Mapping[str, Setting]:
    """Returns the settings that a plan has several values of, by their plural."""
    several = [setting for setting in settings() if setting.option.bench == "list"]
    return {f"{setting.name.removesuffix('s')}s": setting for setting in several}


@cache
def shared_settings() -> tuple[Setting, ...]:
    """Returns the settings that a plan has one value of, for all its runs."""
    return tuple(setting for setting in settings() if setting.option.bench == "setting")


@cache
def _shared_names() -> frozenset[str]:
    return frozenset(setting.name for setting in shared_settings())


@cache
def setting_names() -> tuple[str, ...]:
    """Returns everything that a plan takes, as recipe files and messages name it."""
    shared = (setting.title for setting in shared_settings())
    return ("datasets", *OWN_NAMES, *list_settings(), *shared)


def plan_options() -> Iterator[Setting]:
    """Yields the settings of a plan in the form that command-line options are made from."""
    defaults: dict[str, Any] = {entry.name: entry.default for entry in fields(Plan)}
    for name, setting in list_settings().items():
        text = setting.option.help.rstrip(".") + "; several with commas"
        option = replace(setting.option, help=f"{text}.", flag=f"--{name}")
        default = ",".join(str(value) for value in defaults[name]) or "the protocol's"
        yield Setting(name, (str,), False, default, option)
    yield from shared_settings()


def _given(value: Any) -> str | None:
    """Returns the words of the arm `given` as text with commas between them."""
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return ", ".join(value)
    if value is None or isinstance(value, str):
        return value
    raise ConfigError(f"given is {brief(value)}; it must be words with commas between them.")


def _entries(name: str, value: Any, setting: Setting | None) -> tuple[Any, ...]:
    """Returns the entries of a list, each once; with a setting, as values of it."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    elif isinstance(value, int):
        value = [value]
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{name} is {brief(value)}; it must be a list, or text with commas.")
    if setting is not None:
        value = [checked_value(setting, entry) for entry in value]
    for entry in value:
        if setting is None and not isinstance(entry, str):
            raise ConfigError(f"{name} contains {brief(entry)}; its entries must be names.")
    return tuple(dict.fromkeys(value))
