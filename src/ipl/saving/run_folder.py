"""The folder of a saved run: where it is, what may be written there, and its config.json.

Nothing here needs torch, so that a wrong name is answered at once.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import huggingface_hub

from ipl.support import hub
from ipl.support.errors import ConfigError, SavedRunError, brief, first_line
from ipl.support.files import (
    check_writable,
    recover_folder,
    similar_path,
)

FORMAT_VERSION = 3  # of saved runs, and of the records of the bench
CONFIG, TENSORS, CARD = "config.json", "prompt.safetensors", "README.md"
FILES = [CONFIG, TENSORS, CARD]


def check_target(folder: Path, overwrite: bool = False) -> None:
    """SavedRunError if a run cannot be saved to `folder` without the loss of other files."""
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


def find_run(location: str | Path, revision: str | None = None) -> Path:
    """The local folder of a saved run, downloaded from the hub if `location` is `owner/name`.

    Only the three files of a run are downloaded, whatever else the repository contains.
    """
    name = str(location)
    recover_folder(Path(location))  # before its name is taken for one on the hub
    if not hub.is_on_hub(name):
        if revision is not None:
            raise ConfigError(f"revision is {revision!r}, but {name} is not a name on the hub.")
        return Path(location)
    online = hub.hub_reachable()
    try:
        folder = huggingface_hub.snapshot_download(
            name, revision=revision, allow_patterns=FILES, local_files_only=not online
        )
    except Exception as error:  # the hub's client raises many kinds
        reason = (
            f"it cannot be downloaded from the Hugging Face hub ({first_line(error)})"
            if online
            else "the Hugging Face hub cannot be reached, and its local cache has no copy"
        )
        raise SavedRunError(
            f"No saved run at {name}: there is no such folder, and {reason}."
            f"{similar_path(Path(name))}"
        ) from None
    return Path(folder)


def read_config(folder: Path) -> dict[str, Any]:
    """The config.json of a saved run; its fields are checked by `read_run`."""
    recover_folder(folder)
    if not os.path.isdir(folder):
        reason = "a run is a folder" if os.path.exists(folder) else "there is no such folder"
        raise SavedRunError(f"No saved run at {folder}: {reason}.{similar_path(folder)}")
    for name in (CONFIG, TENSORS):
        if not (folder / name).is_file():
            raise SavedRunError(f"{folder} is not a saved run: {name} is missing.")
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SavedRunError(f"{folder / CONFIG} is damaged: {error}.") from None
    if not isinstance(config, dict) or config.get("format") != "ipl-prompt":
        raise SavedRunError(f"{folder / CONFIG} does not describe an ipl prompt.")
    if (version := config.get("format_version")) != FORMAT_VERSION:
        raise SavedRunError(
            f"{folder / CONFIG} has format version {brief(version)}; this ipl reads version "
            f"{FORMAT_VERSION}."
        )
    return config
