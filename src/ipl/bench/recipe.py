"""Recipes: a plan in a small YAML file, with per-dataset settings and one setting that may vary."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from ipl.bench.arms import the_arms
from ipl.bench.data import ALL, SCENES, full_path, name_of
from ipl.bench.plan import Plan, list_settings, setting_names, shared_settings
from ipl.bench.run import POOL
from ipl.config import CHOSEN, GIVEN, PLAIN
from ipl.datasets.benchmarks import BENCHMARKS
from ipl.support.errors import ConfigError, IplError, brief, closest

SUFFIX = ".yaml"
MAX_YAML = 1_000_000  # characters
MAX_DEPTH = 20  # of lists and mappings inside of each other
KEYS = ("title", "per_dataset", "vary")  # of a recipe, beside the settings of its plan
MAY_BE_EMPTY = ("per_dataset", "vary", "source", "given")  # the same as left out
# What is the same for all datasets of a plan.
FOR_ALL_DATASETS = ("protocol", "datasets", "source", "seeds", "learners")


@dataclass(frozen=True)
class BenchRecipe:
    """What to run: settings of a plan, some of them for single datasets, one that may vary."""

    name: str = ""  # to begin a sentence with
    title: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    per_dataset: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    vary: tuple[str, tuple[Any, ...]] | None = None  # a setting and its values

    def override(self, settings: Mapping[str, Any]) -> BenchRecipe:
        """Returns the recipe with other settings, which then hold for every dataset."""
        given = {key.rstrip("_"): value for key, value in settings.items()}
        per_dataset = {
            name: {key: value for key, value in values.items() if key not in given}
            for name, values in self.per_dataset.items()
        }
        vary = None if self.vary is None or self.vary[0] in given else self.vary
        return replace(
            self, settings={**self.settings, **given}, per_dataset=per_dataset, vary=vary
        )

    def varying(self, setting: str, values: Sequence[Any]) -> BenchRecipe:
        """Returns the recipe with one setting that takes each of these values."""
        dropped = self.override({setting: None})
        settings = {key: value for key, value in dropped.settings.items() if key != setting}
        return replace(dropped, settings=settings, vary=(setting, tuple(values)))

    def with_given(self, path: Path) -> BenchRecipe:
        """Returns the recipe with the words of a file for the arm `given`.

        Parameters
        ----------
        path : Path
            A YAML file with a line `dataset: word, word` for each dataset.

        Raises
        ------
        ConfigError
            If the file cannot be read, or the arm is not among those of the recipe.
        """
        if GIVEN not in self.plan().arms:
            raise ConfigError(
                f"--given is {path}, but the arm {GIVEN} is not run; add it with --arms."
            )
        words = _read_yaml(recipe_text(str(path), "list of words"), f"The list of words {path}")
        if not isinstance(words, dict):
            raise ConfigError(
                f"The list of words {path} must have a line `dataset: word, word` for each dataset."
            )
        names = {*self.per_dataset, *map(str, words)}
        per_dataset = {name: dict(self.per_dataset.get(name, {})) for name in names}
        for name, value in words.items():
            per_dataset[str(name)]["given"] = value
        return replace(self, per_dataset=per_dataset)

    def plan(self) -> Plan:
        """Returns the plan without what is said of single datasets."""
        try:
            plan = Plan.from_values(self.settings)
            if self.settings.get("words") not in (None, 0, "0", [0]) and not plan.has_words:
                raise ConfigError(
                    f"words is {self.settings['words']}; it does not apply to "
                    f"{the_arms(plan.arms)}, so leave it out."
                )
            if "arms" in self.settings and CHOSEN in plan.arms and plan.words == (0,):
                raise ConfigError(
                    f"words is 0, but the arm {CHOSEN} needs 1 or more; the learner without words "
                    f"is the arm {PLAIN}."
                )
        except IplError as error:
            raise ConfigError(f"{self.name}: {error}" if self.name else str(error)) from None
        return plan


def recipe_names() -> tuple[str, ...]:
    """Returns the names of the recipes in the package."""
    names = [f"{path.parent.name}/{path.stem}" for path in _folder().glob(f"*/*{SUFFIX}")]
    return tuple(sorted(names))


def recipe_text(name: str, what: str = "recipe") -> str:
    """Returns the YAML of a recipe: one of the package by its name, or a file."""
    if name in recipe_names():
        return (_folder() / f"{name}{SUFFIX}").read_text(encoding="utf-8")
    path = Path(name)
    if not os.path.exists(path) and what != "recipe":
        raise ConfigError(f"There is no {what} {name}.")
    if not os.path.exists(path):
        raise ConfigError(
            f"There is no {what} {name!r}, and no such file."
            f"{closest(name, recipe_names()) or ' See: ipl recipe list.'}"
        )
    try:
        return path.read_text(encoding="utf-8")
    except IsADirectoryError:
        raise ConfigError(f"The {what} {name} is a folder; it must be a YAML file.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"The {what} {name} is not UTF-8 text.") from None
    except OSError as error:
        raise ConfigError(f"The {what} {name} cannot be read: {error.strerror}.") from None


def read_recipe(name: str) -> BenchRecipe:
    """Returns a recipe of the package by its name, or of a YAML file."""
    return parse_recipe(recipe_text(name), f"The recipe {name}")


def parse_recipe(text: str, name: str) -> BenchRecipe:
    """Returns the recipe that YAML says; `name` begins the sentence on what is wrong with it."""
    values = _read_yaml(text, name)
    _check_keys(name, values, (*KEYS, *setting_names()))
    title = values.get("title", "")
    if not isinstance(title, str):
        raise ConfigError(f"{name}: title is {brief(title)}; it must be text.")
    per_dataset = values.get("per_dataset") or {}
    if not isinstance(per_dataset, dict):
        raise ConfigError(
            f"{name}: per_dataset is {brief(per_dataset)}; it must have a dataset's name in each "
            "line."
        )
    allowed = [setting for setting in setting_names() if setting not in FOR_ALL_DATASETS]
    for dataset, settings in per_dataset.items():
        _check_keys(f"{name}: per_dataset of {dataset}", settings, allowed)
    _check_names(name, per_dataset, values.get("datasets"), values.get("source"))
    settings = {key: value for key, value in values.items() if key not in KEYS}
    return BenchRecipe(name, title, settings, per_dataset, _vary(name, values.get("vary"), allowed))


def _read_yaml(text: str, name: str) -> Any:
    """Returns the content of a YAML file; `name` begins the sentence on what is wrong with it."""
    if len(text) > MAX_YAML:
        raise ConfigError(f"{name} has more than {MAX_YAML:,} characters.")
    try:
        refusal = _costly_yaml(text)
        values = None if refusal else yaml.load(text, _loader())
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" in line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise ConfigError(f"{name} is not valid YAML{line}: {problem}.") from None
    except (ValueError, RecursionError) as error:  # a date that does not exist
        raise ConfigError(f"{name} is not valid YAML: {error}.") from None
    if refusal:
        raise ConfigError(f"{name} {refusal}")
    return values


def _costly_yaml(text: str) -> str:
    """Returns why a short text would take much time or memory; "" if it would not."""
    depth = 0
    for event in yaml.parse(text, _loader()):
        if isinstance(event, yaml.AliasEvent):  # a few lines of them can stand for gigabytes
            return "has an alias (*name); write the value out."
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:  # the parser's time grows with its square
            return f"has values inside of each other, more than {MAX_DEPTH} levels deep."
    return ""


@cache
def _loader() -> Any:
    """Returns YAML's safe loader, which here refuses a key that is given twice."""
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C, seven times as fast

    class Loader(base):  # type: ignore[misc]
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode) and key.value in seen:
                    problem = f"the key {brief(key.value)} is given twice"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                seen.add(key.value if isinstance(key, yaml.ScalarNode) else None)
            return super().construct_mapping(node, deep)

    return Loader


def _vary(name: str, value: Any, allowed: Sequence[str]) -> tuple[str, tuple[Any, ...]] | None:
    if value is None:
        return None
    _check_keys(f"{name}: vary", value, [*allowed, POOL])
    if len(value) != 1:
        raise ConfigError(f"{name}: vary has {len(value)} settings; it must have one.")
    ((setting, values),) = value.items()
    if not isinstance(values, list) or not values:
        raise ConfigError(f"{name}: vary of {setting} is {brief(values)}; it must be a list.")
    return setting, tuple(values)


def _check_names(name: str, per_dataset: Mapping[Any, Any], datasets: Any, source: Any) -> None:
    """Raises ConfigError if a name can be none of the datasets that a recipe lists, or published.

    Without a list anything is possible: `--datasets` may name data of the user's own.
    """
    entries = datasets.split(",") if isinstance(datasets, str) else datasets
    if not isinstance(entries, list):
        return
    named = [str(entry).strip() for entry in [*entries, source] if entry not in (None, "", ALL)]
    known = [*BENCHMARKS, SCENES, *(name_of(full_path(entry)) for entry in named)]
    for dataset in map(str, per_dataset):
        if dataset not in known and "/" not in dataset:
            raise ConfigError(
                f"{name}: per_dataset has {brief(dataset)}, which is not one of its datasets."
                f"{closest(dataset, known)}"
            )


def _check_keys(name: str, values: Any, allowed: Sequence[str]) -> None:
    if not isinstance(values, dict):
        is_what = "is empty" if values is None else f"contains {brief(values)}"
        raise ConfigError(f"{name} {is_what}; it must contain `setting: value` lines.")
    for key in values:
        if key not in allowed:
            listed, hint = ", ".join(allowed), closest(str(key), allowed)
            raise ConfigError(
                f"{name}: {key!r} is not a setting; it must be one of {listed}.{hint}"
            )
        entries = values[key] if isinstance(values[key], list) else [values[key]]
        for value in entries:
            _check_kind(f"{name}: {key}", key, value)


def _check_kind(name: str, key: str, value: Any) -> None:
    """Raises ConfigError for what only YAML has: a line without a value, and true for a number."""
    setting = {**{s.title: s for s in shared_settings()}, **list_settings()}.get(key)
    if value is None and key not in MAY_BE_EMPTY and not (setting and setting.optional):
        raise ConfigError(f"{name} has no value; give it one, or leave it out.")
    if isinstance(value, bool) and not (setting and bool in setting.kinds):
        allowed = setting.allowed if setting else "text or a number"
        raise ConfigError(f"{name} is {str(value).lower()}; it must be {allowed}.")


def _folder() -> Path:
    return Path(str(resources.files("ipl.bench"))) / "recipes"
