"""What a fit goes by: plain parameters, checked, with the learner's published numbers put in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ipl.datasets.fewshot import check_draw
from ipl.learners.recipe import PROTOCOLS, Recipe
from ipl.learners.registry import learner_class
from ipl.support.errors import ConfigError
from ipl.training.fitting import check_words
from ipl.words.select import WordChoice

OWN = ("epochs", "interval", "batch", "lr", "m", "depth")  # None: the learner's published value
CHOICE = ("lambda_", "preset", "word_embedding", "template", "search", "memory", "pool")


@dataclass(frozen=True)
class FitSettings:
    """How the vectors are trained, and how the words are chosen."""

    recipe: Recipe
    choice: WordChoice

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> FitSettings:
        """Returns what parameters by name mean; raises ConfigError for what cannot be."""
        words, protocol = values["words"], values["protocol"]
        check_draw(values["shots"], values["seed"])
        if protocol not in PROTOCOLS:
            raise ConfigError(f"protocol is {protocol!r}; allowed are {', '.join(PROTOCOLS)}.")
        kind = learner_class(values["learner"])
        published = kind.recipe(words if isinstance(words, int) else 1, protocol)
        if (values["depth"] or 1) > 1 and not kind.deep_prompts:
            raise ConfigError(
                f"depth is {values['depth']}; {kind.name} has vectors in the first layer alone."
            )
        recipe = published.override(**{name: values[name] for name in OWN})
        check_words(words, recipe)
        return cls(recipe, WordChoice.of(*(values[name] for name in CHOICE)))
