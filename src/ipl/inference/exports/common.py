"""What all exports share: the check of their folder, their metadata, and what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ipl._version import __version__
from ipl.classifier import PromptClassifier
from ipl.support.errors import ConfigError, IplError
from ipl.support.files import check_writable


def check_export_folder(folder: Path) -> None:
    """Raises IplError unless `folder` can be created or is an empty folder."""
    check_writable(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise IplError(f"{folder} already exists; choose a new folder for the export.")


def metadata(classifier: PromptClassifier) -> dict[str, Any]:
    """Returns the prompt, its classes and backbone as plain values, as every export holds them."""
    config = classifier.as_dict()
    fields = ("learner", "prompt", "words", "classes", "backbone", "preprocessing")
    return {
        **{name: config[name] for name in fields},
        "logit_scale": classifier.learner_.backbone.logit_scale,
        "ipl_version": __version__,
    }


def require_fixed_texts(classifier: PromptClassifier, target: str) -> None:
    """Raises ConfigError if every image has text features of its own, as in CoCoOp."""
    learner = classifier.learner_
    if not learner.fixed_texts:
        raise ConfigError(
            f"{learner.name} cannot be exported as {target}: its prompts shift with every image, "
            "so there are no fixed text features; the text tower is needed at prediction."
        )


def require_plain_image_tower(classifier: PromptClassifier, target: str, advice: str) -> None:
    """Raises ConfigError if the image tower has prompts, as in MaPLe and PromptSRC."""
    learner = classifier.learner_
    if learner.prompts_images:
        raise ConfigError(
            f"{learner.name} cannot be exported as {target}: its prompts also enter the image "
            "tower, and features of the plain image tower do not match its text features; "
            f"{advice}."
        )
