"""What was published for single datasets: the paper's k and lambda, and the learners' schedules."""

from __future__ import annotations

from functools import cache
from typing import Any

from ipl.bench.tables.paper import rows

# What a fit has another default of, and the published runs had.
PAPER_SETTINGS: dict[str, Any] = {"learner": "coop", "shots": 16, "utility": "paper", "head": False}
COOP_FEW_SHOT_EPOCHS = ((1, 50), (4, 100))  # up to so many shots; 200 with more
PROMPTSRC_FEW_SHOT_EPOCHS = 50


@cache
def published_settings() -> dict[str, dict[str, Any]]:
    """The lines of `paper/settings.csv` by dataset, numbers as numbers."""
    return {
        line["dataset"]: {
            name: float(cell) if "." in cell else int(cell)
            for name, cell in line.items()
            if name != "dataset"
        }
        for line in rows("settings")
    }


def paper_value(setting: str, dataset: str) -> Any:
    """The paper's words or lambda for a dataset, None if it has none."""
    if setting not in ("words", "lambda"):
        return None
    return published_settings().get(dataset, {}).get(setting)


def schedule(
    protocol: str, dataset: str, learner: str, shots: int, with_words: bool
) -> dict[str, Any]:
    """The published settings that depend on the dataset or the shots, by name.

    What is not here is trained with the learner's settings for the protocol. That is inferred for
    few-shot runs: nothing was published for CoCoOp, KgCoOp, MaPLe and CoOp under IPL there, nor for
    PromptSRC on other datasets. PromptSRC keeps its few-shot schedule under IPL, as it keeps its
    other one.
    """
    known = published_settings().get(dataset, {})
    if learner == "coop" and not with_words:
        if known.get("coop_epochs") == 50:
            return {"epochs": 50}
        if protocol == "few-shot":
            epochs = [epochs for most, epochs in COOP_FEW_SHOT_EPOCHS if shots <= most]
            return {"epochs": min(epochs, default=200)}
    if learner == "promptsrc" and protocol == "few-shot" and known:
        return {
            "epochs": PROMPTSRC_FEW_SHOT_EPOCHS,
            "average_mean": known["promptsrc_mean"],
            "average_std": known["promptsrc_std"],
        }
    return {}
