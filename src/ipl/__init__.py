"""Teach a frozen CLIP a new task from a few images per class, with a prompt a person can read."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ipl._version import __version__

if TYPE_CHECKING:
    from ipl.backbone.backbone import Backbone
    from ipl.backbone.loading import load_backbone
    from ipl.classifier import PromptClassifier
    from ipl.config import FitConfig
    from ipl.datasets.benchmark_readers import read_benchmark
    from ipl.datasets.dataset import Dataset
    from ipl.datasets.readers import read_dataset
    from ipl.select import select_words
    from ipl.support.errors import IplError
    from ipl.words.pool import Pool

# Imported on first use: `ipl --help` should not wait for torch.
_MODULES = {
    "Backbone": "ipl.backbone.backbone",
    "Dataset": "ipl.datasets.dataset",
    "FitConfig": "ipl.config",
    "IplError": "ipl.support.errors",
    "Pool": "ipl.words.pool",
    "PromptClassifier": "ipl.classifier",
    "load_backbone": "ipl.backbone.loading",
    "read_benchmark": "ipl.datasets.benchmark_readers",
    "read_dataset": "ipl.datasets.readers",
    "select_words": "ipl.select",
}

__all__ = [
    "Backbone",
    "Dataset",
    "FitConfig",
    "IplError",
    "Pool",
    "PromptClassifier",
    "__version__",
    "load_backbone",
    "read_benchmark",
    "read_dataset",
    "select_words",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'ipl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
