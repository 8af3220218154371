"""`ipl push RUN OWNER/NAME`: a saved prompt onto the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path

import typer

from ipl.cli.output import command_line, print_json
from ipl.cli.shared_options import JSON
from ipl.saving.format import read_run
from ipl.saving.run_folder import read_config
from ipl.saving.sharing import push_run


def push(
    run: Path = typer.Argument(metavar="RUN", help="A folder that `ipl fit` saved."),
    name: str = typer.Argument(metavar="OWNER/NAME", help="Its name on the hub."),
    private: bool = typer.Option(
        False, "--private", help="If it is new, make it visible only to you."
    ),
    message: str | None = typer.Option(
        None, help="The commit message (default: made by ipl VERSION)."
    ),
    as_json: bool = JSON,
) -> None:
    """Share a saved prompt on the Hugging Face hub: its three small files and nothing else."""
    read_config(run)

    address = push_run(read_run(run), name, private, message)
    if as_json:
        print_json({"name": name, "address": address})
        return
    print(f"Shared: {address}\nNext:   {command_line('predict', name)} IMAGE...")
