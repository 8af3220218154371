"""What a fit tells its loggers, and that none of them can do it harm."""

from __future__ import annotations

from typing import Any

import pytest

from ipl.backbone.backbone import Backbone
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset
from ipl.loggers.run_log import log_run
from ipl.support.errors import ConfigError
from ipl.support.progress import Reporter
from ipl.training.history import EpochRecord, TrainingStarted
from ipl.words.pool import Pool
from tests.helpers.recording_logger import RecordingLogger

FAST: dict[str, Any] = {"epochs": 4, "interval": 2, "shots": 2, "views": 0, "batch": 4}


@pytest.fixture
def data(scenes: Dataset) -> Dataset:
    """Returns three classes of the scenes."""
    return scenes.only(range(3), "three scenes")


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


@pytest.mark.parametrize("wrong", [RecordingLogger, print, [RecordingLogger], 3])
def test_what_is_no_logger_is_told(wrong: Any) -> None:
    with (
        pytest.raises(ConfigError, match="log_to is .*it must be NAME:TARGET"),
        log_run(wrong, "a", {}),
    ):
        pass


def test_the_reporter_behind_a_log_hears_everything() -> None:
    class Listener(Reporter):
        def __init__(self) -> None:
            super().__init__(quiet=True)
            self.heard: list[object] = []

        def record_event(self, event: object) -> None:
            self.heard.append(event)

        def say(self, message: str) -> None:
            self.heard.append(message)

    listener, logger = Listener(), RecordingLogger()
    events = [TrainingStarted("train"), EpochRecord(0, 0.1, 2.0, "furry"), "something new"]
    with log_run([logger], "run", {}, listener) as log:
        log.say("hello")
        for event in events:
            log.record_event(event)
        log.warn("careful")
    assert listener.heard == ["hello", *events]
    assert listener.warnings == log.warnings == ["careful"]
    assert logger.numbers == {"train/loss": [(1, 2.0)], "train/learning_rate": [(1, 0.1)]}
    log.record_event(events[1])  # after its end
    assert len(logger.numbers["train/loss"]) == 1
