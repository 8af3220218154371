"""Teach a frozen CLIP a new task from a few images per class, with a prompt a person can read."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ipl._version import __version__

if TYPE_CHECKING:
    from ipl.backbone import Backbone, load_backbone
    from ipl.classifier import PromptClassifier
    from ipl.datasets import Dataset, read_benchmark, read_dataset
    from ipl.errors import IplError
    from ipl.lexicon import Pool
    from ipl.selection import select_words

# Loaded on first use: `ipl --help` should not wait for torch.
_HOMES = {
    "Backbone": "ipl.backbone",
    "Dataset": "ipl.datasets",
    "IplError": "ipl.errors",
    "Pool": "ipl.lexicon",
    "PromptClassifier": "ipl.classifier",
    "load_backbone": "ipl.backbone",
    "read_benchmark": "ipl.datasets",
    "read_dataset": "ipl.datasets",
    "select_words": "ipl.selection",
}

__all__ = [
    "Backbone",
    "Dataset",
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
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'ipl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
