"""Methods: which runs belong to one row of a table, and what the row is called."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ipl.bench import paper_numbers as paper
from ipl.bench.arms import ARMS, LINEAR_PROBE, UNTRAINED, WORDS_ONLY, ZERO_SHOT
from ipl.bench.records import RunRecord
from ipl.bench.run import canonical, varying
from ipl.config import CHOSEN, EMPTY, GIVEN, PAPER, PLAIN, RANDOM

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
# May differ from dataset to dataset within a row, as they do in the paper.
CAPTION = ("backbone", "shots", "words", "epochs", "views")  # the settings that tell most
PER_DATASET = ("words", "lambda_", "epochs", "class_template", "words_given")
SETTING_NAMES = {"lambda_": "lambda", "interval": "t", "epochs": "T", "template": "sentence"}
SCORING_START = "a photo of a {cls}, "  # of every published sentence that scores words
K_BY_ACCURACY = "k by training accuracy"  # what `words="paper"` means
PUBLISHED = "as in the paper"  # in place of a value that is the paper's own for each dataset


@dataclass(frozen=True)
class MethodRow:
    """One row: an arm of a learner, and the settings that tell it from others."""

    learner: str
    arm: str
    varied: dict[str, Any]
    runs: tuple[RunRecord, ...] = field(repr=False)

    @property
    def is_published(self) -> bool:
        """Whether the arm is one of the paper's rows: with words, without, zero-shot."""
        return self.arm in (PLAIN, CHOSEN, ZERO_SHOT)

    @property
    def label(self) -> str:
        """The learner and the arm, with the settings that tell the row from others."""
        return learner_name(self.learner) + ARM_NAMES.get(self.arm, "") + self._varied_text

    @property
    def learner_label(self) -> str:
        """The learner, with the settings that tell the row from others."""
        return learner_name(self.learner) + self._varied_text

    @property
    def _varied_text(self) -> str:
        values = dict(self.varied)
        if all(run.words == PAPER for run in self.runs):
            values["words"] = PAPER
        return f" ({varied_text(values)})" if values else ""


def varied_text(values: Mapping[str, Any]) -> str:
    """Settings with their values, as names of rows have them."""
    return ", ".join(
        K_BY_ACCURACY
        if (key, value) == ("words", PAPER)
        else f"{SETTING_NAMES.get(key, key)} {setting_text(value)}"
        for key, value in values.items()
    )


def learner_name(learner: str) -> str:
    return LEARNER_NAMES.get(learner, learner)


def learner_order(runs: Iterable[RunRecord]) -> list[str]:
    """The learners in the paper's order, those of others by name."""
    return [*LEARNER_NAMES, *sorted({run.learner for run in runs} - set(LEARNER_NAMES))]


def group_methods(runs: Sequence[RunRecord]) -> list[MethodRow]:
    """The rows of a table: zero-shot first, then learners in the paper's order.

    Runs of a learner are one row unless a setting differs, between any of them or, for what may
    change with the dataset, within one dataset.
    """
    groups: dict[tuple[str, str], list[RunRecord]] = {}
    for run in runs:
        groups.setdefault((run.learner, run.arm), []).append(run)
    learners, arms = learner_order(runs), list(ARMS)
    methods = []
    for learner, arm in sorted(groups, key=lambda k: (learners.index(k[0]), arms.index(k[1]))):
        varied = varied_settings(groups[learner, arm])
        rows: dict[str, MethodRow] = {}
        for run in groups[learner, arm]:
            values = {key: value_of(run, key, by_paper) for key, by_paper in varied.items()}
            row = rows.setdefault(canonical(values), MethodRow(learner, arm, values, ()))
            rows[canonical(values)] = replace(row, runs=(*row.runs, run))
        methods += sorted(rows.values(), key=lambda m: [*map(setting_order, m.varied.values())])
    return methods


def varied_settings(group: Sequence[RunRecord]) -> dict[str, bool]:
    """The settings that tell runs of one arm apart, and whether the paper's values are one.

    They are if datasets were run with different values, so that one row has each dataset's own.
    """
    configs = [(run.dataset, run.config()) for run in group]
    varied = {}
    for key in dict.fromkeys(key for _, config in configs for key in config):
        if key == "random_words":  # the draws of a seed are averaged
            continue
        by_dataset: dict[str, set[str]] = {}
        for dataset, config in configs:
            if key != "weights" or config[key] is not None:  # a run that failed early has no hash
                by_dataset.setdefault(dataset, set()).add(canonical(config.get(key)))
        several_values = len(set().union(*by_dataset.values())) > 1
        if key in PER_DATASET:
            several_values = any(len(values) > 1 for values in by_dataset.values())
        if several_values:
            varied[key] = len(set(map(frozenset, by_dataset.values()))) > 1
    if "weights" in varied and "backbone" in varied:  # the name says it
        del varied["weights"]
    return varied


def value_of(run: RunRecord, key: str, by_paper: bool = False) -> Any:
    """A run's value of a setting, `PUBLISHED` for the paper's own if `by_paper`."""
    value = run.config().get(key)
    published = paper.BY_DATASET.get(key, {})
    if by_paper and run.dataset in published and value == published[run.dataset]:
        return PUBLISHED
    return value


def common_settings(runs: Iterable[RunRecord]) -> dict[str, Any]:
    """The settings that all runs have in common."""
    trained = [run.config() for run in runs if run.learner not in UNTRAINED]
    configs = trained or [run.config() for run in runs]
    varied = varying(configs)
    return {name: value for name, value in configs[0].items() if name not in varied}


def common_text(runs: Sequence[RunRecord]) -> str:
    """The settings that tell most about runs, as far as all have the same."""
    common = common_settings(runs)
    return varied_text({name: common[name] for name in CAPTION if name in common})


def setting_text(value: Any) -> str:
    """A setting's value in a few characters."""
    if isinstance(value, float):
        return f"{value:g}"
    text = value if isinstance(value, str) else canonical(value)
    if re.fullmatch("[0-9a-f]{64}", text):
        return text[:8]
    return text.removeprefix(SCORING_START)


def setting_order(value: Any) -> tuple[int, float, str]:
    """A key that sorts numbers by size, before everything else by name."""
    if isinstance(value, int | float):
        return (0, float(value), "")
    return (1, 0.0, setting_text(value))
