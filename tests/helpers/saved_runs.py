"""Saved runs: made without a fit, and compared."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ipl.backbone.preprocessing import Preprocessing
from ipl.config import FitConfig
from ipl.learners.hyperparameters import Hyperparameters
from ipl.training.comparison import PROMPT, Comparison, Method
from ipl.training.history import EpochRecord, TrainingHistory
from ipl.training.result import FitResult, Trial
from ipl.words.selection import RankedWord
from tests.helpers.selections import make_selection, make_step

CLASSES = ("beach", "starry night")


def same_run(one: Path, other: Path) -> bool:
    """Returns whether two runs are the same but for the time that they took."""
    configs = [json.loads((run / "config.json").read_text()) for run in (one, other)]
    for config in configs:
        del config["training"]["history"]["seconds"]
        for step in (config["selection"] or {"steps": ()})["steps"]:
            del step["seconds"]
    tensors = [(run / "prompt.safetensors").read_bytes() for run in (one, other)]
    return bool(configs[0] == configs[1] and tensors[0] == tensors[1])


def make_result(**changes: Any) -> FitResult:
    """Returns a small prompt with one word, as a fit would save it, with other values."""
    step = make_step("stone", 0.5, runners_up=(RankedWord("sand", 0.25),))
    result = FitResult(
        config=FitConfig(words=1),
        hyperparameters=Hyperparameters(epochs=100, interval=10, batch=32, lr=0.002, m=2),
        prompt="[V V] *stone* [V V] {cls}.",
        words=("stone",),
        backbone={"name": "pocket", "weights_sha256": "ab" * 32, "precision": "fp32"},
        preprocessing=Preprocessing(64, 64, (0.5, 0.5, 0.5), (0.2, 0.2, 0.2)).as_dict(),
        classes=CLASSES,
        trained_classes=CLASSES,
        data="scenes",
        images=20,
        threads=1,
        train_accuracy=0.75,
        comparison=Comparison(CLASSES, (4, 4), (Method(PROMPT, "[V V]", (2, 2)),)),
        trials=(Trial(1, 0.75, 1.5),),
        history=TrainingHistory((EpochRecord(0, 0.002, 1.5, "stone"),), 2.5),
        image_hashes=(("ab" * 6,) * 10, ("p" + "cd" * 6,) * 10),
        selection=make_selection(step),
        ipl_version="0.0",
        tensors={"soft": torch.arange(12, dtype=torch.float32).reshape(4, 3)},
    )
    return replace(result, **changes)
