"""Saved prompts on the Hugging Face hub: three small files under owner/name."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from ipl.saving.format import CARD, CONFIG, TENSORS, write_run
from ipl.support import hub
from ipl.support.errors import ConfigError, SavedRunError
from ipl.training.result import FitResult

FILES = [CONFIG, TENSORS, CARD]


def find_run(where: str | Path, revision: str | None = None) -> Path:
    """Returns the folder of a saved prompt: one that is there, or the hub's owner/name.

    Only the three files are fetched, whatever else the repository holds.
    """
    name = str(where)
    if not hub.is_on_hub(name):
        if revision is not None:
            raise ConfigError(f"revision is {revision!r}, but {name} is no name on the hub.")
        return Path(where)
    from huggingface_hub import snapshot_download

    online = hub.hub_reachable()
    try:
        found = snapshot_download(
            name, revision=revision, allow_patterns=FILES, local_files_only=not online
        )
    except Exception as error:  # the hub's client raises many kinds
        why = (
            f"the Hugging Face hub gave none of that name ({_first_line(error)})"
            if online
            else "the Hugging Face hub cannot be reached, nor has its local cache one"
        )
        raise SavedRunError(
            f"No saved run at {name}: there is no such folder, and {why}."
        ) from None
    return Path(found)


def push_run(
    result: FitResult, name: str, private: bool = False, message: str | None = None
) -> str:
    """Returns the address of a prompt put onto the hub as owner/name; the owner is logged in."""
    if not hub.is_hub_name(name):
        raise ConfigError(f"The name on the hub is {name!r}; it must be {hub.ALLOWED}.")
    if not hub.hub_reachable():
        raise SavedRunError(f"Cannot push {name}: the Hugging Face hub cannot be reached.")
    from huggingface_hub import create_repo, upload_folder

    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "run"
        write_run(folder, result, where=name)
        try:
            made: Any = create_repo(name, private=private, exist_ok=True)
            upload_folder(
                repo_id=name,
                folder_path=folder,
                allow_patterns=FILES,
                commit_message=message or f"A prompt learnt with ipl {result.ipl_version}",
            )
        except Exception as error:  # the hub's client raises many kinds
            raise SavedRunError(
                f"Cannot push {name} to the Hugging Face hub ({_first_line(error)}); "
                "`hf auth login` says who you are."
            ) from None
    return str(made)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:200].rstrip(" .:")
