"""LearnerSpec: what is known of a learner without torch and without a backbone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from ipl.datasets.benchmarks import PHOTO
from ipl.learners.hyperparameters import Hyperparameters
from ipl.prompts.layout import PromptLayout
from ipl.support.errors import ConfigError

CLASS_TEMPLATE = PHOTO  # a hand-made prompt, for learners that stay near one


class LearnerSpec(ABC):
    """A learner's name, hyperparameters and layout, from which settings are checked.

    `Learner` derives from it. The learners of the package describe themselves in
    `learners/published.py`, so that a command that trains nothing need not wait for torch.

    Attributes
    ----------
    name : str
        The name that `register` makes the class known by.
    prompts_images : bool
        Whether the learner also prompts the image tower; training and prediction then need pixels.
    wants_features : bool
        Whether the loss needs the features of the frozen image tower.
    deep_prompts : bool
        Whether layers beyond the first get vectors.
    uses_class_template : bool
        Whether the loss depends on `class_template`.
    recordable : bool
        Whether a step can be recorded in a CUDA graph; False if the loss branches on values.
    """

    name: ClassVar[str]
    prompts_images: ClassVar[bool] = False
    wants_features: ClassVar[bool] = True
    deep_prompts: ClassVar[bool] = False
    uses_class_template: ClassVar[bool] = False
    recordable: ClassVar[bool] = True

    @classmethod
    @abstractmethod
    def hyperparameters(cls, words: int, protocol: str = "base-to-novel") -> Hyperparameters:
        """Returns the published hyperparameters.

        Parameters
        ----------
        words : int
            The number of words in the prompt; 0 is the plain learner, without IPL.
        protocol : str, default "base-to-novel"
            The experiment that they were published for, one of `PROTOCOLS`.

        Returns
        -------
        Hyperparameters
            The hyperparameters.
        """

    @classmethod
    @abstractmethod
    def layout_for(cls, words: int, m: int) -> PromptLayout:
        """Returns the layout of the prompt.

        Parameters
        ----------
        words : int
            The number of word slots.
        m : int
            The number of soft vectors in a group.

        Returns
        -------
        PromptLayout
            The segments from SOS to EOS.
        """


def check_class_template(template: str) -> None:
    """Raises ConfigError unless a hand-made prompt has {} exactly once, for the class name."""
    if template.count("{}") != 1 or set("{}") & set(template.replace("{}", "")):
        raise ConfigError(
            f"class_template is {template!r}; it must contain {{}} once, for the class name."
        )
