"""RunLog: a reporter that passes on to loggers what it hears of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ipl.loggers.logger import RunLogger, make_logger
from ipl.support.errors import ConfigError, IplError, brief
from ipl.support.progress import SILENT, Advance, Reporter
from ipl.training.history import EpochRecord, TrainingStarted
from ipl.training.result import FitResult
from ipl.words.selection import Selection

LogTo = str | RunLogger | Sequence[str | RunLogger]


class RunLog(Reporter):
    """Shows what another reporter shows, and logs words, epochs and accuracies as they come.

    A logger that raises an error is left out from then on, with one warning.

    Parameters
    ----------
    loggers : sequence of RunLogger
        The loggers; their run has not started yet.
    name : str
        The name of the run.
    settings : mapping
        Its settings, as plain values.
    reporter : Reporter
        Shows progress and warnings.

    Attributes
    ----------
    problems : list of str
        A sentence for each logger that was left out.
    """

    def __init__(
        self,
        loggers: Sequence[RunLogger],
        name: str,
        settings: Mapping[str, Any],
        reporter: Reporter = SILENT,
    ) -> None:
        super().__init__(reporter.quiet, reporter.console)
        self.reporter = reporter
        self.problems: list[str] = []
        self._loggers = list(loggers)
        self._training = "train"
        self._chosen: tuple[str, ...] = ()
        self._entered: list[str] = []
        self._each(lambda logger: logger.start(name, settings))

    # -- what a reporter does ---------------------------------------------------------------------

    def say(self, message: str) -> None:
        """Shows one line, unless quiet."""
        self.reporter.say(message)

    def warn(self, message: str) -> None:
        """Shows one line as a warning, even when quiet; `warnings` has those of this run alone."""
        self.warnings.append(message)
        self.reporter.warn(message)

    @contextmanager
    def task(self, title: str, total: int | None) -> Iterator[Advance]:
        """Shows the progress of one piece of work."""
        with self.reporter.task(title, total) as advance:
            yield advance

    def record_event(self, event: object) -> None:
        """Logs an event, and passes it on."""
        self.reporter.record_event(event)
        if not self._loggers:
            return
        if isinstance(event, Selection):
            self._log_selection(event)
        elif isinstance(event, TrainingStarted):
            self._training, self._entered = event.name, []
        elif isinstance(event, EpochRecord):
            self._log_epoch(event)
        elif isinstance(event, FitResult):
            self._log_result(event)

    # -- what is logged ---------------------------------------------------------------------------

    def log_numbers(self, values: Mapping[str, float], step: int | None = None) -> None:
        """Logs numbers by name."""
        self._each(lambda logger: logger.log_numbers(values, step))

    def log_accuracies(self, values: Mapping[str, float]) -> None:
        """Logs accuracies by the names of what they were measured for."""
        self.log_numbers({f"accuracy/{_plain(name)}": each for name, each in values.items()})

    def log_text(self, name: str, text: str, step: int | None = None) -> None:
        """Logs a text."""
        self._each(lambda logger: logger.log_text(name, text, step))

    def log_file(self, name: str, content: bytes) -> None:
        """Keeps a file with the run."""
        self._each(lambda logger: logger.log_file(name, content))

    def log_folder(self, folder: Path) -> None:
        """Keeps the files of a saved run with the run."""
        for path in sorted(folder.iterdir()) if self._loggers else ():
            self.log_file(path.name, path.read_bytes())

    def finish(self, failed: bool = False) -> None:
        """Ends the run of every logger."""
        self._each(lambda logger: logger.finish(failed))
        self._loggers = []

    def _log_selection(self, selection: Selection) -> None:
        words = selection.words
        if words[: len(self._chosen)] != self._chosen:  # a fit that was started again
            self._chosen = ()
        for index, step in enumerate(selection.steps, start=1):
            if index > len(self._chosen):
                numbers = {
                    name: getattr(step, name) for name in ("gain", "utility", "redundancy", "loss")
                }
                self.log_numbers({f"search/{name}": v for name, v in numbers.items()}, index)
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
            accuracies["held out"] = comparison.accuracy(comparison.prompt)
            others = comparison.methods[:-1]
            accuracies |= {method.name: comparison.accuracy(method) for method in others}
            self.log_text("result/verdict", "\n\n".join(comparison.verdict))
        self.log_accuracies(accuracies)
        self.log_text("result/prompt", result.prompt)

    def _each(self, log: Callable[[RunLogger], None]) -> None:
        """Logs to every logger, and leaves out those that fail."""
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
    """Logs what happens in its block.

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

    Yields
    ------
    RunLog
        The reporter for what is done in the block.

    Raises
    ------
    ConfigError
        If there is no such logger, its package is not installed, or this is no logger.
    """
    several = log_to if isinstance(log_to, Sequence) and not isinstance(log_to, str) else [log_to]
    loggers = [make_logger(each) if isinstance(each, str) else each for each in several]
    for logger in loggers:
        if not isinstance(logger, RunLogger):
            raise ConfigError(
                f"log_to is {brief(logger)}; it must be NAME:TARGET, such as tensorboard:DIR, or "
                'a logger that was made with its target, such as PrintLogger("screen").'
            )
    log = RunLog(loggers, name, settings, reporter)
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
