"""Learners by name. Each is a layout, the places where its prompts enter, its loss, its recipe."""

from ipl.learners.base import Learner
from ipl.learners.coop import CoOp
from ipl.learners.recipe import Recipe
from ipl.learners.registry import known_learners, learner_class, register

__all__ = ["CoOp", "Learner", "Recipe", "known_learners", "learner_class", "register"]
