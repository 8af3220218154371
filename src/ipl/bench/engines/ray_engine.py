"""Runs on a Ray cluster: a task each, with its share of a GPU or of a node's cores."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

from ipl.bench.engines.engine import Finished, Queue, Tell
from ipl.bench.records import failure
from ipl.bench.run import Run
from ipl.bench.runner import RunEnvironment, Runner
from ipl.support.errors import ConfigError, IplError

RETRIES = 3  # nodes that may die under one run before it counts as failed
AHEAD = 2  # tasks that wait on the cluster, so that no node does

_bench: Runner | None = None  # of a Ray worker process, which serves many tasks


class RayEngine:
    """Each run is a task; should its node die, Ray starts it again on another.

    Tasks only return records. Whoever asks writes them, so that none is written twice.
    """

    def __init__(self, place: RunEnvironment, jobs: int = 1, address: str | None = None) -> None:
        if jobs < 1:
            raise ConfigError(f"jobs is {jobs}; it must be 1 or more.")
        self.place, self.jobs, self.address = place, jobs, address
        self.ray = import_ray()

    def work(self, queue: Queue, tell: Tell) -> Iterator[Finished]:
        """Yields each run that it took, until none is left; closing it stops everything."""
        ray = self.ray
        connect(ray, self.address)
        asked = share(ray, self.jobs, self.place.device)
        task = ray.remote(_record).options(max_retries=RETRIES, **asked)
        place = self.place.as_dict()
        flying: dict[Any, Run] = {}
        last: Run | None = None
        try:
            while True:
                while len(flying) < self._slots(asked) + AHEAD:
                    if (run := queue.take(last)) is None:
                        break
                    flying[task.remote(run.as_dict(), place)] = last = run
                    tell(run, "")
                if not flying:
                    return
                ready, _ = ray.wait(list(flying), num_returns=1, timeout=10)
                for reference in ready:
                    run = flying.pop(reference)
                    yield Finished(run, self._result(reference, run))
        finally:
            for reference in flying:
                ray.cancel(reference, force=True)

    def _result(self, reference: Any, run: Run) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:  # its worker or node died once too often
            said = (str(error).strip().splitlines() or [""])[-1].strip()
            lost = failure(run, f"The run was lost on the cluster: {type(error).__name__}: {said}")
            return {**lost, "traceback": str(error)}
        if "refused" in answer:
            raise IplError(answer["refused"])
        return answer

    def _slots(self, asked: dict[str, float]) -> int:
        """Returns how many runs the cluster does at once, as it is now."""
        there = self.ray.cluster_resources()
        if "num_gpus" in asked:
            return int(there.get("GPU", 0) / asked["num_gpus"])
        return max(1, int(there.get("CPU", 1) // asked["num_cpus"]))


def share(ray: Any, jobs: int, device: str) -> dict[str, float]:
    """Returns what a task asks of a node, which does `jobs` at once on each GPU, or in all."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if device != "cpu" and any(node.get("GPU") for node in nodes):
        return {"num_gpus": 1 / jobs, "num_cpus": 1}
    smallest = min((node["CPU"] for node in nodes if node.get("CPU")), default=1)
    return {"num_cpus": max(1, smallest // jobs)}


def import_ray() -> Any:
    """Returns the package ray; says how to install it if it is not there."""
    try:
        import ray
    except ImportError:
        raise ConfigError(
            "This needs Ray, which is not installed: pip install 'ipl[scale]'."
        ) from None
    return ray


def connect(ray: Any, address: str | None) -> None:
    """Joins the cluster at an address, or starts one on this machine, unless joined already."""
    if ray.is_initialized():
        return
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if port.isdigit():  # Ray itself would try for minutes
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
        except OSError as error:
            raise ConfigError(
                f"address is {address!r}; nothing answers there: {error.strerror or error}."
            ) from None
    try:
        ray.init(
            address=address,
            include_dashboard=None if address else False,
            log_to_driver=False,
            logging_level="ERROR",
        )
    except (ConnectionError, ValueError, RuntimeError) as error:
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ConfigError(f"address is {address!r}; no Ray cluster answers there: {line}") from None


def _record(run: dict[str, Any], place: dict[str, Any]) -> dict[str, Any]:
    """Returns the record of a run, computed on whatever node this is."""
    global _bench
    if _bench is None or _bench.place != RunEnvironment(**place):
        _bench = Runner(RunEnvironment(**place))
    try:
        return _bench.record(Run.from_dict(run))
    except IplError as error:  # a backbone or a device that is not there: no run can be done
        return {"refused": str(error)}
