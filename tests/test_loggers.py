"""What a fit tells its loggers, what TensorBoard and wandb read back, and that none does harm."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from ipl import loggers
from ipl.backbone.backbone import Backbone
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset
from ipl.loggers import RunLogger, log_run, make_loggers
from ipl.support.errors import ConfigError
from ipl.support.progress import Reporter
from ipl.training.history import EpochRecord, TrainingStarted
from ipl.words.pool import Pool

FAST: dict[str, Any] = {"epochs": 4, "interval": 2, "shots": 2, "views": 0, "batch": 4}
EPOCHS = [EpochRecord(0, 0.5, 2.0, "furry"), EpochRecord(1, 0.25, 1.5, None)]


class RecordingLogger(RunLogger):
    """Keeps what it is given; raises OSError from the call with a number of its own on."""

    def __init__(self, target: str = "memory", fails_at: int | None = None) -> None:
        super().__init__(target)
        self.fails_at, self.calls = fails_at, 0
        self.runs: list[tuple[str, Mapping[str, Any]]] = []
        self.logged: dict[str, list[tuple[int | None, float | str]]] = {}
        self.ends: list[bool] = []

    def start(self, name: str, settings: Mapping[str, Any]) -> None:
        self._count()
        self.runs.append((name, settings))

    def log(self, values: Mapping[str, float | str], step: int | None = None) -> None:
        self._count()
        for name, value in values.items():
            self.logged.setdefault(name, []).append((step, value))

    def finish(self, failed: bool = False) -> None:
        self._count()
        self.ends.append(failed)

    def _count(self) -> None:
        self.calls += 1
        if self.fails_at is not None and self.calls >= self.fails_at:
            raise OSError(28, "No space left on device")


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
    monkeypatch.setitem(sys.modules, "my_package", SimpleNamespace(Mine=RecordingLogger))
    values = {"mine": "my_package:Mine", "path": "pathlib:Path"}
    plugins = [EntryPoint(name, value, loggers.GROUP) for name, value in values.items()]
    monkeypatch.setattr(loggers, "entry_points", lambda group: plugins)
    (logger,) = make_loggers("mine:C:/here")
    assert isinstance(logger, RecordingLogger)
    assert logger.target == "C:/here"
    with pytest.raises(ConfigError):
        make_loggers("path:here")


def test_a_fit_logs_what_its_result_has(pocket: Backbone, data: Dataset, pool: Pool) -> None:
    logger = RecordingLogger()
    classifier = PromptClassifier(pocket, words=2, pool=pool, cache=False, **FAST)
    result = classifier.fit(data, compare=True, log_to=logger).result_
    ((name, settings),) = logger.runs
    assert name == "three-scenes-kgcoop-2w-seed1"
    assert settings["epochs"] == 4
    epochs = result.history.epochs
    assert logger.logged["train/loss"] == [(e.epoch + 1, e.loss) for e in epochs]
    assert logger.logged["train/learning_rate"] == [(e.epoch + 1, e.lr) for e in epochs]
    assert len(logger.logged["train-without-words/loss"]) == 4
    assert result.selection is not None
    steps = result.selection.steps
    for number in ("gain", "utility", "redundancy", "loss"):
        expected = [(index, getattr(step, number)) for index, step in enumerate(steps, start=1)]
        assert logger.logged[f"search/{number}"] == expected
    first, second = result.words
    words = [first, f"{first}, {second}"]
    assert logger.logged["search/words"] == [(1, words[0]), (2, words[1])]
    comparison = result.comparison
    assert comparison is not None
    for method in comparison.methods[:-1]:
        key = f"accuracy/{method.name.replace('-', '_')}"
        assert logger.logged[key] == [(None, comparison.accuracy(method))]
    assert logger.logged["accuracy/held_out"] == [(None, result.held_out_accuracy)]
    assert logger.logged["accuracy/train"] == [(None, result.train_accuracy)]
    assert logger.logged["result/prompt"] == [(None, result.prompt)]
    assert logger.ends == [False]


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
    assert len(good.logged["train/loss"]) == 4
    assert good.ends == [False]
    assert len([text for text in reporter.warnings if "full disk" in text]) == 1
    with pytest.raises(ConfigError):  # a fit that fails ends its run as failed
        PromptClassifier(pocket, words=30, **FAST | {"epochs": 60}).fit(data, log_to=good)
    assert good.ends == [False, True]


def read(folder: Path) -> EventAccumulator:
    events = EventAccumulator(str(folder))
    events.Reload()
    return events


def text(events: EventAccumulator, name: str) -> list[tuple[int, str]]:
    values = events.Tensors(f"{name}/text_summary")
    return [(v.step, v.tensor_proto.string_val[0].decode()) for v in values]


def test_tensorboard_reads_numbers_and_texts(tmp_path: Path) -> None:
    target = f"tensorboard:{tmp_path / 'logs'}"
    with log_run(target, "run", {"shots": 2, "pool": None, "template": "a | b"}) as log:
        log.record_event(TrainingStarted("train"))
        for epoch in EPOCHS:
            log.record_event(epoch)
        log.log_accuracies({"held out": 0.75})
        log.log({"result/prompt": "[V] {cls}"})
    with log_run(target, "run", {}) as log:  # a name that is taken gets a number
        log.log_accuracies({"test": 2.0})
    assert [e.value for e in read(tmp_path / "logs" / "run-2").Scalars("accuracy/test")] == [2.0]
    folder = tmp_path / "logs" / "run"
    events = read(folder)
    assert [(e.step, e.value) for e in events.Scalars("train/loss")] == [(1, 2.0), (2, 1.5)]
    assert [e.value for e in events.Scalars("accuracy/held_out")] == [0.75]
    assert text(events, "result/prompt") == [(0, "[V] {cls}")]
    ((_, settings),) = text(events, "settings")
    assert "shots" in settings
    assert r"a \| b" in settings
    assert "pool" not in settings


def test_wandb_gets_numbers_and_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for the library, which would start processes."""
    run = MagicMock(summary={})
    wandb = MagicMock(init=MagicMock(return_value=run))
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    monkeypatch.setattr(loggers, "require", lambda *_: None)
    with log_run("wandb:team/words", "my-run", {"shots": 2}) as log:
        log.record_event(TrainingStarted("train"))
        for epoch in EPOCHS:
            log.record_event(epoch)
        log.log_accuracies({"held out": 0.75})
        log.log({"search/words": "furry"}, 1)
    assert log.problems == []
    given = wandb.init.call_args.kwargs
    assert (given["entity"], given["project"], given["name"]) == ("team", "words", "my-run")
    assert given["config"] == {"shots": 2}
    logged = [call.args[0] for call in run.log.call_args_list]
    losses = [(row["train/step"], row["train/loss"]) for row in logged if "train/loss" in row]
    assert losses == [(1, 2.0), (2, 1.5)]
    assert {"search/words": "furry", "search/step": 1} in logged
    assert run.summary == {"accuracy/held_out": 0.75}
    run.define_metric.assert_any_call("train/*", step_metric="train/step")
    run.finish.assert_called_once_with(exit_code=0)
