"""Where and how fast runs are computed: the options of that."""

from __future__ import annotations

import re

from ipl.config import settings
from ipl.config_fields import checked_value
from ipl.support.errors import ConfigError

DEVICES = re.compile(r"auto|cpu|cuda(:\d{1,3})?|mps(:0)?")


def check_engine_options(jobs: int, device: str, memory: float) -> None:
    """Raises ConfigError if a value is not allowed, whatever this machine has.

    Parameters
    ----------
    jobs : int
        Runs at the same time.
    device : str
        auto, cpu, cuda, cuda:1, mps.
    memory : float
        GiB of working memory for the search.
    """
    if jobs < 1:
        raise ConfigError(f"jobs is {jobs}; it must be 1 or more.")
    if not DEVICES.fullmatch(device):
        raise ConfigError(f"device is {device!r}; it must be auto, cpu, cuda, cuda:1 or mps.")
    (setting,) = (setting for setting in settings() if setting.name == "memory")
    checked_value(setting, memory)
