"""What a fit tells its loggers, what TensorBoard and wandb read back, and that none does harm."""

from __future__ import annotations

import json
import struct
import sys
import threading
import time
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.summary.writer.record_writer import RecordWriter
from wandb.proto import wandb_internal_pb2

from ipl import loggers
from ipl.backbone.backbone import Backbone
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset
from ipl.loggers import check_loggers, log_run, make_loggers
from ipl.support.errors import ConfigError
from ipl.support.progress import Reporter
from ipl.training.history import EpochRecord, TrainingStarted
from ipl.words.pool import Pool
from tests.helpers.recording_logger import RecordingLogger

FAST: dict[str, Any] = {"epochs": 4, "interval": 2, "shots": 2, "views": 0, "batch": 4}
EPOCHS = [EpochRecord(0, 0.5, 2.0, "furry"), EpochRecord(1, 0.25, 1.5, None)]
HEADER, BLOCK, FULL, LAST = b":W&B\xe1\xbe\x00", 32 * 1024, 1, 4


@pytest.fixture
def data(scenes: Dataset) -> Dataset:
    """Returns three classes of the scenes."""
    return scenes.only(range(3), "three scenes")


@pytest.mark.parametrize("text", ["", "tensorboard", "tensorboard:", ":logs", "tensorbord:logs"])
def test_a_wrong_name_is_told(text: str) -> None:
    with pytest.raises(ConfigError, match="tensorboard"):
        make_loggers(text)


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_a_missing_package_is_one_sentence(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=r"'ipl\[loggers\]'"):
        make_loggers(f"{name}:somewhere")


def test_other_packages_announce_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    helper = "tests.helpers.recording_logger"
    values = {"mine": f"{helper}:RecordingLogger", "gone": f"{helper}:Gone", "path": "pathlib:Path"}
    plugins = [EntryPoint(name, value, loggers.GROUP) for name, value in values.items()]
    monkeypatch.setattr(loggers, "entry_points", lambda group: plugins)
    (logger,) = make_loggers("mine:C:/here")
    assert isinstance(logger, RecordingLogger)
    assert logger.target == "C:/here"
    for name in ("gone", "path"):
        with pytest.raises(ConfigError):
            make_loggers(f"{name}:here")


@pytest.mark.parametrize("wrong", [RecordingLogger, [RecordingLogger], 3])
def test_what_is_no_logger_is_told(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="log_to"):
        make_loggers(wrong)


def test_a_fit_logs_what_its_result_has(pocket: Backbone, data: Dataset, pool: Pool) -> None:
    logger = RecordingLogger()
    classifier = PromptClassifier(pocket, words=2, pool=pool, cache=False, **FAST)
    result = classifier.fit(data, compare=True, log_to=logger).result_
    ((name, settings),) = logger.runs
    assert name == "three scenes-coop-seed1"
    assert settings["epochs"] == 4
    assert result.history is not None
    epochs = result.history.epochs
    assert logger.numbers["train/loss"] == [(e.epoch + 1, e.loss) for e in epochs]
    assert logger.numbers["train/learning_rate"] == [(e.epoch + 1, e.lr) for e in epochs]
    assert len(logger.numbers["train-without-words/loss"]) == 4
    assert result.selection is not None
    steps = result.selection.steps
    for number in ("gain", "utility", "redundancy", "loss"):
        expected = [(index, getattr(step, number)) for index, step in enumerate(steps, start=1)]
        assert logger.numbers[f"search/{number}"] == expected
    first, second = result.words
    words = [first, f"{first}, {second}"]
    assert logger.texts["search/words"] == [(1, words[0]), (2, words[1])]
    assert logger.texts["train/words"] == [(1, words[0]), (3, words[1])]
    comparison = result.comparison
    assert comparison is not None
    for method in comparison.methods[:-1]:
        key = f"accuracy/{method.name.replace('-', '_')}"
        assert logger.numbers[key] == [(None, comparison.accuracy(method))]
    assert logger.numbers["accuracy/held_out"] == [(None, result.held_out_accuracy)]
    assert logger.numbers["accuracy/train"] == [(None, result.train_accuracy)]
    assert logger.texts["result/prompt"] == [(None, result.prompt)]
    assert logger.ends == [False]


def test_every_number_of_words_has_curves_of_its_own(
    pocket: Backbone, data: Dataset, pool: Pool
) -> None:
    logger = RecordingLogger()
    fast = FAST | {"epochs": 2, "interval": 1}
    PromptClassifier(pocket, words="paper", pool=pool, cache=False, **fast).fit(data, log_to=logger)
    losses = {name: values for name, values in logger.numbers.items() if name.endswith("/loss")}
    assert set(losses) == {"search/loss", "train-1-words/loss", "train-2-words/loss"}
    assert [step for step, _ in losses["train-2-words/loss"]] == [1, 2]


@pytest.mark.parametrize("fails_at", [1, 3])
def test_a_logger_that_fails_is_left_out_with_one_warning(
    fails_at: int, pocket: Backbone, data: Dataset
) -> None:
    reporter, good = Reporter(quiet=True), RecordingLogger()
    bad = RecordingLogger("full disk", fails_at)
    classifier = PromptClassifier(pocket, words=0, reporter=reporter, **FAST)
    classifier.fit(data, log_to=[bad, good])
    plain = PromptClassifier(pocket, words=0, **FAST).fit(data)
    assert classifier.result_.held_out_accuracy == plain.result_.held_out_accuracy
    assert bad.calls == fails_at
    assert len(good.numbers["train/loss"]) == 4
    assert good.ends == [False]
    logging = [text for text in reporter.warnings if "logged" in text]
    assert logging == [
        "RecordingLogger (full disk) failed, and nothing more is logged: "
        "OSError: [Errno 28] No space left on device"
    ]


def test_a_fit_that_fails_ends_its_run_as_failed(pocket: Backbone, data: Dataset) -> None:
    logger = RecordingLogger()
    classifier = PromptClassifier(pocket, words=30, **FAST | {"epochs": 60})
    with pytest.raises(ConfigError):
        classifier.fit(data, log_to=logger)
    assert logger.ends == [True]


def test_what_is_shown_goes_on_to_the_reporter_behind_the_log() -> None:
    heard: list[object] = []

    class Listener(Reporter):
        def record_event(self, event: object) -> None:
            heard.append(event)

        def say(self, message: str) -> None:
            heard.append(message)

    listener = Listener(quiet=True)
    with log_run([], "run", {}, listener) as log:
        log.say("hello")
        log.record_event(EPOCHS[0])
        log.warn("careful")
    assert heard == ["hello", EPOCHS[0]]
    assert listener.warnings == log.warnings == ["careful"]


def read(folder: Path) -> EventAccumulator:
    events = EventAccumulator(str(folder))
    events.Reload()
    return events


def text(events: EventAccumulator, name: str) -> list[tuple[int, str]]:
    values = events.Tensors(f"{name}/text_summary")
    return [(v.step, v.tensor_proto.string_val[0].decode()) for v in values]


def test_tensorboard_reads_numbers_texts_and_files(tmp_path: Path) -> None:
    target = f"tensorboard:{tmp_path / 'logs'}"
    with log_run(target, "run", {"shots": 2, "pool": None, "template": "a | b"}) as log:
        log.record_event(TrainingStarted("train"))
        for epoch in EPOCHS:
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


def test_a_folder_that_cannot_be_is_refused_at_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    reporter = Reporter(quiet=True)
    for target in ("tensorboard:file", "tensorboard:file/logs"):
        with pytest.raises(ConfigError, match=target):
            check_loggers([target])
        with log_run(target, "run", {}, reporter):  # it became a file later
            pass
    assert len(reporter.warnings) == 2
    check_loggers(["tensorboard:new/logs", f"tensorboard:{tmp_path}"])
    assert [path.name for path in tmp_path.iterdir()] == ["file"]  # nothing is left behind


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


def test_wandb_keeps_numbers_texts_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An offline run, read back from the file that `wandb sync` uploads."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    for name in ("", "_CACHE", "_CONFIG", "_DATA"):
        (tmp_path / f"wandb{name}").mkdir()
        monkeypatch.setenv(f"WANDB{name}_DIR", str(tmp_path / f"wandb{name}"))
    with log_run("wandb:words", "my-run", {"shots": 2}) as log:
        log.record_event(TrainingStarted("train"))
        for epoch in EPOCHS:
            log.record_event(epoch)
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
