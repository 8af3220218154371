"""Methods: which runs belong to one row of a table, and what the row is called."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ipl.bench.arms import ARMS, LINEAR_PROBE, UNTRAINED, WORDS_ONLY, ZERO_SHOT
from ipl.bench.records import RunRecord
from ipl.config import CHOSEN, EMPTY, GIVEN, PLAIN, RANDOM
from ipl.display.formatting import several

LEARNER_NAMES = {
    ZERO_SHOT: "zero-shot CLIP",
    LINEAR_PROBE: "linear probe",
    WORDS_ONLY: "words only",
    "coop": "CoOp",
    "cocoop": "CoCoOp",
    "kgcoop": "KgCoOp",
    "maple": "MaPLe",
    "promptsrc": "PromptSRC",
}
ARM_NAMES = {
    PLAIN: "",
    EMPTY: ", empty slots",
    RANDOM: " + random words",
    GIVEN: " + given words",
    CHOSEN: " + IPL",
}
PATTERNS = {CHOSEN: "solid", EMPTY: "dotted", RANDOM: "dashdot", GIVEN: "dashdot"}  # of lines
# May differ from dataset to dataset within a row, as they do in the paper.
PER_DATASET = ("words", "lambda_", "epochs", "class_template", "words_given")
SLOT_SETTINGS = frozenset({"words_given", "empty_slots", "random_words"})  # they say the arm
SETTING_NAMES = {"lambda_": "lambda", "interval": "t", "epochs": "T", "template": "sentence"}


@dataclass(frozen=True)
class Method:
    """One row: an arm of a learner, and the settings that tell it from others."""

    learner: str
    arm: str
    varied: dict[str, Any]
    runs: tuple[RunRecord, ...] = field(repr=False)

    @property
    def is_published(self) -> bool:
        """Returns whether the arm is one of the paper's rows: with words, without, zero-shot."""
        return self.arm in (PLAIN, CHOSEN, ZERO_SHOT)

    @property
    def pattern(self) -> str:
        """Returns how its line is drawn in a plot; dashed stands for the plain learner."""
        return PATTERNS.get(self.arm, "dashed")

    @property
    def with_words(self) -> bool:
        """Returns whether it has the words of a search."""
        return self.arm == CHOSEN

    @property
    def label(self) -> str:
        """Returns what the row is called, with the settings that tell it from others."""
        name = learner_name(self.learner) + ARM_NAMES.get(self.arm, "")
        varied = ", ".join(
            f"{SETTING_NAMES.get(key, key)} {setting_text(value)}"
            for key, value in self.varied.items()
        )
        return f"{name} ({varied})" if varied else name


def learner_name(learner: str) -> str:
    """Returns what a learner is called, such as CoOp."""
    return LEARNER_NAMES.get(learner, learner)


def group_methods(runs: Sequence[RunRecord]) -> list[Method]:
    """Returns the rows of a table: zero-shot first, then learners in the paper's order.

    Runs of a learner are one row unless a setting differs, between any of them or, for what may
    change with the dataset, within one dataset.
    """
    groups: dict[tuple[str, str], list[RunRecord]] = {}
    for run in runs:
        groups.setdefault((run.learner, run.arm), []).append(run)
    order = [*LEARNER_NAMES, *sorted({learner for learner, _ in groups} - set(LEARNER_NAMES))]
    methods = []
    for (learner, arm), group in sorted(
        groups.items(), key=lambda item: (order.index(item[0][0]), list(ARMS).index(item[0][1]))
    ):
        varied = _varied(group)
        rows: dict[str, list[RunRecord]] = {}
        for run in group:
            rows.setdefault(canonical([run.config().get(key) for key in varied]), []).append(run)
        labelled = [
            ({key: records[0].config().get(key) for key in varied}, records)
            for records in rows.values()
        ]
        labelled.sort(key=lambda item: [setting_order(value) for value in item[0].values()])
        methods += [Method(learner, arm, values, tuple(records)) for values, records in labelled]
    return methods


def _varied(group: Sequence[RunRecord]) -> list[str]:
    configs = [(run.dataset, run.config()) for run in group]
    keys = list(dict.fromkeys(key for _, config in configs for key in config))
    varied = []
    for key in keys:
        if key == "random_words":  # the draws of a seed are averaged
            continue
        if key in PER_DATASET:
            by_dataset: dict[str, set[str]] = {}
            for dataset, config in configs:
                by_dataset.setdefault(dataset, set()).add(canonical(config.get(key)))
            differs = any(len(values) > 1 for values in by_dataset.values())
        else:
            # A run that failed early does not know the weights.
            known = [c for _, c in configs if key != "weights" or c[key] is not None]
            differs = len({canonical(config.get(key)) for config in known}) > 1
        if differs:
            varied.append(key)
    known = [config for _, config in configs if config["weights"] is not None]
    names = {canonical(config["backbone"]) for config in known}
    both = {canonical([config["backbone"], config["weights"]]) for config in known}
    if "weights" in varied and len(names) == len(both):
        varied.remove("weights")  # the name says it
    return varied


def common_settings(runs: Iterable[RunRecord]) -> dict[str, Any]:
    """Returns the settings that all runs have in common."""
    trained = [run.config() for run in runs if run.learner not in UNTRAINED]
    configs = trained or [run.config() for run in runs]
    first = configs[0]
    return {
        k: v for k, v in first.items() if all(canonical(c.get(k)) == canonical(v) for c in configs)
    }


def results_caption(common: Mapping[str, Any]) -> str:
    """Returns what the numbers of a table are, and the settings that all its rows share."""
    parts = ["Accuracy in %, mean ± standard deviation over seeds"]
    for key in ("backbone", "shots", "epochs", "views", "words"):
        if key in common and key in ("shots", "epochs"):
            parts.append(several(common[key], key.removesuffix("s")))
        elif key in common:
            parts.append(f"{'' if key == 'backbone' else f'{key} '}{setting_text(common[key])}")
    return ", ".join(parts)


def canonical(value: Any) -> str:
    """Returns a text that is equal for equal values, numbers being equal across types."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, sort_keys=True, default=str)


def setting_text(value: Any) -> str:
    """Returns a setting's value in a few characters."""
    if isinstance(value, float):
        return f"{value:g}"
    text = value if isinstance(value, str) else canonical(value)
    if len(text) == 64 and all(c in "0123456789abcdef" for c in text):
        return text[:8]
    return repr(text) if " " in text else text


def setting_order(value: Any) -> tuple[int, float, str]:
    """Returns a key that sorts numbers by size, before everything else by name."""
    if isinstance(value, int | float):
        return (0, float(value), "")
    return (1, 0.0, setting_text(value))
