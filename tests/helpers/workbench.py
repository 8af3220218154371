"""What the tests of the workbench call by name."""

from __future__ import annotations

import time
from collections.abc import Callable

from ipl.apps.workbench.fit_thread import FitThread
from ipl.apps.workbench.session import Session
from ipl.apps.workbench.settings import WorkbenchSettings

QUICK = WorkbenchSettings("coop", words=2, shots=3, epochs=6, seed=1)


def learnt(session: Session, settings: WorkbenchSettings = QUICK) -> FitThread:
    """Returns a fit that has come to its good end."""
    fit = session.learn(settings)
    fit.join(60)
    assert fit.state == "done", fit.error
    return fit


def wait_for(happened: Callable[[], object], fit: FitThread) -> None:
    """Returns when something has happened, which must be before the fit ends."""
    while not happened():
        assert not fit.ended, (fit.state, fit.error)
        time.sleep(0.005)
