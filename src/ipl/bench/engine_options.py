"""Where and how fast runs are computed: the options of that, checked without importing torch."""

from __future__ import annotations

import re

from ipl.config import settings
from ipl.config_fields import checked_value
from ipl.support.errors import ConfigError, closest

LOCAL, THREADS, JOINED, RAY = "local", "threads", "joined", "ray"
ON_ONE_GPU = (THREADS, JOINED)
ENGINES = (LOCAL, *ON_ONE_GPU, RAY)
DEVICES = re.compile(r"auto|cpu|cuda(:\d{1,3})?|mps(:0)?")


def check_engine_options(
    engine: str, jobs: int = 1, address: str | None = None, device: str = "auto", memory: float = 1
) -> None:
    """Raises ConfigError if a value is not allowed, whatever this machine has.

    Parameters
    ----------
    engine : str
        A name in `ENGINES`.
    jobs : int
        Runs at the same time.
    address : str, optional
        The address of a Ray cluster.
    device : str
        auto, cpu, cuda, cuda:1, mps.
    memory : float
        GiB of working memory for the search.
    """
    if engine not in ENGINES:
        raise ConfigError(
            f"engine is {engine!r}; it must be one of {', '.join(ENGINES)}."
            f"{closest(engine, ENGINES)}"
        )
    if jobs < 1:
        raise ConfigError(f"jobs is {jobs}; it must be 1 or more.")
    if address is not None and engine != RAY:
        raise ConfigError(f"address is {address!r}; it is for the engine ray, not for {engine!r}.")
    if not DEVICES.fullmatch(device):
        raise ConfigError(f"device is {device!r}; it must be auto, cpu, cuda, cuda:1 or mps.")
    if engine in ON_ONE_GPU and device != "auto" and not device.startswith("cuda"):
        raise no_gpu(engine, device)
    (setting,) = (setting for setting in settings() if setting.name == "memory")
    checked_value(setting, memory)


def no_gpu(engine: str, device: str) -> ConfigError:
    """Returns the error of an engine that needs a GPU and has none."""
    missing = ", and there is no GPU" if device == "auto" else ""
    return ConfigError(
        f"engine is {engine!r}, which lets runs share one NVIDIA GPU, but the device is "
        f"{device!r}{missing}; use the engine 'local'."
    )
