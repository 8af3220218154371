"""One fit in a thread of its own: its settings, what it reports, and how it is cancelled."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from ipl.classifier import PromptClassifier
from ipl.config import MOST_WORDS, FitConfig
from ipl.datasets.dataset import Dataset
from ipl.learners.registry import learner_class
from ipl.support.errors import ConfigError, IplError
from ipl.support.progress import Advance, Reporter
from ipl.training.history import EpochRecord
from ipl.words.selection import Selection

BOUNDS = {"words": (0, MOST_WORDS), "shots": (1, 100), "epochs": (1, 500), "seed": (0, 2**32 - 1)}
BUG_MESSAGE = "Internal error; the terminal that runs `ipl ui` shows the details."
THREAD_NAME = "ipl-fit"
SECONDS_BETWEEN_CHECKS = 0.1  # of whether a waiting fit was cancelled


@dataclass(frozen=True)
class WorkbenchSettings:
    """What a person chooses on the page; at first the defaults of `ipl fit`."""

    learner: str = FitConfig.learner
    words: int = int(FitConfig.words)
    shots: int = FitConfig.shots
    epochs: int = 100
    seed: int = FitConfig.seed
    compare: bool = False  # train the same prompt without words as well

    def __post_init__(self) -> None:
        learner_class(self.learner)
        for name, (low, high) in BOUNDS.items():
            value = getattr(self, name)
            if not isinstance(value, int) or not low <= value <= high:
                raise ConfigError(
                    f"{name} is {value!r}; it must be a whole number from {low} to {high}."
                )
        if self.words > self.epochs:
            raise ConfigError(
                f"epochs is {self.epochs}; {self.words} words need {self.words} epochs or more."
            )

    @classmethod
    def from_form(
        cls, learner: Any, words: Any, shots: Any, epochs: Any, seed: Any, compare: Any = False
    ) -> WorkbenchSettings:
        """Returns the settings in the fields of a form."""
        words, shots, epochs, seed = map(_as_integer, (words, shots, epochs, seed))
        return cls(str(learner), words, shots, epochs, seed, bool(compare))


def default_epochs(learner: str, words: int) -> int:
    """Returns the epochs that a learner was published with, at most what the page allows."""
    return min(BOUNDS["epochs"][1], learner_class(learner).hyperparameters(words).epochs)


def _as_integer(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


class FitCancelled(Exception):
    """The person has cancelled the fit."""


@dataclass(frozen=True)
class FitProgress:
    """How far a fit has come."""

    title: str = ""  # of the current task
    done: int = 0
    total: int | None = None
    note: str = ""
    selection: Selection | None = None  # the words so far
    epochs: tuple[EpochRecord, ...] = ()
    changes: int = 0  # so far, to see whether anything is new


class FitWatcher(Reporter):
    """Collects what a fit reports; a cancelled fit ends at its next report."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self._lock = threading.Lock()
        self._progress = FitProgress()
        self._cancelled = threading.Event()

    @property
    def progress(self) -> FitProgress:
        """Returns how far the fit has come; any thread may read it."""
        return self._progress

    @property
    def cancelled(self) -> bool:
        """Returns whether the fit was cancelled."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Makes the fit stop at its next report."""
        self._cancelled.set()

    def check(self) -> None:
        """Raises FitCancelled if the fit was cancelled."""
        if self.cancelled:
            raise FitCancelled

    def warn(self, message: str) -> None:
        """Stores the warning, which is shown on the page and not in the terminal."""
        self.warnings.append(message)

    def record_event(self, event: object) -> None:
        """Stores the words so far, or an epoch."""
        if isinstance(event, Selection):
            self._change(selection=event)
        elif isinstance(event, EpochRecord):  # a training that restarts reports epoch 0 again
            self._change(epochs=(*self._progress.epochs[: event.epoch], event))
        self.check()

    @contextmanager
    def task(self, title: str, total: int | None) -> Iterator[Advance]:
        """Yields advance(steps, note) for a task."""
        self.check()
        self._change(title=title, done=0, total=total, note="")

        def advance(steps: int = 1, note: str = "") -> None:
            self._change(done=self._progress.done + steps, note=note)
            self.check()

        yield advance

    def _change(self, **values: object) -> None:
        with self._lock:
            changes = self._progress.changes + 1
            self._progress = replace(self._progress, changes=changes, **values)  # type: ignore[arg-type]


class FitQueue:
    """Lets a number of fits run at a time, each with all of torch's threads."""

    def __init__(self, capacity: int) -> None:
        self._free = threading.Semaphore(capacity)
        self._threads = torch.get_num_threads()

    def wait(self, watcher: FitWatcher) -> None:
        """Returns when it is this fit's turn; raises FitCancelled if it is cancelled first."""
        while not self._free.acquire(timeout=SECONDS_BETWEEN_CHECKS):
            watcher.check()
        # A new thread starts with the number that was set last, by whichever thread.
        torch.set_num_threads(self._threads)

    def release(self) -> None:
        """Ends a turn and lets the next fit run."""
        self._free.release()


class FitThread:
    """Trains a classifier; `state` is waiting, running, done, cancelled or failed."""

    def __init__(
        self,
        classifier: PromptClassifier,
        dataset: Dataset,
        queue: FitQueue,
        on_done: Callable[[PromptClassifier], None],
        compare: bool = False,
    ) -> None:
        """Starts the thread; `on_done` gets the classifier before the state becomes done."""
        self.watcher = FitWatcher()
        self.classifier = classifier
        self.state, self.error, self.seconds = "waiting", "", 0.0
        self._dataset, self._queue, self._on_done = dataset, queue, on_done
        self._compare = compare
        self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        """Returns whether the fit is over."""
        return self.state not in ("waiting", "running")

    def cancel(self) -> None:
        """Makes the fit stop soon: within a batch of words or images, or an epoch."""
        self.watcher.cancel()

    def join(self, seconds: float | None = None) -> None:
        """Waits for the thread to end."""
        self._thread.join(seconds)

    @staticmethod
    def any_running() -> bool:
        """Returns whether the thread of any fit, of whichever session, is still running."""
        return any(thread.name == THREAD_NAME for thread in threading.enumerate())

    def _run(self) -> None:
        try:
            self._queue.wait(self.watcher)
            try:
                self.watcher.check()
                self.state, start = "running", time.perf_counter()
                self.classifier.set_params(reporter=self.watcher)
                self.classifier.fit(self._dataset, compare=self._compare)
                self.watcher.check()
                self.seconds = time.perf_counter() - start
            finally:
                self._queue.release()
            self._on_done(self.classifier)
            self.state = "done"
        except FitCancelled:
            self.state = "cancelled"
        except IplError as error:
            self.error, self.state = str(error), "failed"
        except Exception:  # a bug: the page names it, the terminal shows the traceback
            traceback.print_exc()
            self.error, self.state = BUG_MESSAGE, "failed"
