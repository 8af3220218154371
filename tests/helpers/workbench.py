"""Fits at the workbench: how to start one, and to wait for what it does."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from ipl.apps.workbench.fit_thread import FitThread, WorkbenchSettings
from ipl.apps.workbench.sessions import Session, Workbench

QUICK = WorkbenchSettings("coop", words=2, shots=3, epochs=6, seed=1)
LONG = WorkbenchSettings("coop", words=1, shots=3, epochs=500, seed=1)


def learn(session: Session, settings: WorkbenchSettings = QUICK) -> FitThread:
    """Returns a fit that is done."""
    fit = session.learn(settings)
    fit.join(60)
    assert fit.state == "done", fit.error
    return fit


def wait_for(condition: Callable[[], object], fit: FitThread) -> None:
    """Returns when a condition is met, which must be before the fit ends."""
    while not condition():
        assert not fit.ended, (fit.state, fit.error)
        time.sleep(0.005)


def with_images(
    workbench: Workbench, key: str, dropped: Callable[..., list[Path]], *names: str
) -> Session:
    """Returns a new session with images of these classes."""
    session = workbench.open(key)
    for name in names:
        session.add_class(name, dropped(name))
    return session
