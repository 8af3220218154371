"""Words scored in the prompt itself: on other images, on other classes, and when to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.labelled_features import LabelledFeatures, draw_shots
from ipl.config import FitConfig
from ipl.datasets.dataset import Dataset
from ipl.learners.learner import Learner
from ipl.support.errors import ConfigError, DataError
from ipl.support.progress import Reporter
from ipl.training.fit import fit, new_learner
from ipl.training.joint_selection import UNSEEN_EPOCHS, split_classes, split_shots
from ipl.training.loop import train
from ipl.training.result import FitResult
from ipl.training.views import BankedViews
from ipl.words.pool import Pool

QUICK: dict[str, Any] = {"shots": 4, "epochs": 6, "interval": 2, "views": 0, "cache": False}
POOL = Pool.from_words(["beach", "blue", "dark", "paint", "rock", "sand", "sky", "wall"], "test")


@pytest.fixture(scope="module")
def five(scenes: Dataset) -> Dataset:
    return scenes.only(range(5), "five scenes")


@pytest.fixture(scope="module")
def store(pocket: Backbone) -> FeatureStore:
    return FeatureStore(pocket)


@pytest.fixture(scope="module")
def shots(five: Dataset, store: FeatureStore) -> LabelledFeatures:
    return draw_shots(five, 4, 1, store)[0]


@pytest.fixture
def fitted(five: Dataset, pocket: Backbone, store: FeatureStore) -> Callable[..., FitResult]:
    """Returns a maker of quick fits: fitted("prompt", words=2)."""

    def make(
        select_in: str, reporter: Reporter | None = None, pool: Pool = POOL, **settings: Any
    ) -> FitResult:
        config = FitConfig(**{**QUICK, "select_in": select_in, **settings})
        more = {} if reporter is None else {"reporter": reporter}
        return fit(config, five, pocket, pool=pool, features=store, **more)

    return make


def test_each_half_of_the_shots_is_scored_by_the_other() -> None:
    labels = torch.tensor([0, 1, 0, 2, 0, 1, 1, 0, 1])  # class 2 has one image
    one, other = split_shots(labels, 3)
    assert torch.equal(one.train_images, other.test_images)
    assert torch.equal(one.test_images, other.train_images)
    together = torch.cat([one.train_images, one.test_images]).sort().values
    assert together.tolist() == list(range(9))
    for label, half in ((0, 2), (1, 2)):
        assert int((labels[one.train_images] == label).sum()) == half
    assert one.train_classes == one.test_classes == (0, 1, 2)
    with pytest.raises(DataError, match="two or more training images per class"):
        split_shots(torch.arange(5), 5)


def test_each_half_of_the_classes_is_scored_by_the_other() -> None:
    labels = torch.arange(10) % 5
    one, other = split_classes(labels, 5)
    assert (one.train_classes, one.test_classes) == ((0, 2, 4), (1, 3))
    assert (other.train_classes, other.test_classes) == ((1, 3), (0, 2, 4))
    assert set(labels[one.train_images].tolist()) == {0, 2, 4}
    assert set(labels[one.test_images].tolist()) == {1, 3}
    with pytest.raises(DataError, match="four or more classes, not 3"):
        split_classes(labels % 3, 3)


def full_losses(learner: Learner, words: tuple[str, ...], features: Tensor, labels: Tensor) -> Any:
    """Returns the summed loss by word in the next slot (None: empty), whole prompts each."""
    losses = {}
    for word in (None, *POOL.words):
        texts = learner.rebuilt(words=[*words, word] if word else words).text_features()
        logits = learner.backbone.logits(features, texts).double()
        losses[word] = float(cross_entropy(logits, labels, reduction="sum"))
    return losses


@torch.no_grad()
def assert_chosen(result: FitResult, losses: Callable[[tuple[str, ...]], dict[Any, float]]) -> None:
    """Asserts that each step took the best word of a plain loop, with its loss and utility."""
    assert result.selection is not None
    words: tuple[str, ...] = ()
    for step in result.selection.steps:
        expected = losses(words)
        best = min(set(POOL.words) - set(words), key=expected.__getitem__)
        assert step.word == best
        assert step.loss == pytest.approx(expected[best], abs=1e-4)
        assert step.utility == pytest.approx(expected[None] - expected[best], abs=1e-4)
        words = (*words, step.word)
    assert words == result.words


def test_in_the_prompt_words_are_those_of_a_plain_loop(
    fitted: Callable[..., FitResult], five: Dataset, pocket: Backbone, shots: LabelledFeatures
) -> None:
    """Every step trains both halves from the start, and scores whole prompts."""
    settings = {"words": 3, "lambda_": 0.0}
    result = fitted("prompt", **settings)
    config = FitConfig(**{**QUICK, **settings})
    labels, parts = shots.labels, split_shots(shots.labels, 5)

    def losses(words: tuple[str, ...]) -> dict[Any, float]:
        total: dict[Any, float] = {}
        for part in parts:
            learner = new_learner(config, pocket, five.class_names, 3)
            images = part.train_images
            views = BankedViews(pocket, labels[images], 1, shots.features[images][None])
            stop = 2 * (len(words) + 1)
            with torch.enable_grad():
                train(
                    *(learner, views, len(images), words, config.hyperparameters),
                    stop=stop,
                    delay=2,
                )
            assert learner.words == words
            own = full_losses(
                learner, words, shots.features[part.test_images], labels[part.test_images]
            )
            total = {word: total.get(word, 0.0) + loss / len(labels) for word, loss in own.items()}
        return total

    assert_chosen(result, losses)
    assert result.selection is not None
    assert result.selection.select_in == "prompt"
    assert result.history is not None  # the finished prompt gets its words as ever
    assert [epoch.word for epoch in result.history.epochs][::2] == list(result.words)


def test_on_unseen_classes_words_are_those_of_a_plain_loop(
    fitted: Callable[..., FitResult], five: Dataset, pocket: Backbone, shots: LabelledFeatures
) -> None:
    settings = {"words": 2, "lambda_": 0.0, "epochs": UNSEEN_EPOCHS + 10}
    result = fitted("unseen", **settings)
    config = FitConfig(**{**QUICK, **settings, "epochs": UNSEEN_EPOCHS})
    learners = []
    for part in split_classes(shots.labels, 5):
        names = [five.class_names[label] for label in part.train_classes]
        learner = new_learner(config, pocket, names, 2)
        images, where = part.train_images, list(part.train_classes)
        labels = torch.tensor([where.index(label) for label in shots.labels[images].tolist()])
        views = BankedViews(pocket, labels, 1, shots.features[images][None])
        train(learner, views, len(images), (), config.hyperparameters)
        other = list(part.test_classes)
        truth = torch.tensor([other.index(i) for i in shots.labels[part.test_images].tolist()])
        names = [five.class_names[label] for label in other]
        learners.append(
            (learner.rebuilt(class_names=names), shots.features[part.test_images], truth)
        )

    def losses(words: tuple[str, ...]) -> dict[Any, float]:
        parts = [full_losses(learner, words, *images) for learner, *images in learners]
        return {word: sum(p[word] for p in parts) / len(shots.labels) for word in parts[0]}

    assert_chosen(result, losses)


@pytest.mark.parametrize("learner", ["cocoop", "kgcoop", "maple", "promptsrc"])
@pytest.mark.parametrize("select_in", ["prompt", "unseen"])
def test_every_learner_can_choose_words_in_its_prompt(
    fitted: Callable[..., FitResult], learner: str, select_in: str
) -> None:
    result = fitted(select_in, learner=learner, words=2, shots=2, epochs=2, interval=1)
    assert len(result.words) == 2
    assert result.selection is not None
    assert result.selection.certified
    assert all(step.certainty is not None for step in result.selection.steps)


class Interrupted(Reporter):
    """Stops at the n-th epoch of the trainings that score words, and hears what is said."""

    def __init__(self, at: int) -> None:
        super().__init__(quiet=True)
        self.left, self.heard = at, list[str]()

    def say(self, message: str) -> None:
        self.heard.append(message)

    @contextmanager
    def task(self, title: str, total: int | None) -> Iterator[Any]:
        def advance(steps: int = 1, note: str = "") -> None:
            if note and title.startswith("Training for word"):
                self.left -= 1
                if not self.left:
                    raise KeyboardInterrupt

        yield advance


@pytest.mark.parametrize("select_in", ["prompt", "unseen"])
@pytest.mark.parametrize("at", [1, 5])
def test_an_interrupted_selection_resumes_to_the_same_bits(
    fitted: Callable[..., FitResult],
    select_in: str,
    at: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = {"words": 2, "epochs": 4}
    undisturbed = fitted(select_in, **settings)
    monkeypatch.setenv("IPL_CACHE", str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        fitted(select_in, Interrupted(at), cache=True, **settings)
    reporter = Interrupted(1000)
    result = fitted(select_in, reporter, cache=True, **settings)
    assert any(line.startswith("Resuming after epoch") for line in reporter.heard)
    assert result.words == undisturbed.words
    assert all(torch.equal(v, undisturbed.tensors[k]) for k, v in result.tensors.items())
    assert result.checkpoints
    again = Interrupted(1)  # the words are in the cache: nothing is trained to score them
    assert fitted(select_in, again, cache=True, **settings).words == result.words


def test_another_seed_or_place_is_another_question(
    fitted: Callable[..., FitResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cached words are those of their own question."""
    monkeypatch.setenv("IPL_CACHE", str(tmp_path))
    for settings in ({"seed": 1}, {"seed": 2}, {"words": 2}, {"words": "auto"}, {"lr": 0.1}):
        settings = {"words": 1, **settings}
        for select_in in ("sentence", "prompt", "unseen"):
            fresh = fitted(select_in, cache=False, **settings)
            for _ in range(2):
                kept = fitted(select_in, cache=True, **settings)
                assert kept.words == fresh.words


@pytest.mark.parametrize("select_in", ["sentence", "prompt", "unseen"])
def test_auto_takes_the_words_that_earn_their_place(
    fitted: Callable[..., FitResult], select_in: str
) -> None:
    result = fitted(select_in, words="auto", epochs=12)
    selection = result.selection
    assert selection is not None
    assert all(step.earns_its_place for step in selection.steps)
    assert result.layout.slots == len(result.words) == len(selection.steps)
    if len(result.words) < 6:
        assert selection.stopped_before is not None
        assert not selection.stopped_before.earns_its_place
    for arm in ({"empty_slots": True}, {"random_words": 1}):
        control = fitted(select_in, words="auto", epochs=12, **arm)
        assert control.layout.slots == result.layout.slots
        assert control.selection is None
        assert not set(control.words) & set(result.words)


def test_auto_without_a_word_is_the_plain_learner(fitted: Callable[..., FitResult]) -> None:
    """With much redundancy to pay for, or words that do not help, no word is taken."""
    useless = Pool.from_words(["phone", "social", "adopt"], "test")
    result = fitted("sentence", words="auto", pool=useless)
    plain = fitted("sentence", words=0)
    assert result.words == ()
    assert result.prompt == plain.prompt
    used, expected = result.hyperparameters, plain.hyperparameters
    assert (used.epochs, used.m, used.lr) == (expected.epochs, expected.m, expected.lr)
    assert torch.equal(result.tensors["soft"], plain.tensors["soft"])
    assert any("The prompt has no words" in note for note in result.notes)


def test_the_papers_rule_tries_one_to_six_words(fitted: Callable[..., FitResult]) -> None:
    result = fitted("sentence", words="paper", epochs=12)
    assert [trial.words for trial in result.trials] == [1, 2, 3, 4, 5, 6]
    best = max(result.trials, key=lambda trial: (trial.accuracy, -trial.loss, -trial.words))
    assert len(result.words) == best.words


def test_what_cannot_be_scored_in_a_prompt_is_refused(fitted: Callable[..., FitResult]) -> None:
    with pytest.raises(ConfigError, match="search is 'lazy'; with select_in 'prompt' it can be"):
        FitConfig(select_in="prompt", search="lazy")
    with pytest.raises(ConfigError, match="select_in is 'half'"):
        FitConfig(select_in="half")
    with pytest.raises(DataError, match="two or more training images"):
        fitted("prompt", shots=1)
    with pytest.raises(ConfigError, match="words is paper; empty_slots needs a number"):
        FitConfig(words="paper", empty_slots=True)
