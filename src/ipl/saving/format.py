"""Reading and writing a saved prompt. Words are stored as words; no tensor belongs to a class."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from ipl.learners.registry import known_learners
from ipl.prompts.layout import PromptLayout
from ipl.saving.card import model_card
from ipl.saving.schema import FIELDS, POSITIVE, Shape, faults
from ipl.support.errors import ConfigError, SavedRunError
from ipl.support.files import (
    check_writable,
    is_folder,
    replace_folder,
    write_bytes,
    write_json,
    write_text,
)
from ipl.training.result import FitResult

FORMAT_VERSION = 1
CONFIG, TENSORS, CARD = "config.json", "prompt.safetensors", "README.md"


def check_target(folder: Path, overwrite: bool = False) -> None:
    """Raises SavedRunError if saving to `folder` would cost a user something."""
    check_writable(folder)
    if not folder.exists():
        return
    if not folder.is_dir():
        raise SavedRunError(f"{folder} is a file; a run is saved as a folder.")
    inside = {path.name for path in folder.iterdir()}
    if not inside:
        return
    if inside - {CONFIG, TENSORS, CARD} or not {CONFIG, TENSORS} <= inside:
        raise SavedRunError(f"{folder} holds other files; choose a new folder for the run.")
    if not overwrite:
        raise SavedRunError(
            f"{folder} holds a saved run already; choose another folder, or replace it with "
            "--overwrite (overwrite=True in Python)."
        )


def write_run(
    folder: Path, result: FitResult, overwrite: bool = False, where: str | None = None
) -> None:
    """Writes the three files into a folder that appears whole or not at all.

    `where` is what the card tells a reader to load it by.
    """
    check_target(folder, overwrite)
    with replace_folder(folder) as work:
        config = config_of(result)
        write_json(work / CONFIG, config)
        tensors = {
            name: tensor.detach().cpu().contiguous() for name, tensor in result.tensors.items()
        }
        write_bytes(work / TENSORS, save(tensors, metadata={"format": "pt"}))
        write_text(work / CARD, model_card(config, where or "path/to/this/folder"))


def config_of(result: FitResult) -> dict[str, Any]:
    """Returns what config.json says of a fit, as plain values."""
    return {"format": "ipl-prompt", "format_version": FORMAT_VERSION, **result.as_dict()}


def read_run(folder: Path) -> FitResult:
    """Returns a saved prompt, every field checked; raises SavedRunError with what is wrong."""
    if not is_folder(folder):
        raise SavedRunError(f"No saved run at {folder}: there is no such folder.")
    for name in (CONFIG, TENSORS):
        if not (folder / name).is_file():
            raise SavedRunError(f"{folder} is not a saved run: {name} is missing.")
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SavedRunError(f"{folder / CONFIG} is damaged: {error}.") from None
    _check_config(folder / CONFIG, config)
    if config["learner"] not in known_learners():
        raise SavedRunError(
            f"{folder} was made with the learner {config['learner']!r}, which is not known here; "
            "import it first, or install the package that announces it (entry point ipl.learners)."
        )
    try:
        tensors = load((folder / TENSORS).read_bytes())
    except (OSError, SafetensorError, ValueError) as error:
        raise SavedRunError(f"{folder / TENSORS} is damaged: {error}.") from None
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise SavedRunError(f"{folder / TENSORS} is damaged: {name} holds NaN or infinity.")
    try:
        return FitResult.from_dict(config, tensors)
    except ConfigError as error:
        raise SavedRunError(f"{folder / CONFIG} is damaged: {error}") from None


def _check_config(path: Path, config: Any) -> None:
    """Raises SavedRunError for a config.json that is not one, or that contradicts itself."""
    if not isinstance(config, Mapping) or config.get("format") != "ipl-prompt":
        raise SavedRunError(f"{path} does not describe an ipl prompt.")
    _check(path, config, {"format_version": POSITIVE})
    version = config["format_version"]
    if version > FORMAT_VERSION:
        raise SavedRunError(
            f"{path} has format version {version}; this ipl reads up to {FORMAT_VERSION}."
        )
    _check(path, config, FIELDS)
    try:
        _, words = PromptLayout.parse(config["prompt"])
    except ConfigError as error:
        raise SavedRunError(f"{path} is damaged: {error}") from None
    if list(words) != config["words"]:
        raise SavedRunError(f"{path} is damaged: words and prompt disagree.")
    steps = config["selection"]["steps"] if config["selection"] else []
    if len(steps) != len(words):
        raise SavedRunError(
            f"{path} is damaged: selection has {len(steps)} steps for {len(words)} words; each "
            "word has one."
        )


def _check(path: Path, config: Any, shape: Shape) -> None:
    for fault in faults(config, shape):
        raise SavedRunError(f"{path} is damaged: {fault}")
