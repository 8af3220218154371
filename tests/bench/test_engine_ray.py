"""A Ray cluster of two nodes on this machine, one of which dies in the middle of a grid."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ipl.bench.engines.ray_engine as ray_engine
from ipl.bench.engines.ray_engine import RayEngine
from ipl.bench.grid import Finished, ReportProgress, RunQueue, run_grid
from ipl.bench.records import RunRecord, read_records, record_path
from ipl.bench.run import Run
from ipl.bench.runner import RunEnvironment, Runner
from ipl.support.errors import ConfigError

Runs = Callable[..., tuple[Run, ...]]
# A dead node is noticed after a second, not after half a minute.
NOTICE = {
    "health_check_initial_delay_ms": 500,
    "health_check_period_ms": 300,
    "health_check_timeout_ms": 1000,
    "health_check_failure_threshold": 2,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Returns a cluster of one node with one core; a test may add another."""
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'ipl[scale]'")
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": NOTICE}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        made = Cluster(initialize_head=True, head_node_args=head)
        yield made
        ray.shutdown()
        made.shutdown()


class Cruel:
    """An engine on whose second node the power fails while a run is computed there."""

    def __init__(self, engine: RayEngine, cluster: Any, node: Any, log: Path) -> None:
        self.engine, self.cluster, self.node, self.log = engine, cluster, node, log
        self.lost = ""

    def work(self, queue: RunQueue, report: ReportProgress) -> Iterator[Finished]:
        for finished in self.engine.work(queue, report):
            yield finished
            if not self.lost:
                self.lost = self._running_there()
                self.cluster.remove_node(self.node, allow_graceful=False)

    def _running_there(self) -> str:
        """Returns the run that the node is at, as soon as it is at one."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            lines = [json.loads(line) for line in self.log.read_text().splitlines()]
            there = [line for line in lines if line["node"] == self.node.node_id]
            if there and there[-1]["what"] == "start":
                return str(there[-1]["run"])
            time.sleep(0.01)
        raise AssertionError("the second node was never given a run")


def test_an_address_where_nothing_answers(
    runs: Runs, environment: RunEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'ipl[scale]'")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(ConfigError, match=r"address is '127.0.0.1:1'; nothing answers there"):
        run_grid(runs(), tmp_path, RayEngine(environment, address="127.0.0.1:1"))
    assert not (tmp_path / "records").exists()


@pytest.mark.slow
@pytest.mark.faults
def test_a_node_dies_and_every_record_is_complete_and_none_twice(
    cluster: Any,
    runs: Runs,
    environment: RunEnvironment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = tmp_path / "log"
    log.touch()

    def logged(run: Run, where: RunEnvironment) -> RunRecord:
        import ray

        import ipl.bench.engines.ray_engine as there

        def write(what: str) -> None:
            node = ray.get_runtime_context().get_node_id()
            with open(log, "a") as file:
                file.write(json.dumps({"what": what, "node": node, "run": name}) + "\n")

        name = run.id
        write("start")
        record = there._record(run, where)
        write("end")
        return record

    monkeypatch.setattr(ray_engine, "_record", logged)
    grid = runs(seeds="1,2,3", epochs=300)  # long enough to be killed in the middle
    engine = RayEngine(environment, address=cluster.address)
    cruel = Cruel(engine, cluster, cluster.add_node(num_cpus=1), log)
    result = run_grid(grid, tmp_path / "out", cruel)

    assert not result.failed
    assert sorted(result.done) == sorted(run.id for run in grid)  # each told of once
    records, _ = read_records([tmp_path / "out"])
    assert [record.id for record in records if record.done] == sorted(run.id for run in grid)
    assert all(set(record.accuracy) == {"base", "novel"} for record in records)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    starts = [line["run"] for line in lines if line["what"] == "start"]
    # It was lost and done again on the other node, unless it ended just before.
    ended_there = {"what": "end", "node": cruel.node.node_id, "run": cruel.lost} in lines
    assert ended_there or starts.count(cruel.lost) == 2
    here = Runner(environment).execute(grid[1])
    there = json.loads(record_path(tmp_path / "out", grid[1].id).read_text())
    assert (there["accuracy"], there["chosen"]) == (here.accuracy, list(here.chosen))
