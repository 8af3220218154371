"""Engines: what computes runs, in this process, in workers or threads, or on a Ray cluster."""

from ipl.bench.engine_options import JOINED, ON_ONE_GPU, RAY, check_engine_options, no_gpu
from ipl.bench.engines.engine import Engine, FinishedRun, Queue, ReportProgress
from ipl.bench.engines.local import LocalEngine
from ipl.bench.engines.thread_engine import ThreadEngine
from ipl.bench.runner import RunEnvironment


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
    check_engine_options(name, jobs, address, environment.device, environment.memory)
    check_gpu(name, environment.device)
    if name == RAY:
        from ipl.bench.engines.ray_engine import RayEngine

        return RayEngine(environment, jobs, address)
    if name in ON_ONE_GPU:
        return ThreadEngine(environment, jobs, joins=name == JOINED)
    return LocalEngine(environment, jobs)


def check_gpu(engine: str, device: str) -> None:
    """Raises ConfigError if an engine needs a GPU and this machine has none."""
    import torch

    if engine in ON_ONE_GPU and device == "auto" and not torch.cuda.is_available():
        raise no_gpu(engine, device)


__all__ = [
    "Engine",
    "FinishedRun",
    "LocalEngine",
    "Queue",
    "ReportProgress",
    "ThreadEngine",
    "check_gpu",
    "make_engine",
]
