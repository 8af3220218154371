"""CoOp (Zhou et al., 2022): soft vectors before the class name, trained with cross-entropy."""

from __future__ import annotations

from ipl.learners.learner import Learner
from ipl.learners.published import CoOpSpec
from ipl.learners.registry import register


@register
class CoOp(CoOpSpec, Learner):
    """The prompt `[V V V V] CLS .`, initialised from "a photo of a"; IPL's layout with words."""
