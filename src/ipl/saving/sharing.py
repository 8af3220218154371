"""Saved runs on the Hugging Face hub."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from ipl.saving.format import CARD, CONFIG, TENSORS, write_run
from ipl.support import hub
from ipl.support.errors import ConfigError, SavedRunError
from ipl.support.files import recover_folder
from ipl.training.result import FitResult

FILES = [CONFIG, TENSORS, CARD]


def find_run(location: str | Path, revision: str | None = None) -> Path:
    """Returns the local folder of a saved run, downloaded from the hub if necessary.

    Only the three files of a run are downloaded, whatever else the repository contains.

    Parameters
    ----------
    location : str or Path
        A folder, or `owner/name` on the hub.
    revision : str, optional
        A revision on the hub.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    SavedRunError
        If there is no such run on the hub, or the hub cannot be reached.
    ConfigError
        If a revision is given for a folder.
    """
    name = str(location)
    recover_folder(Path(location))  # before its name is taken for one on the hub
    if not hub.is_on_hub(name):
        if revision is not None:
            raise ConfigError(f"revision is {revision!r}, but {name} is not a name on the hub.")
        return Path(location)
    from huggingface_hub import snapshot_download

    online = hub.hub_reachable()
    try:
        folder = snapshot_download(
            name, revision=revision, allow_patterns=FILES, local_files_only=not online
        )
    except Exception as error:  # the hub's client raises many kinds
        reason = (
            f"it cannot be downloaded from the Hugging Face hub ({_first_line(error)})"
            if online
            else "the Hugging Face hub cannot be reached, and its local cache has no copy"
        )
        raise SavedRunError(
            f"No saved run at {name}: there is no such folder, and {reason}."
        ) from None
    return Path(folder)


def push_run(
    result: FitResult, name: str, private: bool = False, message: str | None = None
) -> str:
    """Uploads the saved form of a fit to the hub.

    Parameters
    ----------
    result : FitResult
        The result of a fit.
    name : str
        `owner/name` on the hub; the owner must be logged in.
    private : bool, default False
        Whether the repository is private, if it is new.
    message : str, optional
        The commit message.

    Returns
    -------
    str
        The address of the repository.

    Raises
    ------
    SavedRunError
        If the hub cannot be reached, or refuses the upload.
    ConfigError
        If the name is not allowed.
    """
    if not hub.is_hub_name(name):
        raise ConfigError(f"The name on the hub is {name!r}; it must be {hub.ALLOWED}.")
    if not hub.hub_reachable():
        raise SavedRunError(f"Cannot push {name}: the Hugging Face hub cannot be reached.")
    from huggingface_hub import create_repo, upload_folder

    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "run"
        write_run(folder, result, location=name)
        try:
            address: Any = create_repo(name, private=private, exist_ok=True)
            upload_folder(
                repo_id=name,
                folder_path=folder,
                allow_patterns=FILES,
                commit_message=message or f"A prompt trained with ipl {result.ipl_version}",
            )
        except Exception as error:  # the hub's client raises many kinds
            raise SavedRunError(
                f"Cannot push {name} to the Hugging Face hub ({_first_line(error)}); "
                "log in with `hf auth login`."
            ) from None
    return str(address)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:200].rstrip(" .:")
