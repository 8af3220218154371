"""A plan: which learners, words and seeds on which datasets, in plain values that are checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from ipl.backbone.backbone import check_precision
from ipl.config import AUTO
from ipl.datasets.fewshot import check_draw
from ipl.learners.registry import learner_class
from ipl.prompts.bound_prompts import PLACEHOLDERS
from ipl.support.errors import ConfigError, closest
from ipl.words.template import DEFAULT_TEMPLATE

BASE_TO_NOVEL, CROSS_DATASET, DOMAIN = PLANNED = ("base-to-novel", "cross-dataset", "domain")
ZERO_SHOT = "zero-shot"  # as a learner: a hand-made prompt and no training
SOURCE = "imagenet"

LISTS = ("datasets", "learners", "words", "seeds")
RECIPE = ("epochs", "interval", "batch", "lr", "m", "depth")  # None: the learner's


@dataclass(frozen=True)
class Plan:
    """Everything that decides what a grid of runs computes, but not where or how fast.

    For base-to-novel `datasets` are learnt from and tested on, one by one; otherwise the prompts
    are learnt from `source` and tested on it and on every one of `datasets`.
    """

    protocol: str
    datasets: tuple[str, ...]
    learners: tuple[str, ...] = ("coop",)
    words: tuple[int | str, ...] = (0, AUTO)
    seeds: tuple[int, ...] = (1, 2, 3)
    source: str | None = None
    shots: int = 16
    backbone: str = "pocket"
    precision: str = "fp32"
    views: int | str = 8
    epochs: int | None = None
    interval: int | None = None
    batch: int | None = None
    lr: float | None = None
    m: int | None = None
    depth: int | None = None
    lambda_: float = 0.1
    preset: str = "paper"
    word_embedding: str = "text"
    template: str = DEFAULT_TEMPLATE
    search: str = "exact"
    shortlist: int = 1000
    placeholder: str = "token"
    words_file: str | None = None
    no_names: bool = False

    def __post_init__(self) -> None:
        if self.protocol not in PLANNED:
            raise ConfigError(f"protocol is {self.protocol!r}; allowed are {', '.join(PLANNED)}.")
        for name in LISTS:
            if not getattr(self, name):
                raise ConfigError(f"{name} is empty; give at least one.")
        if self.protocol == BASE_TO_NOVEL:
            if self.source is not None:
                raise ConfigError(
                    f"source is {self.source!r}; in {BASE_TO_NOVEL} each of the datasets is its "
                    "own source, so leave it out."
                )
        elif self.source is None:
            object.__setattr__(self, "source", SOURCE)
        if self.source in self.datasets:
            raise ConfigError(
                f"datasets holds {self.source!r}, which is the source; name the targets alone "
                "(the source's own test images are always scored)."
            )
        for learner in self.learners:
            if learner != ZERO_SHOT:
                learner_class(learner)
        for words in self.words:
            if words != AUTO and (isinstance(words, str) or words < 0):
                raise ConfigError(f"words holds {words!r}; allowed are 0, a number, or {AUTO}.")
        for seed in self.seeds:
            check_draw(self.shots, seed)
        check_precision(self.precision)
        fresh = self.views == "fresh"
        if not fresh and (isinstance(self.views, str) or self.views < 0):
            raise ConfigError(
                f"views is {self.views!r}; allowed are 0, a number of crops, or fresh."
            )
        if self.placeholder not in PLACEHOLDERS:
            raise ConfigError(
                f"placeholder is {self.placeholder!r}; allowed are {', '.join(PLACEHOLDERS)}."
            )

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Plan:
        """Returns the plan that plain values mean, as a command line or a YAML file gives them.

        Lists may be a single value, or a text with commas; what is left out keeps its default.
        """
        known = {field.name: str(field.type) for field in fields(cls)}
        given: dict[str, Any] = {}
        for key, value in values.items():
            name = "lambda_" if key == "lambda" else key
            if name not in known:
                raise ConfigError(f"{key!r} is no setting of a plan.{closest(str(key), known)}")
            given[name] = _listed(name, value) if name in LISTS else _typed(name, value, known)
        for name in ("protocol", "datasets"):
            if name not in given:
                allowed = f": {', '.join(PLANNED)}" if name == "protocol" else ""
                raise ConfigError(f"{name} is missing{allowed}.")
        return cls(**given)

    def as_values(self) -> dict[str, Any]:
        """Returns the plan as plain values that `from_values` takes."""
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in asdict(self).items()
        }


def _listed(name: str, value: Any) -> tuple[Any, ...]:
    """Returns the entries of a list, each once, with numbers as numbers."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    elif isinstance(value, int):
        value = [value]
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{name} is {value!r}; it must be a list, or a text with commas.")
    entries = []
    for entry in value:
        number = _whole(entry) if name in ("words", "seeds") else None
        if isinstance(entry, bool) or not (number is not None or isinstance(entry, str)):
            what = "numbers" if name == "seeds" else "names"
            raise ConfigError(f"{name} holds {entry!r}; its entries must be {what}.")
        if name == "seeds" and number is None:
            raise ConfigError(f"seeds holds {entry!r}; its entries must be whole numbers.")
        entries.append(entry if number is None else number)
    return tuple(dict.fromkeys(entries))


def _typed(name: str, value: Any, known: Mapping[str, str]) -> Any:
    """Returns a value of the kind that a field wants; a text that is a number may be one."""
    kinds = known[name].split(" | ")
    if value is None and "None" in kinds:
        return None
    if "bool" in kinds and isinstance(value, bool):
        return value
    if "int" in kinds and _whole(value) is not None:
        return _whole(value)
    if "float" in kinds and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if "str" in kinds and isinstance(value, str):
        return value
    allowed = {"bool": "true or false", "int": "a whole number", "float": "a number", "str": "text"}
    wanted = " or ".join(allowed[kind] for kind in kinds if kind in allowed)
    raise ConfigError(f"{name} is {value!r}; it must be {wanted}.")


def _whole(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.removeprefix("-").isdigit():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
