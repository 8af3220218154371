"""The saved form of a fit: config.json, prompt.safetensors and a model card.

Words are stored as words, and no tensor belongs to a class.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from jinja2 import Environment, StrictUndefined
from safetensors import SafetensorError
from safetensors.torch import load, save

from ipl.config import FitConfig
from ipl.display.markdown import code_span
from ipl.display.table import escape_markdown
from ipl.learners.registry import known_learners
from ipl.prompts.layout import PromptLayout
from ipl.saving.schema import FIELDS, POSITIVE, Shape, faults
from ipl.support.errors import ConfigError, SavedRunError
from ipl.support.files import (
    check_writable,
    is_folder,
    recover_folder,
    replace_folder,
    write_bytes,
    write_json,
    write_text,
)
from ipl.support.hub import is_on_hub
from ipl.training.result import FitResult

FORMAT_VERSION = 1
CONFIG, TENSORS, CARD = "config.json", "prompt.safetensors", "README.md"
PLACEHOLDER_PATH = "path/to/this/folder"  # in the card of a run that is not on the hub


def check_target(folder: Path, overwrite: bool = False) -> None:
    """Raises SavedRunError if a run cannot be saved to `folder` without the loss of other files."""
    check_writable(folder)
    if not folder.exists():
        return
    if not folder.is_dir():
        raise SavedRunError(f"{folder} is a file; a run is saved as a folder.")
    names = {path.name for path in folder.iterdir()}
    if not names:
        return
    if names - {CONFIG, TENSORS, CARD} or not {CONFIG, TENSORS} <= names:
        raise SavedRunError(f"{folder} contains other files; choose a new folder for the run.")
    if not overwrite:
        raise SavedRunError(
            f"{folder} already contains a saved run; choose another folder, or replace it with "
            "--overwrite (overwrite=True in Python)."
        )


def write_run(
    folder: Path, result: FitResult, overwrite: bool = False, location: str = PLACEHOLDER_PATH
) -> None:
    """Writes the result of a fit into a folder.

    The folder appears with all three files, or not at all.

    Parameters
    ----------
    folder : Path
        The folder; it must be new or empty, unless it contains a run that may be replaced.
    result : FitResult
        The result of a fit.
    overwrite : bool, default False
        Whether a saved run in that folder may be replaced.
    location : str
        What the card's examples load the run from: a folder, or its name on the hub.

    Raises
    ------
    SavedRunError
        If the folder contains other files, or a run that may not be replaced.
    """
    with replace_folder(folder, overwrite) as work:
        check_target(folder, overwrite)
        config = config_of(result)
        write_json(work / CONFIG, config)
        tensors = {
            name: tensor.detach().cpu().contiguous() for name, tensor in result.tensors.items()
        }
        write_bytes(work / TENSORS, save(tensors, metadata={"format": "pt"}))
        write_text(work / CARD, model_card(config, location))


def config_of(result: FitResult) -> dict[str, Any]:
    """Returns the content of config.json, as plain values."""
    return {"format": "ipl-prompt", "format_version": FORMAT_VERSION, **result.as_dict()}


def model_card(config: Mapping[str, Any], location: str = PLACEHOLDER_PATH) -> str:
    """Returns README.md, a model card in the format of Hugging Face.

    Parameters
    ----------
    config : mapping
        The content of config.json.
    location : str
        What the examples load the run from: a folder, or its name on the hub.

    Returns
    -------
    str
        The text of the card.
    """
    source = (files("ipl.saving") / "card.md.jinja").read_text(encoding="utf-8")
    environment = Environment(
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_as_markdown,
    )
    environment.filters |= {
        "code": lambda text: _Markdown(code_span(text)),
        "verbatim": _Markdown,
    }
    name = config["backbone"]["name"]
    settings = config.get("config", {"words": len(config["words"])})  # 0.1.0 did not write it
    values = {
        **config,
        "base_model": name if is_on_hub(name) else None,
        "location": location,
        "about_words": FitConfig.from_dict(settings, strict=False).about_words,
    }
    return environment.from_string(source).render(values)


class _Markdown(str):
    """A text that is Markdown already."""


def _as_markdown(value: Any) -> Any:
    """Returns a value for the card; names of classes and data may hold markup."""
    plain = isinstance(value, str) and not isinstance(value, _Markdown)
    return escape_markdown(value) if plain else value


def read_run(folder: Path) -> FitResult:
    """Reads the saved form of a fit, and checks every field.

    Parameters
    ----------
    folder : Path
        A folder that `write_run` wrote, with this version or an earlier one.

    Returns
    -------
    FitResult
        The result of the fit, without a learner.

    Raises
    ------
    SavedRunError
        If there is no saved run in the folder, or it is damaged; the message says what is wrong.
    """
    recover_folder(folder)
    if not is_folder(folder):
        raise SavedRunError(f"No saved run at {folder}: there is no such folder.")
    for name in (CONFIG, TENSORS):
        if not (folder / name).is_file():
            raise SavedRunError(f"{folder} is not a saved run: {name} is missing.")
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except OSError as error:
        raise SavedRunError(f"{folder / CONFIG} cannot be read: {error}.") from None
    except (ValueError, RecursionError) as error:
        raise SavedRunError(f"{folder / CONFIG} is not valid JSON: {error}.") from None
    _check_config(folder / CONFIG, config)
    if config["learner"] not in known_learners():
        raise SavedRunError(
            f"{folder} was trained with the learner {config['learner']!r}, which is not installed; "
            "import it first, or install the package that announces it (entry point ipl.learners)."
        )
    try:
        tensors = load((folder / TENSORS).read_bytes())
    except (OSError, SafetensorError, ValueError) as error:
        raise SavedRunError(f"{folder / TENSORS} is damaged: {error}.") from None
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise SavedRunError(f"{folder / TENSORS} is damaged: {name} contains NaN or infinity.")
    try:
        return FitResult.from_dict(config, tensors)
    except ConfigError as error:
        raise SavedRunError(f"{folder / CONFIG} is damaged: {error}") from None


def _check_config(path: Path, config: Any) -> None:
    """Raises SavedRunError if config.json is not one of ours, or contradicts itself."""
    if not isinstance(config, Mapping) or config.get("format") != "ipl-prompt":
        raise SavedRunError(f"{path} does not describe an ipl prompt.")
    _check(path, config, {"format_version": POSITIVE})
    version = config["format_version"]
    if version > FORMAT_VERSION:
        raise SavedRunError(
            f"{path} has format version {version}; this ipl reads versions up to {FORMAT_VERSION}."
        )
    _check(path, config, FIELDS)
    try:
        _, words = PromptLayout.parse(config["prompt"])
    except ConfigError as error:
        raise SavedRunError(f"{path} is damaged: {error}") from None
    if list(words) != config["words"]:
        raise SavedRunError(f"{path} is damaged: the words differ from those in the prompt.")
    settings = config.get("config", {})
    unsearched = any(settings.get(name) is not None for name in ("words_given", "random_words"))
    steps = config["selection"]["steps"] if config["selection"] else []
    if len(steps) != len(words) and not (unsearched and not steps):
        raise SavedRunError(
            f"{path} is damaged: selection has {len(steps)} steps for {len(words)} words; each "
            "word has one."
        )


def _check(path: Path, config: Any, shape: Shape) -> None:
    for fault in faults(config, shape):
        raise SavedRunError(f"{path} is damaged: {fault}")
