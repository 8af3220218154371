"""What all exports share: where they may be written, what they say, what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ipl._version import __version__
from ipl.classifier import PromptClassifier
from ipl.support.errors import ConfigError, IplError
from ipl.support.files import check_writable


def check_folder(folder: Path) -> None:
    """Raises IplError unless an export can be put into a new or empty folder."""
    check_writable(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise IplError(f"{folder} is there already; choose a new folder for the export.")


def facts(classifier: PromptClassifier) -> dict[str, Any]:
    """Returns what an export says of its prompt, as plain values."""
    config = classifier.as_dict()
    told = ("learner", "prompt", "words", "classes", "backbone", "preprocessing")
    return {
        **{name: config[name] for name in told},
        "logit_scale": classifier.learner_.backbone.logit_scale,
        "ipl_version": __version__,
    }


def refuse_moving_texts(classifier: PromptClassifier, what: str) -> None:
    """Raises ConfigError if every image has text features of its own, as in CoCoOp."""
    learner = classifier.learner_
    if not learner.fixed_texts:
        raise ConfigError(
            f"{learner.name} cannot be exported as {what}: its prompts shift with every image, "
            "so there are no fixed text features; the text tower is needed at prediction."
        )


def refuse_image_prompts(classifier: PromptClassifier, what: str, instead: str) -> None:
    """Raises ConfigError if the image tower has prompts, as in MaPLe and PromptSRC."""
    learner = classifier.learner_
    if learner.prompts_images:
        raise ConfigError(
            f"{learner.name} cannot be exported as {what}: its prompts also enter the image tower, "
            f"and features of the plain image tower do not match its classes; {instead}."
        )
