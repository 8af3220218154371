"""Who watches a fit is told each word and each epoch as it comes, also those that were kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipl.backbone.backbone import Backbone
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset
from ipl.support.progress import Reporter
from ipl.training.result import EpochRecord
from ipl.words.pool import Pool
from ipl.words.selection import Selection


class Stop(Exception):
    """Raised by a watcher that has seen enough."""


class Watcher(Reporter):
    """Keeps what it is told, and stops at an epoch if it was asked to."""

    def __init__(self, stop_at: int | None = None) -> None:
        super().__init__(quiet=True)
        self.stop_at = stop_at
        self.words: list[tuple[str, ...]] = []
        self.epochs: list[EpochRecord] = []

    def record_event(self, event: object) -> None:
        if isinstance(event, Selection):
            self.words.append(event.words)
        if isinstance(event, EpochRecord):
            self.epochs.append(event)
            if event.epoch == self.stop_at:
                raise Stop


def _fit(backbone: Backbone, data: Dataset, pool: Pool, watcher: Watcher) -> PromptClassifier:
    recipe = {"shots": 2, "epochs": 4, "interval": 2, "views": 0, "batch": 4}
    fresh = PromptClassifier(backbone, words=2, pool=pool, reporter=watcher, **recipe)
    return fresh.fit(data)


@pytest.fixture
def data(scenes: Dataset) -> Dataset:
    """Returns three classes of the scenes."""
    return scenes.only(range(3), "three scenes")


def test_words_and_epochs_come_in_order(pocket: Backbone, data: Dataset, pool: Pool) -> None:
    watcher = Watcher()
    classifier = _fit(pocket, data, pool, watcher)
    words = tuple(classifier.words_)
    assert watcher.words == [words[:1], words]
    assert tuple(watcher.epochs) == classifier.result_.history.epochs
    assert [epoch.word for epoch in watcher.epochs] == [words[0], None, words[1], None]


def test_a_watcher_can_stop_and_hears_of_what_was_kept(
    pocket: Backbone, data: Dataset, pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = _fit(pocket, data, pool, Watcher())
    monkeypatch.setenv("IPL_CACHE", str(tmp_path / "another"))
    with pytest.raises(Stop):
        _fit(pocket, data, pool, Watcher(stop_at=1))
    watcher = Watcher()
    again = _fit(pocket, data, pool, watcher)
    assert watcher.words == [tuple(whole.words_)]
    assert [epoch.epoch for epoch in watcher.epochs] == [0, 1, 2, 3]
    assert [epoch.loss for epoch in watcher.epochs] == [
        e.loss for e in whole.result_.history.epochs
    ]
    assert again.learner_.soft.equal(whole.learner_.soft)
