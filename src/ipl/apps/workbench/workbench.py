"""What all browsers share: a frozen backbone, a limit on fits at a time, and who is there."""

from __future__ import annotations

import tempfile
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from ipl.apps.limits import Limits
from ipl.apps.workbench.fit_thread import FitQueue
from ipl.apps.workbench.image_classes import ImageClasses
from ipl.apps.workbench.session import Session
from ipl.backbone.backbone import Backbone
from ipl.classifier import PromptClassifier
from ipl.support.errors import DataError
from ipl.words.pool import Pool

AT_ONCE = 2  # fits; each takes all processors it can get, and up to 2 GiB
MOST_SESSIONS = 50
UPLOAD_BYTES = 20 * 1024 * 1024  # of one image
SECONDS_TO_END = 1.5  # that all fits together have when the workbench ends


class Workbench:
    """The sessions of all browsers, each under a key that only its browser knows."""

    def __init__(
        self,
        backbone: Backbone,
        classifier: PromptClassifier | None = None,
        image_classes: ImageClasses | None = None,
        browse: bool = True,
        pool: Pool | None = None,
        views: int = 0,
        limits: Limits | None = None,
        at_once: int = AT_ONCE,
        opened: str = "",
    ) -> None:
        """Takes what every session starts with; `browse` lets it name folders of this machine.

        `opened` is what the classifier is called where it was saved.
        """
        self.opened = opened
        self.backbone, self.classifier, self.browse = backbone, classifier, browse
        self.image_classes = image_classes or ImageClasses()
        self.pool, self.views = pool, views
        self.limits = limits or Limits(max_bytes=UPLOAD_BYTES)
        self.turns = FitQueue(at_once)
        self._folder = tempfile.TemporaryDirectory(prefix="ipl-ui-")
        self.inbox = Path(self._folder.name) / "inbox"  # where files from browsers arrive
        self.inbox.mkdir()
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._count = 0
        self._lock = threading.Lock()

    @cached_property
    def candidates(self) -> Pool:
        """Returns the words that a search chooses from."""
        return (self.pool or Pool.bundled()).for_tokenizer(self.backbone.tokenizer)

    def open(self, key: str) -> Session:
        """Returns a new session; beyond a number of them the one unused for longest goes."""
        with self._lock:
            self._count += 1
            session = Session(self, Path(self._folder.name) / f"session-{self._count}")
            old = [self._sessions.pop(key)] if key in self._sessions else []
            if len(self._sessions) >= MOST_SESSIONS:
                old.append(self._sessions.popitem(last=False)[1])
            self._sessions[key] = session
        for one in old:
            self._close(one)
        return session

    def session(self, key: str) -> Session:
        """Returns the session of a browser."""
        with self._lock:
            if key not in self._sessions:
                raise DataError("This page was left for too long; reload it to start anew.")
            self._sessions.move_to_end(key)
            return self._sessions[key]

    def close(self, key: str) -> None:
        """Ends a session: its fit stops, its images are removed."""
        with self._lock:
            session = self._sessions.pop(key, None)
        if session is not None:
            self._close(session)

    def end(self) -> None:
        """Ends all sessions; a fit that does not stop at once is not waited for."""
        with self._lock:
            sessions = list(self._sessions.values())
            self._sessions.clear()
        for session in sessions:
            session.cancel()
        last = time.monotonic() + SECONDS_TO_END
        for session in sessions:
            session.close(max(0.0, last - time.monotonic()))
        self._folder.cleanup()

    def _close(self, session: Session) -> None:
        session.close()
        with self._lock:  # two browsers may have sent the same image
            others = [other.handed_over for other in self._sessions.values()]
            for file in session.handed_over.difference(*others):
                if file.is_relative_to(self.inbox):
                    with suppress(OSError):
                        file.unlink()
