"""Runs on a Ray cluster: a task each, with its share of a GPU or of a node's cores."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import Any

from ipl.bench.grid import Finished, ReportProgress, RunQueue
from ipl.bench.records import RunRecord
from ipl.bench.run import Run
from ipl.bench.runner import RunEnvironment, Runner
from ipl.support.errors import ConfigError, IplError, first_line
from ipl.support.extras import require

RETRIES = 3  # nodes that may die during one run before it counts as failed
AHEAD = 2  # tasks that wait on the cluster, so that no node has to

_runner: Runner | None = None  # of a Ray worker process, which serves many tasks


class RayEngine:
    """Each run is a task; if its node dies, Ray starts it again on another.

    Tasks only return records. The caller writes them, so that none is written twice.
    """

    def __init__(self, environment: RunEnvironment, jobs: int = 1, address: str = "local") -> None:
        self.environment, self.jobs, self.address = environment, jobs, address
        require("A Ray cluster", "scale", "ray")
        import ray

        self.ray: Any = ray

    def work(self, queue: RunQueue, report: ReportProgress) -> Finished:
        ray = self.ray
        _connect(ray, self.address)
        resources = _share(ray, self.jobs, self.environment.device)
        task = ray.remote(_record).options(max_retries=RETRIES, **resources)
        environment = replace(self.environment, jobs=self.jobs * _most_gpus(ray))
        pending: dict[Any, Run] = {}
        last: Run | None = None
        try:
            while True:
                while len(pending) < self._slots(resources) + AHEAD:
                    if (run := queue.take(last)) is None:
                        break
                    pending[task.remote(run, environment)] = last = run
                    report(run, "")
                if not pending:
                    return
                ready, _ = ray.wait(list(pending), num_returns=1, timeout=10)
                for reference in ready:
                    run = pending.pop(reference)
                    yield run, self._result(reference, run)
        finally:
            for reference in pending:
                ray.cancel(reference, force=True)

    def _result(self, reference: Any, run: Run) -> RunRecord:
        try:
            record: RunRecord = self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:
            raise (error.cause if isinstance(error.cause, IplError) else error) from None
        except self.ray.exceptions.RayError as error:  # its worker or node died once too often
            line = (str(error).strip().splitlines() or [""])[-1].strip()
            lost = f"The cluster lost the run: {type(error).__name__}: {line}"
            return replace(RunRecord.failed(run, lost), traceback=str(error))
        return record

    def _slots(self, resources: dict[str, float]) -> int:
        """How many runs the cluster can do at the same time now."""
        available = self.ray.cluster_resources()
        if "num_gpus" in resources:
            return int(available.get("GPU", 0) / resources["num_gpus"])
        return max(1, int(available.get("CPU", 1) // resources["num_cpus"]))


def _share(ray: Any, jobs: int, device: str) -> dict[str, float]:
    """The resources of a task, if a node does `jobs` at once on each GPU, or in all."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if device != "cpu" and any(node.get("GPU") for node in nodes):
        return {"num_gpus": 1 / jobs, "num_cpus": 1}
    smallest = min((node["CPU"] for node in nodes if node.get("CPU")), default=1)
    return {"num_cpus": max(1, smallest // jobs)}


def _most_gpus(ray: Any) -> int:
    """The GPUs of the node that has most of them; 1 if none has any."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return max([1, *(int(node.get("GPU", 0)) for node in nodes)])


def _connect(ray: Any, address: str) -> None:
    """Joins the cluster at an address, or starts one on this machine, unless already joined."""
    if ray.is_initialized():
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
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
            include_dashboard=False if address == "local" else None,
            log_to_driver=False,
            logging_level="ERROR",
        )
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise ConfigError(
            f"address is {address!r}; no Ray cluster answers there: {first_line(error)}."
        ) from None


def _record(run: Run, environment: RunEnvironment) -> RunRecord:
    """The record of a run, computed on this node."""
    global _runner
    if _runner is None or _runner.environment != environment:
        _runner = Runner(environment)
    return _runner.execute(run)
