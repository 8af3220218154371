"""Prompt learners: one file each, registered by name.

A learner of your own derives from `Learner`, passes `check_learner` and is made known with
`register`. One that comes with ipl is imported here.
"""

from ipl.learners.cocoop import CoCoOp
from ipl.learners.contract import check_learner
from ipl.learners.coop import CoOp
from ipl.learners.hyperparameters import PROTOCOLS, Hyperparameters
from ipl.learners.kgcoop import KgCoOp
from ipl.learners.learner import Batch, Learner
from ipl.learners.maple import MaPLe
from ipl.learners.promptsrc import PromptSRC
from ipl.learners.registry import known_learners, learner_class, register

__all__ = [
    "PROTOCOLS",
    "Batch",
    "CoCoOp",
    "CoOp",
    "Hyperparameters",
    "KgCoOp",
    "Learner",
    "MaPLe",
    "PromptSRC",
    "check_learner",
    "known_learners",
    "learner_class",
    "register",
]
