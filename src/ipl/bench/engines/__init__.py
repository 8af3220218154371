"""Engines: what computes runs, in this process, in workers or threads, or on a Ray cluster."""

from ipl.bench.engines.engine import Engine, FinishedRun, Queue, ReportProgress
from ipl.bench.engines.local import LocalEngine
from ipl.bench.engines.thread_engine import ThreadEngine
from ipl.bench.runner import RunEnvironment
from ipl.support.errors import ConfigError

THREADS, JOINED = "threads", "joined"
ON_ONE_GPU = (THREADS, JOINED)
ENGINES = ("local", *ON_ONE_GPU, "ray")


def make_engine(
    name: str, environment: RunEnvironment, jobs: int = 1, address: str | None = None
) -> Engine:
    """Returns the engine of that name.

    Parameters
    ----------
    name : str
        `local`, `threads`, `joined` or `ray`.
    environment : RunEnvironment
        Where the data is, and how to compute.
    jobs : int
        Runs at the same time; with `ray`, on each GPU or node.
    address : str, optional
        The address of a Ray cluster.

    Raises
    ------
    ConfigError
        If a value is not allowed, `threads` or `joined` have no GPU, or Ray is not installed.
    """
    check_engine(name, environment.device)
    if name == "ray":
        from ipl.bench.engines.ray_engine import RayEngine

        return RayEngine(environment, jobs, address)
    if address is not None:
        raise ConfigError(f"address is {address!r}; it is for the engine ray, not for {name!r}.")
    if name in ON_ONE_GPU:
        return ThreadEngine(environment, jobs, joins=name == JOINED)
    return LocalEngine(environment, jobs)


def check_engine(name: str, device: str) -> None:
    """Raises ConfigError if there is no such engine, or it is not for the device."""
    import torch

    if name not in ENGINES:
        raise ConfigError(f"engine is {name!r}; it must be one of {', '.join(ENGINES)}.")
    is_gpu = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
    if name in ON_ONE_GPU and not is_gpu:
        missing = ", and there is no GPU" if device == "auto" else ""
        raise ConfigError(
            f"engine is {name!r}, which lets runs share one NVIDIA GPU, but the device is "
            f"{device!r}{missing}; use the engine 'local'."
        )


__all__ = [
    "ENGINES",
    "JOINED",
    "ON_ONE_GPU",
    "THREADS",
    "Engine",
    "FinishedRun",
    "LocalEngine",
    "Queue",
    "ReportProgress",
    "ThreadEngine",
    "check_engine",
    "make_engine",
]
