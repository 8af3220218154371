"""One fit in a thread of its own."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable

import torch

from ipl.apps.workbench.watcher import Cancelled, FitWatcher
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset
from ipl.support.errors import IplError

BUG = "Something went wrong; the terminal that `ipl ui` runs in says what."
THREAD = "ipl-fit"
LOOK = 0.1  # seconds between looks at whether one who waits has given up


class FitQueue:
    """Lets so many fits run at a time, each with all of torch's threads."""

    def __init__(self, most: int) -> None:
        self._free = threading.Semaphore(most)
        self._threads = torch.get_num_threads()

    def wait(self, watcher: FitWatcher) -> None:
        """Returns when there is room; raises Cancelled if that is no longer wanted."""
        while not self._free.acquire(timeout=LOOK):
            watcher.check()
        # A thread begins with the number that was set last, by whichever thread.
        torch.set_num_threads(self._threads)

    def end(self) -> None:
        """Lets the next one in."""
        self._free.release()


class FitThread:
    """Trains a classifier; `state` is waiting, running, done, cancelled or failed."""

    def __init__(
        self,
        classifier: PromptClassifier,
        dataset: Dataset,
        turns: FitQueue,
        done: Callable[[PromptClassifier], None],
    ) -> None:
        """Takes what is called with the trained classifier before the state becomes done."""
        self.watcher = FitWatcher()
        self.classifier = classifier
        self.state, self.error, self.seconds = "waiting", "", 0.0
        self._dataset, self._turns, self._done = dataset, turns, done
        self._thread = threading.Thread(target=self._run, name=THREAD, daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        """Returns whether nothing more will happen."""
        return self.state not in ("waiting", "running")

    def cancel(self) -> None:
        """Makes it stop soon: within a batch of words or images, or an epoch."""
        self.watcher.cancel()

    def join(self, seconds: float | None = None) -> None:
        """Waits for the thread to end."""
        self._thread.join(seconds)

    @staticmethod
    def any_left() -> bool:
        """Returns whether a fit is still at work, of whichever session."""
        return any(thread.name == THREAD for thread in threading.enumerate())

    def _run(self) -> None:
        try:
            self._turns.wait(self.watcher)
            try:
                self.watcher.check()
                self.state, started = "running", time.perf_counter()
                self.classifier.set_params(reporter=self.watcher).fit(self._dataset)
                self.watcher.check()
                self.seconds = time.perf_counter() - started
            finally:
                self._turns.end()
            self._done(self.classifier)
            self.state = "done"
        except Cancelled:
            self.state = "cancelled"
        except IplError as error:
            self.error, self.state = str(error), "failed"
        except Exception:  # a bug: the person is told, whoever started the server sees it
            traceback.print_exc()
            self.error, self.state = BUG, "failed"
