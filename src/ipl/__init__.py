"""Teach a frozen CLIP a new task from a few images per class, with a prompt a person can read."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ipl._version import __version__ as __version__

if TYPE_CHECKING:
    from ipl.backbone.backbone import Backbone as Backbone
    from ipl.backbone.loading import load_backbone as load_backbone
    from ipl.classifier import PromptClassifier as PromptClassifier
    from ipl.config import FitConfig as FitConfig
    from ipl.datasets.benchmark_readers import read_benchmark as read_benchmark
    from ipl.datasets.dataset import Dataset as Dataset
    from ipl.datasets.readers import read_dataset as read_dataset
    from ipl.select import select_words as select_words
    from ipl.support.errors import IplError as IplError
    from ipl.words.pool import Pool as Pool

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


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'ipl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_MODULES, "__version__"])
