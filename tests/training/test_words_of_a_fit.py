"""What stands in the slots of a fit, how many there are, and what a search has from the cache."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ipl.backbone.backbone import Backbone
from ipl.backbone.clip import ClipBackbone
from ipl.backbone.features import FeatureStore
from ipl.classifier import PromptClassifier
from ipl.config import FitConfig
from ipl.datasets.dataset import Dataset, Item
from ipl.support.cache import Cache
from ipl.support.progress import Reporter
from ipl.training.fit import fit
from ipl.training.history import EpochRecord
from ipl.training.result import FitResult
from ipl.training.trainer import new_learner
from ipl.words.pool import Pool
from ipl.words.scorer import SentenceScorer
from ipl.words.selection import Selection

QUICK: dict[str, Any] = {"shots": 3, "epochs": 4, "interval": 1, "views": 0, "cache": False}
POOL = Pool.from_words(["beach", "blue", "dark", "paint", "rock", "sand", "sky", "wall"], "test")
Fit = Callable[..., FitResult]


@pytest.fixture(scope="module", autouse=True)
def _small_products(one_thread: None) -> None:
    """Runs these tests on one thread."""


@pytest.fixture(scope="module")
def few(scenes: Dataset) -> Dataset:
    """Returns four classes of the scenes."""
    return scenes.only(range(4), "four scenes")


@pytest.fixture(scope="module")
def fitted(few: Dataset, pocket: Backbone) -> Fit:
    """Returns a maker of quick fits: fitted(words=2)."""
    store = FeatureStore(pocket)

    def make(data: Dataset = few, pool: Pool = POOL, **settings: Any) -> FitResult:
        config = FitConfig(**{**QUICK, "head": False, **settings})
        return fit(config, data, pocket, pool=pool, store=store)

    return make


def arrivals(result: FitResult) -> list[str | None]:
    """Returns the word that entered in each epoch."""
    return [epoch.word for epoch in result.history.epochs]


# -- how many words -------------------------------------------------------------------------------


def test_auto_takes_the_words_that_earn_their_place(fitted: Fit) -> None:
    result = fitted(words="auto")
    selection = result.selection
    assert selection is not None
    assert all(step.earns_its_place for step in selection.steps)
    assert result.layout.slots == len(result.words) == len(selection.steps)
    if len(result.words) < 4:
        assert selection.stopped_before is not None
        assert not selection.stopped_before.earns_its_place
    for arm in ({"empty_slots": True}, {"random_words": 1}):
        control = fitted(words="auto", **arm)
        assert control.layout.slots == result.layout.slots
        assert control.selection is None
        assert not set(control.words) & set(result.words)


def test_auto_without_a_word_is_the_plain_learner(fitted: Fit) -> None:
    useless = Pool.from_words(["phone", "social", "adopt"], "test")
    result, plain = fitted(words="auto", pool=useless), fitted(words=0)
    assert result.words == ()
    assert result.prompt == plain.prompt
    used, expected = result.hyperparameters, plain.hyperparameters
    assert (used.epochs, used.m, used.lr) == (expected.epochs, expected.m, expected.lr)
    assert torch.equal(result.tensors["soft"], plain.tensors["soft"])
    assert result.about_words.startswith("No word earned its place")


def test_the_papers_rule_is_the_best_of_the_fits_with_each_number(
    fitted: Fit, few: Dataset
) -> None:
    """Each trial is a whole fit, as if that number had been asked for."""
    paper = fitted(words="paper")
    fits = [fitted(words=k) for k in (1, 2, 3, 4)]  # as many as the epochs allow
    assert [result.trials for result in fits] == [(trial,) for trial in paper.trials]
    best = min(paper.trials, key=lambda trial: (-trial.accuracy, trial.loss, trial.words))
    taken = fits[best.words - 1]
    assert (paper.words, paper.prompt) == (taken.words, taken.prompt)
    assert torch.equal(paper.tensors["soft"], taken.tensors["soft"])
    assert paper.selection is not None
    assert paper.selection.words == paper.words
    # It never looks at held-out images: with other labels of these, the same prompt is taken.
    wrong = tuple(Item(item.path, (item.label + 1) % 4) for item in few.test)
    other = fitted(Dataset("other", few.class_names, few.train, wrong), words="paper")
    assert other.trials == paper.trials
    assert torch.equal(other.tensors["soft"], paper.tensors["soft"])
    assert other.held_out_accuracy != paper.held_out_accuracy


# -- what stands in the slots ---------------------------------------------------------------------


def test_empty_slots_stay_empty(fitted: Fit, pocket: Backbone) -> None:
    result = fitted(words=2, empty_slots=True)
    assert (result.words, result.selection, result.layout.slots) == ((), None, 2)
    assert result.prompt == "[V V V V] *_* [V V V V] *_* [V V V V] {cls}."
    assert arrivals(result) == [None] * 4
    learner = result.learner
    assert learner is not None
    held = learner.prompts.rows[[5, 10]]  # SOS V V V V w V V V V w V V V V cls
    assert torch.equal(held, pocket.embed(pocket.tokenize("0")).expand_as(held))


def test_every_arm_starts_with_the_same_vectors(few: Dataset, pocket: Backbone) -> None:
    arms: list[dict[str, Any]] = [{"words": 2, **arm} for arm in ({}, {"empty_slots": True})]
    arms += [{"words": 2, "random_words": 1}]
    arms += [{"words_given": "playfulness, sand"}]  # three tokens in two slots
    starts = [new_learner(FitConfig(**arm), pocket, few.class_names, 2).soft for arm in arms]
    assert all(torch.equal(start, starts[0]) for start in starts)


def test_words_enter_at_their_epochs(fitted: Fit) -> None:
    result = fitted(words_given="Sand, playfulness", epochs=5, interval=2)
    assert (result.words, result.selection) == (("sand", "playfulness"), None)
    assert arrivals(result) == ["sand", None, "playfulness", None, None]


def test_a_given_word_of_two_tokens_is_saved_and_read_back(
    few: Dataset, pocket: Backbone, tmp_path: Path
) -> None:
    assert len(pocket.tokenize("playfulness")) == 2
    classifier = PromptClassifier(pocket, words_given="playfulness, sand", **QUICK).fit(few)
    classifier.save_pretrained(tmp_path / "run")
    again = PromptClassifier.from_pretrained(tmp_path / "run", pocket)
    assert again.words_ == ["playfulness", "sand"]
    assert again.learner_.layout.slot_sizes == (2, 1)
    features = torch.nn.functional.normalize(torch.randn(5, 512), dim=-1)
    for other in (again, again.with_classes(few.class_names)):
        assert torch.equal(other.learner_.logits(features), classifier.learner_.logits(features))


def test_random_words_are_others_for_each_draw_and_seed(fitted: Fit) -> None:
    chosen = fitted(words=2).words
    first = fitted(words=2, random_words=1)
    assert first.selection is None
    assert len(set(first.words)) == 2
    assert not set(first.words) & set(chosen)
    assert tuple(word for word in arrivals(first) if word) == first.words
    assert fitted(words=2, random_words=1).words == first.words
    others = [fitted(words=2, random_words=draw, seed=s).words for draw, s in ((2, 1), (1, 2))]
    assert first.words not in others


# -- the cache ------------------------------------------------------------------------------------


def _must_not_run(*_: Any, **__: Any) -> None:
    raise AssertionError("computed anew")


def test_another_fit_has_its_words_from_the_cache(
    pocket: Backbone, few: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the learner's settings nor fewer words are another question to the search."""
    fast = {**QUICK, "cache": True, "head": False, "pool": POOL}
    first = PromptClassifier(pocket, words=3, **fast).fit(few)
    with monkeypatch.context() as patch:
        for name in ("features", "score"):
            patch.setattr(SentenceScorer, name, _must_not_run)
        patch.setattr(ClipBackbone, "encode_image", _must_not_run)
        for settings in ({"epochs": 9, "m": 3}, {"words": 2}):
            again = PromptClassifier(pocket, **{"words": 3, **fast, **settings}).fit(few)
            assert again.words_ == first.words_[: again.words]
            assert again.selection_ == first.selection_.first(int(again.words))
        with pytest.raises(AssertionError, match="computed anew"):
            PromptClassifier(pocket, words=3, lambda_=0.7, **fast).fit(few)  # another question
    longer = PromptClassifier(pocket, words=4, **fast).fit(few)
    assert longer.words_[:3] == first.words_
    (path,) = Cache().files("selections")
    entry = Cache().get("selections", path.name)
    assert entry is not None
    assert entry.facts["selection"]["words"] == longer.words_


def test_cache_false_writes_nothing(pocket: Backbone, few: Dataset) -> None:
    PromptClassifier(pocket, words=1, pool=POOL, **QUICK).fit(few)
    assert not Cache().folder.exists()


class Watcher(Reporter):
    """Keeps what it is told, and stops the fit at an epoch if it was asked to."""

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
                raise KeyboardInterrupt


def test_a_fit_that_was_stopped_goes_on_with_the_same_words_and_epochs(
    pocket: Backbone, few: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def watched(watcher: Watcher) -> PromptClassifier:
        how = {**QUICK, "interval": 2, "cache": True, "head": False, "pool": POOL}
        return PromptClassifier(pocket, words=2, reporter=watcher, **how).fit(few)

    first, stopped, second = Watcher(), Watcher(stop_at=1), Watcher()
    whole = watched(first)
    words = tuple(whole.words_)
    assert first.words == [words[:1], words]
    assert [epoch.word for epoch in first.epochs] == [words[0], None, words[1], None]
    monkeypatch.setenv("IPL_CACHE", str(tmp_path / "another"))
    with pytest.raises(KeyboardInterrupt):
        watched(stopped)
    again = watched(second)
    assert second.words == [words]
    assert second.epochs == first.epochs == list(whole.result_.history.epochs)
    assert again.learner_.soft.equal(whole.learner_.soft)
