"""A saved prompt to write, read and describe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from ipl.training.result import FitResult


@pytest.fixture(scope="session")
def make_saved() -> Callable[..., FitResult]:
    """Returns a maker of prompts that differ in the fields it is given."""
    return _make_saved


def _make_saved(**changes: Any) -> FitResult:
    """Returns a small prompt with one word, as a fit would save it."""
    step = {"word": "stone", "utility": 0.5, "redundancy": 0.0, "gain": 0.5, "loss": 1.5}
    values = {
        "learner": "coop",
        "prompt": "[V V] *stone* [V V] {cls}.",
        "words": ["stone"],
        "placeholder": "token",
        "backbone": {"name": "pocket", "weights_sha256": "ab" * 32, "precision": "fp32"},
        "preprocessing": {
            "resize": 64, "crop": 64, "mean": [0.5, 0.5, 0.5], "std": [0.2, 0.2, 0.2], "resample": 3
        },
        "classes": ["beach", "starry night"],
        "training": {
            "data": "scenes", "shots": 16, "images": 20, "seed": 1, "views": 0,
            "epochs": 100, "interval": 10, "batch": 32, "lr": 0.002, "m": 2,
        },
        "results": {"train_accuracy": 0.75, "held_out_accuracy": 0.5, "held_out_images": 8},
        "selection": {
            "words": ["stone"], "steps": [{**step, "runners_up": [], "scored": 9, "seconds": 0.1}],
            "loss_without_words": 2.0, "template": "a photo of a {cls}, {words}",
            "lambda_": 0.1, "preset": "paper", "word_embedding": "text",
            "pool_size": 9, "pool_sha256": "cd" * 32,
        },
        "ipl_version": "0.0",
    }  # fmt: skip
    tensors = {"soft": torch.arange(12, dtype=torch.float32).reshape(4, 3)}
    return replace(FitResult.from_dict(values, tensors), **changes)
