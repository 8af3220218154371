"""Prompt learners: one file each, registered by name.

A learner of your own derives from `Learner` and is made known with `register`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ipl.learners.hyperparameters import PROTOCOLS, Hyperparameters
from ipl.learners.registry import known_learners, learner_class, register
from ipl.learners.spec import CLASS_TEMPLATE

if TYPE_CHECKING:
    from ipl.learners.cocoop import CoCoOp
    from ipl.learners.coop import CoOp
    from ipl.learners.kgcoop import KgCoOp
    from ipl.learners.learner import Batch, Learner
    from ipl.learners.maple import MaPLe
    from ipl.learners.promptsrc import PromptSRC

# Imported on first use: they need torch.
_MODULES = {
    "Batch": "ipl.learners.learner",
    "CoCoOp": "ipl.learners.cocoop",
    "CoOp": "ipl.learners.coop",
    "KgCoOp": "ipl.learners.kgcoop",
    "Learner": "ipl.learners.learner",
    "MaPLe": "ipl.learners.maple",
    "PromptSRC": "ipl.learners.promptsrc",
}

__all__ = [
    "CLASS_TEMPLATE",
    "PROTOCOLS",
    "Batch",
    "CoCoOp",
    "CoOp",
    "Hyperparameters",
    "KgCoOp",
    "Learner",
    "MaPLe",
    "PromptSRC",
    "known_learners",
    "learner_class",
    "register",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'ipl.learners' has no attribute {name!r}")
