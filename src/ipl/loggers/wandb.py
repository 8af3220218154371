"""Logs for Weights & Biases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipl.loggers.logger import RunLogger
from ipl.support.extras import require


class WandbLogger(RunLogger):
    """Logs each run to a project of Weights & Biases.

    `WANDB_MODE=offline` keeps it on this machine, under `WANDB_DIR`, until `wandb sync`; the other
    variables of wandb work, too.

    Parameters
    ----------
    target : str
        The project, as `project` or `entity/project`.
    """

    def __init__(self, target: str) -> None:
        require("--log-to wandb", "loggers", "wandb")
        super().__init__(target)

    def start(self, name: str, settings: Mapping[str, Any]) -> None:
        """Begins a run."""
        import wandb

        entity, _, project = self.target.rpartition("/")
        self._run = wandb.init(
            entity=entity or None,
            project=project,
            name=name,
            config=dict(settings),
            reinit="create_new",  # a run that the caller has open stays as it is
            settings=wandb.Settings(console="off", silent=True, save_code=False),
        )
        self._files = wandb.Artifact(f"{self._run.id}-files", "run")
        self._groups: set[str] = set()

    def log_numbers(self, values: Mapping[str, float], step: int | None = None) -> None:
        """Logs numbers: with a step as curves over it, else in the summary."""
        self._log(dict(values), step)

    def log_text(self, name: str, text: str, step: int | None = None) -> None:
        """Logs a text, like a number."""
        self._log({name: text}, step)

    def log_file(self, name: str, content: bytes) -> None:
        """Adds a file to the artifact of the run."""
        with self._files.new_file(name, mode="wb") as file:
            file.write(content)

    def finish(self, failed: bool = False) -> None:
        """Logs the artifact, and ends the run."""
        if self._files.manifest.entries:
            self._run.log_artifact(self._files)
        self._run.finish(exit_code=int(failed))

    def _log(self, values: dict[str, Any], step: int | None) -> None:
        if step is None:
            self._run.summary.update(values)
            return
        group = next(iter(values)).partition("/")[0]
        axis = f"{group}/step"
        if group not in self._groups:  # wandb's own steps never go back
            self._groups.add(group)
            self._run.define_metric(axis, hidden=True)
            self._run.define_metric(f"{group}/*", step_metric=axis)
        self._run.log({**values, axis: step})
