"""Reading and writing a saved prompt. Words are stored as words; no tensor belongs to a class."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

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
from ipl.words.selection import Selection

FORMAT_VERSION = 1
CONFIG, TENSORS, CARD = "config.json", "prompt.safetensors", "README.md"


@dataclass(frozen=True)
class SavedPrompt:
    """Everything in config.json; `prompt` is the layout with its words as a line of text."""

    learner: str
    prompt: str
    words: tuple[str, ...]
    placeholder: str
    backbone: dict[str, Any]  # name, weights_sha256, precision
    preprocessing: dict[str, Any]
    classes: tuple[str, ...]
    training: dict[str, Any]  # settings, seed, images
    results: dict[str, Any]  # accuracies
    selection: dict[str, Any] | None
    ipl_version: str
    format_version: int = FORMAT_VERSION
    alike: bool = False  # two classes read the same, as in a published list
    tensors: dict[str, Tensor] = field(default_factory=dict, compare=False, repr=False)

    @property
    def layout(self) -> PromptLayout:
        """Returns the layout that the line of text describes."""
        return PromptLayout.parse(self.prompt)[0]

    @property
    def chosen(self) -> Selection | None:
        """Returns how the words were chosen; None without words."""
        return Selection.from_dict(self.selection) if self.selection else None

    def params(self) -> dict[str, Any]:
        """Returns the parameters of the classifier that this was saved from, as far as told."""
        given = {k: self.training.get(k) for k in ("epochs", "interval", "batch", "lr", "depth")}
        if "class_template" in self.training:
            given["class_template"] = self.training["class_template"]
        own = {"learner": self.learner, "words": len(self.words), "placeholder": self.placeholder}
        return {**own, **given}

    def config(self) -> dict[str, Any]:
        """Returns what config.json holds."""
        unsaid = {"tensors"} if self.alike else {"tensors", "alike"}
        values = {k: v for k, v in self.__dict__.items() if k not in unsaid}
        head = {"format": "ipl-prompt", "format_version": self.format_version}
        return {**head, **{k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}}


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
    folder: Path, saved: SavedPrompt, overwrite: bool = False, where: str | None = None
) -> None:
    """Writes the three files into a folder that appears whole or not at all.

    `where` is what the card tells a reader to load it by.
    """
    check_target(folder, overwrite)
    with replace_folder(folder) as work:
        write_json(work / CONFIG, saved.config())
        tensors = {
            name: tensor.detach().cpu().contiguous() for name, tensor in saved.tensors.items()
        }
        write_bytes(work / TENSORS, save(tensors, metadata={"format": "pt"}))
        write_text(work / CARD, model_card(saved.config(), where or "path/to/this/folder"))


def read_run(folder: Path) -> SavedPrompt:
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
    saved = _checked(folder / CONFIG, config)
    try:
        tensors = load((folder / TENSORS).read_bytes())
    except (OSError, SafetensorError, ValueError) as error:
        raise SavedRunError(f"{folder / TENSORS} is damaged: {error}.") from None
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise SavedRunError(f"{folder / TENSORS} is damaged: {name} holds NaN or infinity.")
    saved.tensors.update(tensors)
    return saved


def _checked(path: Path, config: Any) -> SavedPrompt:
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
    known = [name.removesuffix("?") for name in FIELDS]
    values = {name: config[name] for name in known if name in config}
    values.update(words=tuple(words), classes=tuple(config["classes"]))
    return SavedPrompt(**values, format_version=version)


def _check(path: Path, config: Any, shape: Shape) -> None:
    for fault in faults(config, shape):
        raise SavedRunError(f"{path} is damaged: {fault}")
