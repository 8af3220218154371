"""Loggers: where the numbers and words of a run are written while it is done.

`--log-to NAME:TARGET` names one of the two below, or one that a package announces as an entry
point of the group `ipl.loggers`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from itertools import count
from pathlib import Path
from typing import Any

from ipl.display.table import Table
from ipl.support.errors import ConfigError, brief, did_you_mean
from ipl.support.extras import require
from ipl.support.files import check_writable
from ipl.support.progress import SILENT, Advance, Reporter
from ipl.training.history import EpochRecord, TrainingStarted
from ipl.training.result import FitResult
from ipl.words.selection import Selection

GROUP = "ipl.loggers"


class RunLogger(ABC):
    """Writes one run after the other somewhere.

    Names of numbers and texts have a part before a slash, such as `train/loss` and
    `accuracy/held_out`. A method may raise any exception: the logger is then left out with a
    warning, and the run goes on.

    Parameters
    ----------
    target : str
        What follows the colon in `--log-to NAME:TARGET`. It may be checked here (ConfigError), but
        nothing is written before a run starts.
    """

    def __init__(self, target: str) -> None:
        self.target = target

    @abstractmethod
    def start(self, name: str, settings: Mapping[str, Any]) -> None:
        """Begins a run; its name may have been used before, its settings are plain values."""

    @abstractmethod
    def log(self, values: Mapping[str, float | str], step: int | None = None) -> None:
        """Logs numbers and texts by name, all with the same part before the slash.

        The step is the epoch, or the step of the search, from 1; None for results of the whole run.
        A text may be Markdown.
        """

    @abstractmethod
    def finish(self, failed: bool = False) -> None:
        """Ends the run; `failed` says whether with an error."""


class TensorBoardLogger(RunLogger):
    """Writes event files to TARGET/RUN; look with `tensorboard`.

    A run whose folder exists already gets a number behind its name.
    """

    def __init__(self, target: str) -> None:
        require("--log-to tensorboard", "loggers", "tensorboard")
        super().__init__(target)
        check_writable(Path(target) / "run")

    def start(self, name: str, settings: Mapping[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        folder, numbers = Path(self.target, name), count(2)
        while folder.exists():
            folder = Path(self.target, f"{name}-{next(numbers)}")
        self._writer = SummaryWriter(str(folder), flush_secs=5)
        rows = [[key, str(value)] for key, value in settings.items() if value is not None]
        self.log({"settings": Table(["setting", "value"], rows, numbers=()).to_markdown()})

    def log(self, values: Mapping[str, float | str], step: int | None = None) -> None:
        for name, value in values.items():
            add = self._writer.add_text if isinstance(value, str) else self._writer.add_scalar
            add(name, value, step or 0)

    def finish(self, failed: bool = False) -> None:
        if failed:
            self.log({"status": "failed"})
        self._writer.flush()  # raises what its thread ran into; close does not
        self._writer.close()


class WandbLogger(RunLogger):
    """Logs each run to a project of Weights & Biases, `project` or `entity/project`."""

    def __init__(self, target: str) -> None:
        require("--log-to wandb", "loggers", "wandb")
        super().__init__(target)

    def start(self, name: str, settings: Mapping[str, Any]) -> None:
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

    def log(self, values: Mapping[str, float | str], step: int | None = None) -> None:
        if step is None:  # a result
            self._run.summary.update(dict(values))
            return
        group = next(iter(values)).partition("/")[0]
        # Search and trainings have steps of their own; to say so again changes nothing.
        self._run.define_metric(f"{group}/*", step_metric=f"{group}/step")
        self._run.log({**values, f"{group}/step": step})

    def finish(self, failed: bool = False) -> None:
        self._run.finish(exit_code=int(failed))


BUNDLED: dict[str, type[RunLogger]] = {"tensorboard": TensorBoardLogger, "wandb": WandbLogger}
LogTo = str | RunLogger | Sequence[str | RunLogger]


def make_loggers(log_to: LogTo) -> list[RunLogger]:
    """The loggers that NAME:TARGET stands for, and those made already.

    Raises ConfigError if there is no such logger, its package is not installed, or nothing can be
    written to its target.
    """
    several = [log_to] if isinstance(log_to, str | RunLogger) else log_to
    loggers = [_make_logger(each) if isinstance(each, str) else each for each in several]
    for logger in loggers:
        if not isinstance(logger, RunLogger):
            raise ConfigError(
                f"log_to is {brief(logger)}; it must be NAME:TARGET, such as tensorboard:DIR, or "
                'a logger that was made with its target, such as PrintLogger("screen").'
            )
    return loggers


def _make_logger(text: str) -> RunLogger:
    name, _, target = text.partition(":")
    if not name or not target:
        raise ConfigError(
            f"--log-to is {text!r}; it must be NAME:TARGET, such as tensorboard:DIR or "
            "wandb:PROJECT."
        )
    if name in BUNDLED:
        return BUNDLED[name](target)
    plugins = {plugin.name: plugin for plugin in entry_points(group=GROUP)}
    if name not in plugins:
        raise ConfigError(
            f"No logger is called {name!r}.{did_you_mean(name, (*BUNDLED, *plugins))}"
        )
    return plugins[name].load()(target)  # type: ignore[no-any-return]


class RunLog(Reporter):
    """Shows what another reporter shows, and logs words, epochs and accuracies as they come.

    A logger that raises an error is left out from then on, with one warning; `problems` has them.
    """

    def __init__(self, loggers: Sequence[RunLogger], shown: Reporter) -> None:
        super().__init__(shown.quiet, shown.console)
        self.problems: list[str] = []
        self._shown, self._loggers = shown, list(loggers)
        self._training = "train"
        self._chosen = 0  # words of the search that are logged

    def say(self, message: str) -> None:
        self._shown.say(message)

    @contextmanager
    def task(self, title: str, total: int | None) -> Iterator[Advance]:
        with self._shown.task(title, total) as advance:
            yield advance

    def warn(self, message: str) -> None:
        # Kept here as well: `warnings` has those of this run alone.
        self.warnings.append(message)
        self._shown.warn(message)

    def record_event(self, event: object) -> None:
        self._shown.record_event(event)
        if isinstance(event, TrainingStarted):
            self._training = event.name
        elif isinstance(event, Selection):
            self._log_selection(event)
        elif isinstance(event, EpochRecord):
            group = self._training
            numbers = {f"{group}/loss": event.loss, f"{group}/learning_rate": event.lr}
            self.log(numbers, event.epoch + 1)
        elif isinstance(event, FitResult):
            self._log_result(event)

    def log_accuracies(self, values: Mapping[str, float]) -> None:
        """Logs accuracies by the names of what they were measured for."""
        plain = {re.sub(r"\W", "_", name): accuracy for name, accuracy in values.items()}
        self.log({f"accuracy/{name}": accuracy for name, accuracy in plain.items()})

    def log(self, values: Mapping[str, float | str], step: int | None = None) -> None:
        self.each(lambda logger: logger.log(values, step))

    def _log_selection(self, selection: Selection) -> None:
        for number, step in enumerate(selection.steps, start=1):
            if number > self._chosen:
                values: dict[str, float | str] = {
                    "search/words": ", ".join(selection.words[:number]),
                    "search/gain": step.gain,
                    "search/utility": step.utility,
                    "search/redundancy": step.redundancy,
                    "search/loss": step.loss,
                }
                self.log(values, number)
        self._chosen = len(selection.steps)

    def _log_result(self, result: FitResult) -> None:
        accuracies, texts = {"train": result.train_accuracy}, {"result/prompt": result.prompt}
        if (comparison := result.comparison) is not None:
            accuracies["held out"] = comparison.accuracy()
            others = comparison.methods[:-1]
            accuracies |= {method.name: comparison.accuracy(method) for method in others}
            texts["result/verdict"] = "\n\n".join(comparison.verdict)
        self.log_accuracies(accuracies)
        self.log(texts)

    def each(self, log: Callable[[RunLogger], None]) -> None:
        for logger in list(self._loggers):
            try:
                log(logger)
            except Exception as error:  # whatever it is, a fit is worth more than its log
                self._loggers.remove(logger)
                where = f"{type(logger).__name__} ({logger.target})"
                reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
                self.problems.append(f"{where} failed, and nothing more is logged: {reason}")
                self.warn(self.problems[-1])


@contextmanager
def log_run(
    log_to: LogTo, name: str, settings: Mapping[str, Any], reporter: Reporter = SILENT
) -> Iterator[RunLog]:
    """Logs what happens in its block, which uses the log as its reporter.

    Parameters
    ----------
    log_to : str, RunLogger or sequence of these
        `tensorboard:DIR`, `wandb:PROJECT`, or loggers.
    name : str
        The name of the run.
    settings : mapping
        Its settings, as plain values.
    reporter : Reporter
        Shows progress and warnings.
    """
    log, failed = RunLog(make_loggers(log_to), reporter), True
    log.each(lambda logger: logger.start(name, settings))
    try:
        yield log
        failed = False
    finally:
        log.each(lambda logger: logger.finish(failed))
