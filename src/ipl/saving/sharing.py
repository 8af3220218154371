"""Saved runs on the Hugging Face hub."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import huggingface_hub

from ipl.saving.format import write_run
from ipl.saving.run_folder import FILES
from ipl.support import hub
from ipl.support.errors import ConfigError, SavedRunError, first_line
from ipl.training.result import FitResult


def push_run(
    result: FitResult, name: str, private: bool = False, message: str | None = None
) -> str:
    """Upload the saved form of a fit to `owner/name` on the hub; its address.

    The owner must be logged in; `private` is about a repository that is new.
    """
    if not hub.is_hub_name(name):
        raise ConfigError(f"The name on the hub is {name!r}; it must be {hub.ALLOWED}.")
    if not hub.hub_reachable():
        raise SavedRunError(f"Cannot push {name}: the Hugging Face hub cannot be reached.")
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "run"
        write_run(folder, result, location=name)
        try:
            address: Any = huggingface_hub.create_repo(name, private=private, exist_ok=True)
            huggingface_hub.upload_folder(
                repo_id=name,
                folder_path=folder,
                allow_patterns=FILES,
                commit_message=message or f"A prompt trained with ipl {result.ipl_version}",
            )
        except Exception as error:  # the hub's client raises many kinds
            raise SavedRunError(
                f"Cannot push {name} to the Hugging Face hub ({first_line(error)}); "
                "log in with `hf auth login`."
            ) from None
    return str(address)
