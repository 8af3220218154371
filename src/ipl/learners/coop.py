"""CoOp (Zhou et al., 2022): soft vectors before the class name, trained with cross-entropy."""

from __future__ import annotations

from ipl.learners.hyperparameters import Hyperparameters
from ipl.learners.learner import Learner
from ipl.learners.registry import register
from ipl.prompts.layout import ClassName, FixedText, PromptLayout, Soft

START = "a photo of a"


@register
class CoOp(Learner):
    """The prompt `[V V V V] CLS .`, initialised from "a photo of a"; IPL's layout with words."""

    name = "coop"

    @classmethod
    def hyperparameters(cls, words: int, protocol: str = "base-to-novel") -> Hyperparameters:
        if words:
            return Hyperparameters(epochs=100, interval=10, batch=32, lr=0.002, m=2)
        epochs = 50 if protocol == "cross-dataset" else 200
        return Hyperparameters(epochs=epochs, interval=10, batch=32, lr=0.002, m=4)

    @classmethod
    def layout_for(cls, words: int, m: int) -> PromptLayout:
        if words:
            return PromptLayout.interleaved(words, m)
        start = START if m == len(START.split()) else None
        return PromptLayout((Soft(m, init=start), ClassName(), FixedText(".")))
