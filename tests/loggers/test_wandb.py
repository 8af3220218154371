"""An offline run of Weights & Biases, read back from the file that `wandb sync` uploads."""

from __future__ import annotations

import json
import struct
import time
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from wandb.proto import wandb_internal_pb2

from ipl.loggers.run_log import log_run
from ipl.support.progress import Reporter
from ipl.training.history import EpochRecord, TrainingStarted

HEADER, BLOCK, FULL, LAST = b":W&B\xe1\xbe\x00", 32 * 1024, 1, 4


@pytest.fixture(autouse=True)
def _offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    for name in ("", "_CACHE", "_CONFIG", "_DATA"):
        (tmp_path / f"wandb{name}").mkdir()
        monkeypatch.setenv(f"WANDB{name}_DIR", str(tmp_path / f"wandb{name}"))


def records(path: Path) -> list[Any]:
    """Returns what an offline run wrote, in order: a log of LevelDB behind seven bytes."""
    data, position, found, parts = path.read_bytes(), len(HEADER), [], b""
    assert data.startswith(HEADER)
    while position < len(data):
        left = BLOCK - position % BLOCK
        if left < 7:  # a block is filled up with zeros where no further head has room
            position += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, position)
        parts += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (FULL, LAST):
            found.append(wandb_internal_pb2.Record.FromString(parts))
            parts = b""
    return found


def finished_records(path: Path) -> list[Any]:
    """Returns the same once the last record is on disk: another process writes the file."""
    for _ in range(600):
        try:
            found = records(path)
        except (AssertionError, struct.error, DecodeError):  # still being written
            found = []
        if any(each.HasField("exit") for each in found):
            return found
        time.sleep(0.1)
    raise AssertionError(f"{path} was not finished within a minute")


def values(items: Any) -> dict[str, Any]:
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}


def test_numbers_texts_and_files_come_back(tmp_path: Path) -> None:
    with log_run("wandb:words", "my-run", {"shots": 2}) as log:
        log.record_event(TrainingStarted("train"))
        log.record_event(EpochRecord(0, 0.5, 2.0, "furry"))
        log.record_event(EpochRecord(1, 0.25, 1.5, None))
        log.log_accuracies({"held out": 0.75})
        log.log_file("report.html", b"<p>report</p>")
    assert log.problems == []
    (path,) = (tmp_path / "wandb").rglob("run-*.wandb")
    found = finished_records(path)
    (run,) = [each.run for each in found if each.WhichOneof("record_type") == "run"]
    assert (run.project, run.display_name) == ("words", "my-run")
    assert values(run.config.update)["shots"] == 2
    rows = [values(each.history.item) for each in found if each.HasField("history")]
    losses = [(row["train/step"], row["train/loss"]) for row in rows if "train/loss" in row]
    assert losses == [(1, 2.0), (2, 1.5)]
    assert [row["train/words"] for row in rows if "train/words" in row] == ["furry"]
    summaries = [values(each.summary.update) for each in found if each.HasField("summary")]
    assert {"accuracy/held_out": 0.75}.items() <= {
        k: v for s in summaries for k, v in s.items()
    }.items()
    metrics = [each.metric for each in found if each.HasField("metric")]
    assert ("train/*", "train/step") in [(m.glob_name, m.step_metric) for m in metrics]
    requests = [each.request.log_artifact.artifact for each in found if each.HasField("request")]
    artifacts = [each.artifact for each in found if each.HasField("artifact")] + requests
    contents = [entry for artifact in artifacts for entry in artifact.manifest.contents]
    assert "report.html" in [entry.path for entry in contents]


def test_a_run_that_cannot_start_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    import wandb

    def fails(**options: Any) -> None:
        raise wandb.errors.CommError("no network")

    monkeypatch.setattr(wandb, "init", fails)
    reporter = Reporter(quiet=True)
    with log_run("wandb:words", "my-run", {}, reporter) as log:
        log.log_numbers({"accuracy/test": 1.0})
    assert reporter.warnings == [
        "WandbLogger (words) failed, and nothing more is logged: CommError: no network"
    ]
