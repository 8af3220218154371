"""Recipes: plans in small YAML files; those of the package are the paper's."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from ipl.bench.paper_numbers import LAMBDA, WORDS
from ipl.bench.plan import Plan
from ipl.config import PAPER, field_name
from ipl.support.errors import ConfigError, IplError, brief, closest
from ipl.support.files import read_text

SUFFIX = ".yaml"


@dataclass(frozen=True)
class Recipe:
    """What to run: the values of a plan, or other recipes."""

    name: str = ""
    title: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    recipes: tuple[str, ...] = ()

    def override(self, given: Mapping[str, Any]) -> Recipe:
        """The recipe with other values, which then hold for every dataset."""
        names = {field_name(key) for key in given}
        values = {**self.values, **given}
        if per_dataset := self.values.get("per_dataset"):
            values["per_dataset"] = {
                dataset: {key: v for key, v in those.items() if field_name(key) not in names}
                for dataset, those in per_dataset.items()
            }
        vary = values.get("vary")
        if vary and "vary" not in given and field_name(vary[0]) in names:
            del values["vary"]
        return replace(self, values=values)

    def with_given(self, path: Path) -> Recipe:
        """The recipe with the words of a YAML file for the arm `given`, by dataset."""
        words = _read_yaml(read_text(path), f"The list of words {path}")
        per_dataset = {**self.values.get("per_dataset", {})}
        for dataset, value in words.items():
            per_dataset[dataset] = {**per_dataset.get(dataset, {}), "given": value}
        return replace(self, values={**self.values, "per_dataset": per_dataset})

    def plan(self) -> Plan:
        """The plan, checked; the recipe begins a sentence on what is wrong with it."""
        try:
            return Plan.from_values(self.values)
        except IplError as error:
            raise ConfigError(
                f"The recipe {self.name}: {error}" if self.name else str(error)
            ) from None


def recipe_names() -> tuple[str, ...]:
    """The names of the recipes in the package."""
    return tuple(sorted(path.stem for path in _folder().glob(f"*{SUFFIX}")))


def recipe_text(name: str) -> str:
    """The YAML of a recipe: one of the package by its name, or a file."""
    if name in recipe_names():
        return (_folder() / f"{name}{SUFFIX}").read_text(encoding="utf-8")
    if not os.path.isfile(name):
        hint = closest(name, recipe_names()) or " See: ipl list recipes."
        raise ConfigError(f"There is no recipe {name!r}, and no such file.{hint}")
    return read_text(Path(name))


def read_recipe(name: str) -> Recipe:
    """A recipe of the package by its name, or of a YAML file.

    Its keys are those of a plan, `title`, and `recipes`, a list of other recipes in place of a
    plan. `per_dataset: paper` stands for the paper's number of words and lambda for each dataset.
    """
    whole = f"The recipe {name}"
    values = _read_yaml(recipe_text(name), whole)
    title, recipes = str(values.pop("title", "")), values.pop("recipes", ())
    if recipes:
        if not isinstance(recipes, list) or values:
            raise ConfigError(f"{whole}: recipes must be a list of names, with a title at most.")
        return Recipe(name, title, recipes=tuple(map(str, recipes)))
    per_dataset = values.get("per_dataset", {})
    if per_dataset == PAPER:
        per_dataset = {name: {"words": k, "lambda": LAMBDA[name]} for name, k in WORDS.items()}
    if not isinstance(per_dataset, dict) or {*map(type, per_dataset.values())} - {dict}:
        raise ConfigError(
            f"{whole}: per_dataset is {brief(per_dataset)}; it must name datasets, each with "
            "`setting: value` lines."
        )
    values["per_dataset"] = per_dataset
    if vary := values.get("vary"):
        if not isinstance(vary, dict) or [*map(type, vary.values())] != [list]:
            raise ConfigError(f"{whole}: vary must have one setting and a list of its values.")
        values["vary"] = next((setting, tuple(levels)) for setting, levels in vary.items())
    return Recipe(name, title, values)


def read_recipes(names: Sequence[str]) -> list[Recipe]:
    """The recipes of these names; one that is a list of others stands for those."""
    found: list[Recipe] = []
    for name in names:
        recipe = read_recipe(name)
        found += read_recipes(recipe.recipes) if recipe.recipes else [recipe]
    return found


def _read_yaml(text: str, name: str) -> dict[str, Any]:
    try:
        values = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # such as a wrong date
        mark = getattr(error, "problem_mark", None)
        line = f" in line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or error
        raise ConfigError(f"{name} is not valid YAML{line}: {problem}.") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{name} is {brief(values)}; it must contain `name: value` lines.")
    return values


def _folder() -> Path:
    return Path(str(resources.files("ipl.bench"))) / "recipes"
