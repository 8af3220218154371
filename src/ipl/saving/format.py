"""The saved form of a fit: config.json, prompt.safetensors and a model card.

Words are stored as words, and no tensor belongs to a class.
"""

from __future__ import annotations

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
from ipl.saving.run_folder import (
    CARD,
    CONFIG,
    FORMAT_VERSION,
    TENSORS,
    check_target,
    read_config,
)
from ipl.support.errors import ConfigError, SavedRunError, brief
from ipl.support.files import (
    replace_folder,
    write_bytes,
    write_json,
    write_text,
)
from ipl.support.hub import is_on_hub
from ipl.training.result import FitResult

PLACEHOLDER_PATH = "path/to/this/folder"  # in the card of a run that is not on the hub


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
    values = {
        **config,
        "base_model": name if is_on_hub(name) else None,
        "location": location,
        "about_words": FitConfig.from_dict(config["config"]).about_words,
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
        A folder that `write_run` wrote.

    Returns
    -------
    FitResult
        The result of the fit, without a learner.

    Raises
    ------
    SavedRunError
        If there is no saved run in the folder, or it is damaged; the message says what is wrong.
    """
    config = read_config(folder)
    if (learner := config.get("learner")) not in known_learners():
        raise SavedRunError(
            f"{folder} was trained with the learner {brief(learner)}, which is not installed; "
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
