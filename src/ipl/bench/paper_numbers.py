"""What was published: the paper's numbers in %, and the settings and schedules they came from.

They are for CLIP ViT-B/16, 16 shots and seeds 1 to 3. The cells of its tables are in
`ipl/bench/paper`; the README there names the sources. A number is as printed where it follows from
the cells that it is computed from, and recomputed where it does not. That concerns some HMs, the
cross-dataset averages of the rows with words (the printed ones mix ten and eleven columns) and one
average over domains.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from importlib import resources
from statistics import mean
from typing import Any

from ipl.datasets.benchmarks import BENCHMARKS
from ipl.metrics import harmonic_mean

BACKBONE = "openai/clip-vit-base-patch16"
SHOTS = 16
SEEDS = (1, 2, 3)
# What a fit has another default of, and the published runs had.
PAPER_SETTINGS: dict[str, Any] = {
    "learner": "coop",
    "shots": SHOTS,
    "utility": "paper",
    "head": False,
}
COOP_FEW_SHOT_EPOCHS = ((1, 50), (4, 100))  # up to so many shots; 200 with more
PROMPTSRC_FEW_SHOT_EPOCHS = 50

SIZES = {name: (one.classes, one.test_images) for name, one in BENCHMARKS.items()}
ELEVEN = tuple(name for name, one in BENCHMARKS.items() if not one.is_variant)
VARIANTS = tuple(name for name, one in BENCHMARKS.items() if one.is_variant)
SOURCE, TARGETS = ELEVEN[0], ELEVEN[1:]

# The average over the eleven sets. It is not in the paper, but in CoCoOp's (Zhou et al., 2022).
ZERO_SHOT = {"base": 69.34, "novel": 74.22, "hm": 71.70}
ZERO_SHOT_SOURCE = "The zero-shot row is CoCoOp's (Zhou et al., 2022), not this paper's."

PEAK_MEMORY = {False: 3.69, True: 4.66}  # of training in GB, without and with words
TRAVERSAL_SECONDS = 252  # on average, to score every word of the pool once

AVERAGE = "average"  # in place of a dataset
ROUNDING = 0.011  # two numbers that were rounded to 0.01 may differ by that
Row = tuple[str, bool]  # a learner, and whether it has words
Values = dict[str, float]  # by measure, or by dataset


@cache
def rows(name: str) -> tuple[Mapping[str, str], ...]:
    """The lines of a file in `ipl/bench/paper`, by column."""
    path = resources.files("ipl.bench") / "paper" / f"{name}.csv"
    return tuple(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


# -- settings -------------------------------------------------------------------------------------

# k and lambda of each set; the learners share them.
WORDS = {line["dataset"]: int(line["words"]) for line in rows("settings")}
LAMBDA = {line["dataset"]: float(line["lambda"]) for line in rows("settings")}
BY_DATASET: Mapping[str, Mapping[str, int | float]] = {"words": WORDS, "lambda_": LAMBDA}


def schedule(
    protocol: str, dataset: str, learner: str, shots: int, with_words: bool
) -> dict[str, int]:
    """The published settings that depend on the dataset or the shots, by name.

    What is not here is trained with the learner's settings for the protocol. That is inferred for
    few-shot runs: nothing was published for CoCoOp, KgCoOp, MaPLe and CoOp under IPL there, nor for
    PromptSRC on other datasets. PromptSRC keeps its few-shot schedule under IPL, as it keeps its
    other one.
    """
    known = next((line for line in rows("settings") if line["dataset"] == dataset), None)
    if learner == "coop" and not with_words:
        if known and known["coop_epochs"] == "50":
            return {"epochs": 50}
        if protocol == "few-shot":
            epochs = [epochs for most, epochs in COOP_FEW_SHOT_EPOCHS if shots <= most]
            return {"epochs": min(epochs, default=200)}
    if learner == "promptsrc" and protocol == "few-shot" and known:
        return {
            "epochs": PROMPTSRC_FEW_SHOT_EPOCHS,
            "average_mean": int(known["promptsrc_mean"]),
            "average_std": int(known["promptsrc_std"]),
        }
    return {}


# -- numbers --------------------------------------------------------------------------------------


@cache
def base_to_novel() -> dict[Row, dict[str, Values]]:
    """Base, novel and hm of each row on each dataset, and their average."""
    table: dict[Row, dict[str, Values]] = {("zero-shot", False): {AVERAGE: ZERO_SHOT}}
    for line in rows("base_to_novel"):
        values = _with_hm(line["base"], line["novel"], line["hm_printed"])
        table.setdefault(_row(line), {})[line["dataset"]] = values
    return table


@cache
def cross_dataset() -> dict[Row, dict[str, Values]]:
    """The accuracy of each row on the source and the targets, and the targets' average."""
    return {_row(line): _with_average(line, SOURCE, TARGETS) for line in rows("cross_dataset")}


@cache
def domain() -> dict[Row, dict[str, Values]]:
    """The accuracy of each row on the source and its variants, and their average."""
    columns = dict(zip(("v2", "sketch", "a", "r"), VARIANTS, strict=True))
    lines = [{columns.get(key, key): cell for key, cell in x.items()} for x in rows("domain")]
    return {_row(line): _with_average(line, SOURCE, VARIANTS) for line in lines}


@cache
def without_penalty() -> dict[str, Values]:
    """Base, novel and hm of CoOp + IPL without the penalty, by dataset."""
    return {
        line["dataset"]: _with_hm(line["base_without"], line["novel_without"], line["hm_without"])
        for line in rows("penalty")
    }


def penalty_average(end: str) -> float:
    """The average HM in its table of the penalty: the mean of cells, two of them misprinted.

    `end` is `with` or `without`.
    """
    (line,) = (line for line in rows("penalty") if line["dataset"] == AVERAGE)
    return float(line[f"hm_{end}"])


@cache
def templates() -> dict[str, Values]:
    """The HM of CoOp + IPL by sentence that scores words, and by dataset."""
    return {
        f"a photo of a {{cls}}, {line['template']} {{words}}": {
            name: float(cell) for name, cell in line.items() if name != "template"
        }
        for line in rows("template")
    }


def rated_words(dataset: str, whose: str) -> tuple[str, float] | None:
    """Words of a dataset and the mean of three people's ratings, from 1 to 5; None if unknown.

    `whose` is `ipl` for those that the search chose, `coop` for those nearest to CoOp's vectors.
    """
    for line in rows("words"):
        if line["dataset"] == dataset and line[f"{whose}_words"]:
            return line[f"{whose}_words"], float(line[f"{whose}_rating"])
    return None


def _row(line: Mapping[str, str]) -> Row:
    learner = line["method"].removesuffix(" + IPL")
    return learner.lower(), learner != line["method"]


def _with_hm(base: str, novel: str, printed: str) -> Values:
    b, n = float(base), float(novel)
    return {"base": b, "novel": n, "hm": _printed_or(harmonic_mean(b, n), printed)}


def _with_average(
    line: Mapping[str, str], source: str, targets: tuple[str, ...]
) -> dict[str, Values]:
    values = {name: float(line[name]) for name in (source, *targets)}
    average = mean(values[name] for name in targets)
    values[AVERAGE] = _printed_or(average, line["average_printed"])
    return {name: {"accuracy": value} for name, value in values.items()}


def _printed_or(recomputed: float, printed: str) -> float:
    """The printed number if it is the recomputed one up to rounding, else the latter."""
    return float(printed) if abs(float(printed) - recomputed) < ROUNDING else round(recomputed, 2)
