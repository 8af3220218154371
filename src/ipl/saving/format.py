"""The saved form of a fit: config.json, prompt.safetensors and a model card.

Words are stored as words, and no tensor belongs to a class.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from ipl.config import FitConfig
from ipl.display.page import environment
from ipl.display.table import code_span, escape_markdown
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
from ipl.training.result import HEAD_TENSORS, FitResult

LARGEST = 1e18  # of a trained number
PLACEHOLDER_PATH = "path/to/this/folder"  # in the card of a run that is not on the hub


def write_run(
    folder: Path, result: FitResult, overwrite: bool = False, location: str = PLACEHOLDER_PATH
) -> None:
    """Write the result of a fit into a folder, with all three files or not at all.

    The folder must be new or empty, unless it contains a run that may be replaced. `location` is
    what the card's examples load the run from: a folder, or its name on the hub.
    """
    with replace_folder(folder, overwrite) as work:
        check_target(folder, overwrite)
        config = config_of(result)
        write_json(work / CONFIG, config)
        tensors = dict(result.tensors)
        if result.head is not None:
            tensors |= zip(HEAD_TENSORS, (result.head.weight, result.head.bias), strict=True)
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        write_bytes(work / TENSORS, save(tensors, metadata={"format": "pt"}))
        write_text(work / CARD, model_card(config, location))


def config_of(result: FitResult) -> dict[str, Any]:
    """The content of config.json, as plain values."""
    return {"format": "ipl-prompt", "format_version": FORMAT_VERSION, **result.as_dict()}


def model_card(config: Mapping[str, Any], location: str = PLACEHOLDER_PATH) -> str:
    """README.md, a model card in the format of Hugging Face."""
    source = (files("ipl.saving") / "card.md.jinja").read_text(encoding="utf-8")
    jinja = environment(finalize=_as_markdown)
    jinja.filters |= {"code": lambda text: _Markdown(code_span(text)), "verbatim": _Markdown}
    name = config["backbone"]["name"]
    values = {
        **config,
        "base_model": name if is_on_hub(name) else None,
        "location": location,
        "words_from": FitConfig.from_dict(config["config"]).about_words,
    }
    return jinja.from_string(source).render(values)


class _Markdown(str):
    """A text that is Markdown already."""


def _as_markdown(value: Any) -> Any:
    """A value for the card; names of classes and data may hold markup."""
    plain = isinstance(value, str) and not isinstance(value, _Markdown)
    return escape_markdown(value) if plain else value


def read_run(folder: Path) -> FitResult:
    """Read the saved form of a fit and check every field; the result has no learner."""
    config = read_config(folder)
    if (learner := config.get("learner")) not in known_learners():
        raise SavedRunError(
            f"{folder} was trained with the learner {brief(learner)}, which is not installed; "
            "import it first, or install the package that announces it (entry point ipl.learners)."
        )
    try:
        tensors = load((folder / TENSORS).read_bytes())
    except KeyError as error:  # a type that this version of safetensors does not know
        raise SavedRunError(
            f"{folder / TENSORS} is damaged: it has numbers of type {error}."
        ) from None
    except (OSError, SafetensorError, ValueError) as error:
        raise SavedRunError(f"{folder / TENSORS} is damaged: {error}.") from None
    for name, tensor in tensors.items():
        # Squares of larger numbers are infinite in fp32; of some types there are no comparisons.
        if tensor.dtype != torch.float32 or not bool((tensor.abs() < LARGEST).all()):
            raise SavedRunError(
                f"{folder / TENSORS} is damaged: {name} must be finite numbers of type float32."
            )
    try:
        return FitResult.from_dict(config, tensors)
    except ConfigError as error:
        raise SavedRunError(f"{folder / CONFIG} is damaged: {error}") from None
