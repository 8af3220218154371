"""Engines: what computes runs, in this process, in worker processes or on a Ray cluster."""

from ipl.bench.engines.engine import Engine, FinishedRun, Queue, ReportProgress
from ipl.bench.engines.local import LocalEngine
from ipl.bench.runner import RunEnvironment
from ipl.support.errors import ConfigError

ENGINES = ("local", "ray")


def make_engine(
    name: str, environment: RunEnvironment, jobs: int = 1, address: str | None = None
) -> Engine:
    """Returns the engine of that name.

    Parameters
    ----------
    name : str
        `local` or `ray`.
    environment : RunEnvironment
        Where the data is, and how to compute.
    jobs : int
        Runs at the same time; with `ray`, on each GPU or node.
    address : str, optional
        The address of a Ray cluster.

    Raises
    ------
    ConfigError
        If a value is not allowed, or Ray is not installed.
    """
    if name not in ENGINES:
        raise ConfigError(f"engine is {name!r}; it must be one of {', '.join(ENGINES)}.")
    if name == "ray":
        from ipl.bench.engines.ray_engine import RayEngine

        return RayEngine(environment, jobs, address)
    if address is not None:
        raise ConfigError(f"address is {address!r}; it is for the engine ray, not for {name!r}.")
    return LocalEngine(environment, jobs)


__all__ = [
    "ENGINES",
    "Engine",
    "FinishedRun",
    "LocalEngine",
    "Queue",
    "ReportProgress",
    "make_engine",
]
