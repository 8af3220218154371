"""What the tests of the workbench call by name."""

from __future__ import annotations

import time
from collections.abc import Callable

from ipl.workbench import Session, Settings
from ipl.workbench.worker import Fit

QUICK = Settings("coop", words=2, shots=3, epochs=6, seed=1)


def learnt(session: Session, settings: Settings = QUICK) -> Fit:
    """Returns a fit that has come to its good end."""
    fit = session.learn(settings)
    fit.join(60)
    assert fit.state == "done", fit.error
    return fit


def wait_for(happened: Callable[[], object], fit: Fit) -> None:
    """Returns when something has happened, which must be before the fit ends."""
    while not happened():
        assert not fit.ended, (fit.state, fit.error)
        time.sleep(0.005)
