"""TensorBoard itself reads back what was logged."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.summary.writer.record_writer import RecordWriter

from ipl.loggers.logger import check_loggers
from ipl.loggers.run_log import log_run
from ipl.support.errors import ConfigError
from ipl.support.progress import Reporter
from ipl.training.history import EpochRecord, TrainingStarted


def read(folder: Path) -> EventAccumulator:
    events = EventAccumulator(str(folder))
    events.Reload()
    return events


def text(events: EventAccumulator, name: str) -> list[tuple[int, str]]:
    values = events.Tensors(f"{name}/text_summary")
    return [(v.step, v.tensor_proto.string_val[0].decode()) for v in values]


def test_numbers_texts_and_files_come_back(tmp_path: Path) -> None:
    target = f"tensorboard:{tmp_path / 'logs'}"
    epochs = [EpochRecord(0, 0.5, 2.0, "furry"), EpochRecord(1, 0.25, 1.5, None)]
    with log_run(target, "run", {"shots": 2, "pool": None, "template": "a | b"}) as log:
        log.record_event(TrainingStarted("train"))
        for epoch in epochs:
            log.record_event(epoch)
        log.log_accuracies({"held out": 0.75})
        log.log_file("report.html", b"<p>report</p>")
    folder = tmp_path / "logs" / "run"
    events = read(folder)
    assert [(e.step, e.value) for e in events.Scalars("train/loss")] == [(1, 2.0), (2, 1.5)]
    rates = [(e.step, e.value) for e in events.Scalars("train/learning_rate")]
    assert rates == [(1, 0.5), (2, 0.25)]
    assert [e.value for e in events.Scalars("accuracy/held_out")] == [0.75]
    assert text(events, "train/words") == [(1, "furry")]
    ((_, settings),) = text(events, "settings")
    assert "shots" in settings
    assert r"a \| b" in settings
    assert "pool" not in settings
    assert (folder / "report.html").read_bytes() == b"<p>report</p>"


def test_a_name_that_is_taken_gets_a_number(tmp_path: Path) -> None:
    for value in (1.0, 2.0):
        with log_run(f"tensorboard:{tmp_path}", "run", {}) as log:
            log.log_numbers({"accuracy/test": value})
    assert [e.value for e in read(tmp_path / "run").Scalars("accuracy/test")] == [1.0]
    assert [e.value for e in read(tmp_path / "run-2").Scalars("accuracy/test")] == [2.0]


def test_an_error_is_logged(tmp_path: Path) -> None:
    with pytest.raises(KeyError), log_run(f"tensorboard:{tmp_path}", "run", {}):
        raise KeyError
    assert text(read(tmp_path / "run"), "status") == [(0, "failed")]


@pytest.mark.parametrize("target", ["file", "file/logs", "/proc/x/y"])
def test_a_folder_that_cannot_be_is_refused_at_first(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    message = f"^--log-to is 'tensorboard:{target}'; nothing can be written there: .*[a-z]\\.$"
    with pytest.raises(ConfigError, match=message):
        check_loggers([f"tensorboard:{target}"])
    check_loggers(["tensorboard:new/logs", f"tensorboard:{tmp_path}"])
    assert [path.name for path in tmp_path.iterdir()] == ["file"]  # nothing is left behind


def test_a_folder_that_cannot_be_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    reporter = Reporter(quiet=True)
    for folder in (tmp_path / "file", tmp_path / "file" / "logs"):
        with log_run(f"tensorboard:{folder}", "run", {}, reporter) as log:
            log.log_numbers({"accuracy/test": 1.0})
    assert len(reporter.warnings) == 2
    assert all("TensorBoardLogger" in warning for warning in reporter.warnings)


def test_a_full_disk_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: RecordWriter, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RecordWriter, "write", full)
    monkeypatch.setattr(threading, "excepthook", lambda arguments: None)  # of its own thread
    reporter = Reporter(quiet=True)
    with log_run(f"tensorboard:{tmp_path}", "run", {}, reporter) as log:
        log.log_numbers({"accuracy/test": 1.0})
    (warning,) = reporter.warnings
    assert "No space left on device" in warning
