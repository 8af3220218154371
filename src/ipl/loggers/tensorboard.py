"""Logs for TensorBoard: a folder of its own for each run."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ipl.display.table import Table
from ipl.loggers.logger import RunLogger
from ipl.support.errors import ConfigError
from ipl.support.extras import require
from ipl.support.files import write_bytes

SECONDS_BETWEEN_WRITES = 5


class TensorBoardLogger(RunLogger):
    """Writes event files, and the files of the run, to TARGET/RUN; look with `tensorboard`.

    A run whose folder exists already gets a number behind its name.

    Parameters
    ----------
    target : str
        The folder of all runs.
    """

    def __init__(self, target: str) -> None:
        require("--log-to tensorboard", "loggers", "tensorboard")
        super().__init__(target)
        self.folder = Path(target)

    def check(self) -> None:
        """Raises ConfigError if the folder cannot be created or written."""
        try:
            folder = Path(self.target).resolve()
            while not folder.exists():
                folder = folder.parent
            with TemporaryDirectory(dir=folder):
                pass
        except OSError as error:
            raise ConfigError(
                f"--log-to is 'tensorboard:{self.target}'; nothing can be written there: "
                f"{error.strerror}."
            ) from None

    def start(self, name: str, settings: Mapping[str, Any]) -> None:
        """Begins a run in a new folder, and logs its settings as a table."""
        from torch.utils.tensorboard import SummaryWriter

        self.folder = _new_folder(Path(self.target), name)
        self._writer = SummaryWriter(str(self.folder), flush_secs=SECONDS_BETWEEN_WRITES)
        rows = [[key, str(value)] for key, value in settings.items() if value is not None]
        self.log_text("settings", Table(["setting", "value"], rows, numbers=()).to_markdown())

    def log_numbers(self, values: Mapping[str, float], step: int | None = None) -> None:
        """Logs numbers as scalars."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step or 0)

    def log_text(self, name: str, text: str, step: int | None = None) -> None:
        """Logs a text."""
        self._writer.add_text(name, text, step or 0)

    def log_file(self, name: str, content: bytes) -> None:
        """Writes a file beside the events."""
        write_bytes(self.folder / name, content)

    def finish(self, failed: bool = False) -> None:
        """Writes what is left."""
        if failed:
            self._writer.add_text("status", "failed", 0)
        self._writer.flush()  # raises what its thread ran into; close does not
        self._writer.close()


def _new_folder(root: Path, name: str) -> Path:
    """Returns ROOT/NAME, created; with a number behind the name if it exists already."""
    for number in count(1):
        folder = root / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir(parents=True)
            break
        except FileExistsError:
            if root.exists() and not root.is_dir():
                raise
    return folder
