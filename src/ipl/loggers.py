"""Loggers: where the numbers, words and files of a run are written while it is done.

`--log-to NAME:TARGET` names one of the two below, or one that a package announces as an entry
point of the group `ipl.loggers`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ipl.display.table import Table
from ipl.support.errors import ConfigError, IplError, brief, did_you_mean
from ipl.support.extras import require
from ipl.support.files import write_bytes
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

    def check(self) -> None:  # noqa: B027 (most loggers have nothing to check)
        """Raises ConfigError if nothing can be logged; a command asks before it begins."""

    @abstractmethod
    def start(self, name: str, settings: Mapping[str, Any]) -> None:
        """Begins a run; its name may have been used before, its settings are plain values."""

    @abstractmethod
    def log_numbers(self, values: Mapping[str, float], step: int | None = None) -> None:
        """Logs numbers by name.

        Parameters
        ----------
        values : mapping
            The numbers, all with the same part before the slash.
        step : int, optional
            The epoch, or the step of the search, from 1; None for results of the whole run.
        """

    @abstractmethod
    def log_text(self, name: str, text: str, step: int | None = None) -> None:
        """Logs a text, which may be Markdown; the step is as in `log_numbers`."""

    @abstractmethod
    def log_file(self, name: str, content: bytes) -> None:
        """Keeps a file with the run."""

    @abstractmethod
    def finish(self, failed: bool = False) -> None:
        """Ends the run; `failed` says whether with an error."""


class TensorBoardLogger(RunLogger):
    """Writes event files, and the files of the run, to TARGET/RUN; look with `tensorboard`.

    A run whose folder exists already gets a number behind its name.
    """

    def __init__(self, target: str) -> None:
        require("--log-to tensorboard", "loggers", "tensorboard")
        super().__init__(target)

    def check(self) -> None:
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
        from torch.utils.tensorboard import SummaryWriter

        names = chain([name], (f"{name}-{number}" for number in count(2)))
        folders = (Path(self.target, each) for each in names)
        self._folder = next(folder for folder in folders if not folder.exists())
        self._folder.mkdir(parents=True)
        self._writer = SummaryWriter(str(self._folder), flush_secs=5)
        rows = [[key, str(value)] for key, value in settings.items() if value is not None]
        self.log_text("settings", Table(["setting", "value"], rows, numbers=()).to_markdown())

    def log_numbers(self, values: Mapping[str, float], step: int | None = None) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step or 0)

    def log_text(self, name: str, text: str, step: int | None = None) -> None:
        self._writer.add_text(name, text, step or 0)

    def log_file(self, name: str, content: bytes) -> None:
        write_bytes(self._folder / name, content)

    def finish(self, failed: bool = False) -> None:
        if failed:
            self._writer.add_text("status", "failed", 0)
        self._writer.flush()  # raises what its thread ran into; close does not
        self._writer.close()


class WandbLogger(RunLogger):
    """Logs each run to a project of Weights & Biases, `project` or `entity/project`.

    `WANDB_MODE=offline` keeps it on this machine, under `WANDB_DIR`, until `wandb sync`; the other
    variables of wandb work, too.
    """

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
        self._files = wandb.Artifact(f"{self._run.id}-files", "run")
        self._groups: set[str] = set()

    def log_numbers(self, values: Mapping[str, float], step: int | None = None) -> None:
        self._log(values, step)

    def log_text(self, name: str, text: str, step: int | None = None) -> None:
        self._log({name: text}, step)

    def log_file(self, name: str, content: bytes) -> None:
        with self._files.new_file(name, mode="wb") as file:
            file.write(content)

    def finish(self, failed: bool = False) -> None:
        if self._files.manifest.entries:
            self._run.log_artifact(self._files)
        self._run.finish(exit_code=int(failed))

    def _log(self, values: Mapping[str, Any], step: int | None) -> None:
        if step is None:  # a result
            self._run.summary.update(dict(values))
            return
        group = next(iter(values)).partition("/")[0]
        axis = f"{group}/step"
        if group not in self._groups:  # wandb's own steps never go back
            self._groups.add(group)
            self._run.define_metric(axis, hidden=True)
            self._run.define_metric(f"{group}/*", step_metric=axis)
        self._run.log({**values, axis: step})


BUNDLED: dict[str, type[RunLogger]] = {"tensorboard": TensorBoardLogger, "wandb": WandbLogger}
LogTo = str | RunLogger | Sequence[str | RunLogger]


def make_loggers(log_to: LogTo) -> list[RunLogger]:
    """Returns the loggers that NAME:TARGET stands for, and those made already.

    Raises
    ------
    ConfigError
        If there is no such logger, its package is not installed, or this is no logger.
    """
    several = log_to if isinstance(log_to, Sequence) and not isinstance(log_to, str) else [log_to]
    loggers = [_make_logger(each) if isinstance(each, str) else each for each in several]
    for logger in loggers:
        if not isinstance(logger, RunLogger):
            raise ConfigError(
                f"log_to is {brief(logger)}; it must be NAME:TARGET, such as tensorboard:DIR, or "
                'a logger that was made with its target, such as PrintLogger("screen").'
            )
    return loggers


def check_loggers(texts: Sequence[str]) -> None:
    """Raises ConfigError if one of the loggers cannot be made, or can log nothing."""
    for logger in make_loggers(texts):
        logger.check()


def _make_logger(text: str) -> RunLogger:
    name, _, target = text.partition(":")
    if not name or not target:
        raise ConfigError(
            f"--log-to is {text!r}; it must be NAME:TARGET, such as tensorboard:DIR or "
            "wandb:PROJECT."
        )
    plugins = {plugin.name: plugin for plugin in entry_points(group=GROUP)}
    if name in BUNDLED:
        return BUNDLED[name](target)
    if name not in plugins:
        raise ConfigError(
            f"No logger is called {name!r}.{did_you_mean(name, (*BUNDLED, *plugins))}"
        )
    try:
        return plugins[name].load()(target)  # type: ignore[no-any-return]
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"The logger {name!r} cannot be loaded: {error!r}.") from error


class RunLog(Reporter):
    """Shows what another reporter shows, and logs words, epochs and accuracies as they come.

    A logger that raises an error is left out from then on, with one warning; `problems` has them.
    """

    def __init__(
        self, loggers: Sequence[RunLogger], name: str, settings: Mapping[str, Any], shown: Reporter
    ) -> None:
        super().__init__(shown.quiet, shown.console)
        self.problems: list[str] = []
        self._shown = shown
        self._loggers = list(loggers)
        self._training = "train"
        self._chosen: tuple[str, ...] = ()
        self._entered: list[str] = []
        self._each(lambda logger: logger.start(name, settings))

    def say(self, message: str) -> None:
        self._shown.say(message)

    def warn(self, message: str) -> None:
        """Shows one line as a warning, even when quiet; `warnings` has those of this run alone."""
        self.warnings.append(message)
        self._shown.warn(message)

    @contextmanager
    def task(self, title: str, total: int | None) -> Iterator[Advance]:
        with self._shown.task(title, total) as advance:
            yield advance

    def record_event(self, event: object) -> None:
        self._shown.record_event(event)
        if isinstance(event, Selection):
            self._log_selection(event)
        elif isinstance(event, TrainingStarted):
            self._training, self._entered = event.name, []
        elif isinstance(event, EpochRecord):
            self._log_epoch(event)
        elif isinstance(event, FitResult):
            self._log_result(event)

    def log_numbers(self, values: Mapping[str, float], step: int | None = None) -> None:
        self._each(lambda logger: logger.log_numbers(values, step))

    def log_accuracies(self, values: Mapping[str, float]) -> None:
        """Logs accuracies by the names of what they were measured for."""
        self.log_numbers({f"accuracy/{_plain(name)}": each for name, each in values.items()})

    def log_text(self, name: str, text: str, step: int | None = None) -> None:
        self._each(lambda logger: logger.log_text(name, text, step))

    def log_file(self, name: str, content: bytes) -> None:
        self._each(lambda logger: logger.log_file(name, content))

    def log_folder(self, folder: Path) -> None:
        """Keeps the files of a saved run with the run."""
        for path in sorted(folder.iterdir()) if self._loggers else ():
            self.log_file(path.name, path.read_bytes())

    def finish(self, failed: bool = False) -> None:
        self._each(lambda logger: logger.finish(failed))
        self._loggers = []

    def _log_selection(self, selection: Selection) -> None:
        words = selection.words
        if words[: len(self._chosen)] != self._chosen:  # a fit that was started again
            self._chosen = ()
        for index, step in enumerate(selection.steps, start=1):
            if index > len(self._chosen):
                names = ("gain", "utility", "redundancy", "loss")
                self.log_numbers({f"search/{name}": getattr(step, name) for name in names}, index)
                self.log_text("search/words", ", ".join(words[:index]), index)
        self._chosen = words

    def _log_epoch(self, record: EpochRecord) -> None:
        group, epoch = self._training, record.epoch + 1
        if record.word is not None:
            self._entered.append(record.word)
            self.log_text(f"{group}/words", ", ".join(self._entered), epoch)
        numbers = {f"{group}/loss": record.loss, f"{group}/learning_rate": record.lr}
        self.log_numbers(numbers, epoch)

    def _log_result(self, result: FitResult) -> None:
        accuracies = {"train": result.train_accuracy}
        if (comparison := result.comparison) is not None:
            accuracies["held out"] = comparison.accuracy()
            others = comparison.methods[:-1]
            accuracies |= {method.name: comparison.accuracy(method) for method in others}
            self.log_text("result/verdict", "\n\n".join(comparison.verdict))
        self.log_accuracies(accuracies)
        self.log_text("result/prompt", result.prompt)

    def _each(self, log: Callable[[RunLogger], None]) -> None:
        for logger in list(self._loggers):
            try:
                log(logger)
            except Exception as error:  # whatever it is, a fit is worth more than its log
                self._loggers.remove(logger)
                where = f"{type(logger).__name__} ({logger.target})"
                self.problems.append(f"{where} failed, and nothing more is logged: {_line(error)}")
                self.warn(self.problems[-1])


@contextmanager
def log_run(
    log_to: LogTo, name: str, settings: Mapping[str, Any], reporter: Reporter = SILENT
) -> Iterator[RunLog]:
    """Logs what happens in its block, which uses the log as its reporter.

    Parameters
    ----------
    log_to : str, RunLogger or sequence of these
        `tensorboard:DIR`, `wandb:PROJECT`, or loggers; ConfigError if there is no such logger.
    name : str
        The name of the run.
    settings : mapping
        Its settings, as plain values.
    reporter : Reporter
        Shows progress and warnings.
    """
    log = RunLog(make_loggers(log_to), name, settings, reporter)
    try:
        yield log
    except BaseException:
        log.finish(failed=True)
        raise
    log.finish()


def _plain(name: str) -> str:
    """Returns a name of letters, digits and underscores."""
    return "".join(c if c.isalnum() else "_" for c in name)


def _line(error: Exception) -> str:
    """Returns what went wrong, in a line."""
    lines = str(error).strip().splitlines()
    kind = "" if isinstance(error, IplError) else f"{type(error).__name__}: "
    return f"{kind}{lines[0]}" if lines else f"{type(error).__name__}."
