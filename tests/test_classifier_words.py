"""PromptClassifier and its words: their number, what is kept, who is told, and precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ipl import Dataset, Pool, PromptClassifier
from ipl.backbone.backbone import Backbone
from ipl.backbone.clip import ClipBackbone
from ipl.datasets.dataset import Item
from ipl.support.cache import Cache, cache_folder
from ipl.support.progress import Reporter
from ipl.training.history import EpochRecord
from ipl.words.scorer import SentenceScorer
from ipl.words.selection import Selection

POOL = Pool.from_words(("adopt", "blue", "furry", "phone", "pile", "social", "title"), "test")
FAST: dict[str, Any] = {
    "views": 0,
    "epochs": 4,
    "interval": 1,
    "shots": 3,
    "pool": POOL,
    "lr": 0.02,
}


@pytest.fixture(scope="module", autouse=True)
def _small_products(one_thread: None) -> None:
    """Runs these tests on one thread."""


@pytest.fixture(scope="module")
def base(scenes: Dataset) -> Dataset:
    """Returns the first four classes of the drawn scenes."""
    return scenes.only(range(4), "four scenes")


@pytest.fixture(scope="module")
def paper(pocket: Backbone, base: Dataset) -> PromptClassifier:
    return PromptClassifier(pocket, words="paper", cache=False, **FAST).fit(base)


def _tried(classifier: PromptClassifier) -> list[dict[str, Any]]:
    tried: list[dict[str, Any]] = classifier.result_.results["words_tried"]
    return tried


def test_the_papers_rule_is_the_best_of_the_fits_with_each_number(
    paper: PromptClassifier, pocket: Backbone, base: Dataset
) -> None:
    """Each trial is a whole fit, as if that number had been asked for."""
    tried = _tried(paper)
    assert [trial["words"] for trial in tried] == [1, 2, 3, 4]  # as many as the epochs allow
    fits = [PromptClassifier(pocket, words=k, cache=False, **FAST).fit(base) for k in (1, 2, 3, 4)]
    assert [_tried(fitted) for fitted in fits] == [[trial] for trial in tried]
    for trial, fitted in zip(tried, fits, strict=True):
        assert trial["accuracy"] == fitted.result_.results["train_accuracy"]
    best = min(tried, key=lambda t: (-t["accuracy"], t["loss"], t["words"]))["words"]
    taken = fits[best - 1]
    assert paper.words_ == taken.words_
    assert paper.prompt_ == taken.prompt_
    assert torch.equal(paper.learner_.soft, taken.learner_.soft)
    assert paper.selection_ is not None
    assert list(paper.selection_.words) == paper.words_
    held_out = ("train_accuracy", "held_out_accuracy", "held_out_images")
    assert all(paper.result_.results[name] == taken.result_.results[name] for name in held_out)


def test_the_papers_rule_never_looks_at_held_out_images(
    paper: PromptClassifier, pocket: Backbone, base: Dataset
) -> None:
    """With other held-out labels, the same words and vectors are taken."""
    wrong = tuple(Item(item.path, (item.label + 1) % 4) for item in base.test)
    data = Dataset("other", base.class_names, base.train, wrong)
    other = PromptClassifier(pocket, words="paper", cache=False, **FAST).fit(data)
    assert _tried(other) == _tried(paper)
    assert torch.equal(other.learner_.soft, paper.learner_.soft)
    assert other.result_.held_out_accuracy != paper.result_.held_out_accuracy


def test_the_papers_rule_with_a_pool_of_two(pocket: Backbone, base: Dataset) -> None:
    small = Pool.from_words(("blue", "furry"), "test")
    fitted = PromptClassifier(pocket, words="paper", **{**FAST, "pool": small}).fit(base)
    assert [trial["words"] for trial in _tried(fitted)] == [1, 2]
    assert any("no more than 2 can be tried" in note for note in fitted.notes_)


# -- the cache ------------------------------------------------------------------------------------


def _must_not_run(*_: Any, **__: Any) -> None:
    raise AssertionError("computed anew")


def test_another_fit_has_its_words_from_the_cache(
    pocket: Backbone, base: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the learner's settings nor fewer words are another question to the search."""
    first = PromptClassifier(pocket, words=3, **FAST).fit(base)
    with monkeypatch.context() as patch:
        for name in ("features", "loss", "score"):
            patch.setattr(SentenceScorer, name, _must_not_run)
        patch.setattr(ClipBackbone, "encode_image", _must_not_run)
        for settings in ({"epochs": 9, "m": 3}, {"lr": 0.1, "batch": 5}, {"words": 2}):
            again = PromptClassifier(pocket, **{"words": 3, **FAST, **settings}).fit(base)
            assert again.words_ == first.words_[: again.words]
            assert again.selection_ == first.selection_.first(int(again.words))
        with pytest.raises(AssertionError, match="computed anew"):
            PromptClassifier(pocket, words=3, lambda_=0.7, **FAST).fit(base)  # another question
    longer = PromptClassifier(pocket, words=4, **FAST).fit(base)
    assert longer.words_[:3] == first.words_
    (entry,) = Cache().entries("selections")
    assert entry.facts["words"] == longer.words_


def test_cache_false_writes_nothing(pocket: Backbone, base: Dataset) -> None:
    PromptClassifier(pocket, words=1, cache=False, **FAST).fit(base)
    assert not cache_folder().exists()


# -- reporters are told of each word and epoch -----------------------------------------------------


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
    hyperparameters = {"shots": 2, "epochs": 4, "interval": 2, "views": 0, "batch": 4}
    fresh = PromptClassifier(backbone, words=2, pool=pool, reporter=watcher, **hyperparameters)
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
