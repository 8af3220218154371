"""Which number of words is kept, what may be asked for, and what auto does with when less fits."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ipl.backbone.backbone import Backbone
from ipl.backbone.labelled_features import LabelledFeatures
from ipl.config import FitConfig
from ipl.datasets.dataset import Item
from ipl.learners.hyperparameters import Hyperparameters
from ipl.learners.registry import learner_class
from ipl.support.errors import ConfigError, DataError
from ipl.training.fit import new_learner, start_layout, train_best, word_counts
from ipl.training.result import Trial

WORDS = ("one", "two", "three", "four")
LABELS = (0, 1, 0, 1)
SHOTS = LabelledFeatures(
    tuple(Item(Path(f"{index}.png"), label) for index, label in enumerate(LABELS)),
    torch.nn.functional.normalize(torch.ones(4, 8), dim=-1),
    (),
)


class StandIn:
    """A learner that gets so many of the four images right, with so much confidence."""

    prompts_images, wants_features = False, True

    def __init__(self, right: int, margin: float) -> None:
        self.backbone = SimpleNamespace(device=torch.device("cpu"))
        self.right, self.margin = right, margin
        self.words: tuple[str, ...] = ()

    def logits(self, features: torch.Tensor) -> torch.Tensor:
        assert torch.equal(features, SHOTS.features)
        logits = torch.zeros(4, 2)
        for index, label in enumerate(LABELS):
            logits[index, label if index < self.right else 1 - label] = self.margin
        return logits


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Returns the words of each training, which here does nothing but take the words."""
    seen: list[tuple[str, ...]] = []

    def train(learner: StandIn, views: Any, count: int, words: Any, *_: Any) -> object:
        assert count == len(LABELS)
        learner.words = tuple(words)
        seen.append(tuple(words))
        return f"record of {len(words)}"

    monkeypatch.setattr("ipl.training.fit.train", train)
    return seen


def fit(outcomes: dict[int, tuple[int, float]]) -> Any:
    """Returns what is kept when k words get `outcomes[k]`: images right, and their margin."""

    def make(k: int) -> StandIn:
        return StandIn(*outcomes[k])

    *best, checkpoints = train_best(
        make,  # type: ignore[arg-type]
        list(outcomes),
        WORDS,
        SHOTS,
        None,  # type: ignore[arg-type]
        0,
        None,  # type: ignore[arg-type]
    )
    assert checkpoints == ()  # without a cache
    return tuple(best)


def loss(right: int, margin: float) -> float:
    """Returns the cross-entropy of a stand-in, by hand."""
    return (right * math.log1p(math.exp(-margin)) + (4 - right) * math.log1p(math.exp(margin))) / 4


@pytest.mark.parametrize(
    ("outcomes", "taken", "why"),
    [
        ({1: (2, 1.0), 2: (4, 1.0), 3: (3, 1.0)}, 2, "the highest accuracy"),
        ({1: (4, 1.0), 2: (4, 3.0), 3: (4, 2.0)}, 2, "the lowest loss of the most accurate"),
        ({1: (3, 1.0), 2: (4, 2.0), 3: (4, 2.0), 4: (4, 2.0)}, 2, "the fewest of equals"),
        ({3: (1, 1.0)}, 3, "the only one"),
    ],
)
def test_accuracy_then_loss_then_fewer_words(
    trained: list[tuple[str, ...]], outcomes: dict[int, tuple[int, float]], taken: int, why: str
) -> None:
    learner, history, _ = fit(outcomes)
    assert len(learner.words) == taken, why
    assert history == f"record of {taken}"
    assert trained == [WORDS[:k] for k in outcomes]  # each with the first k words


@pytest.mark.usefixtures("trained")
def test_every_trial_is_told() -> None:
    outcomes = {1: (2, 1.0), 2: (3, 0.5), 3: (4, 2.0)}
    trials = fit(outcomes)[2]
    assert [trial.words for trial in trials] == [1, 2, 3]
    for trial in trials:
        right, margin = outcomes[trial.words]
        assert trial.accuracy == right / 4
        assert trial.loss == pytest.approx(loss(right, margin), abs=1e-12)
    (only,) = fit({2: (3, 0.5)})[2]
    assert only == Trial(2, 0.75, trials[1].loss)


def hyperparameters(epochs: int, interval: int) -> Hyperparameters:
    return Hyperparameters(epochs=epochs, interval=interval, batch=4, lr=0.1, m=2)


@pytest.mark.parametrize(
    ("epochs", "interval", "most"),
    [(60, 10, 6), (59, 10, 5), (1, 1, 1)],
)
def test_auto_tries_as_many_words_as_the_epochs_allow(
    epochs: int, interval: int, most: int
) -> None:
    numbers, notes = word_counts("auto", hyperparameters(epochs, interval), lambda k: None)
    assert list(numbers) == list(range(1, most + 1))
    assert len(notes) == (most < 6)
    assert all(f"no more than {most} can be tried: {epochs} epochs" in note for note in notes)


def limited(most: int) -> Any:
    """Returns a check that lets no more than so many words pass."""

    def check(k: int) -> None:
        if k > most:
            raise DataError(f"{k} are too many.")

    return check


def test_auto_does_with_what_there_is_room_for_and_says_why() -> None:
    numbers, notes = word_counts("auto", hyperparameters(100, 10), limited(3))
    assert list(numbers) == [1, 2, 3]
    assert notes == ("words is auto; no more than 3 can be tried: 4 are too many.",)
    assert word_counts("auto", hyperparameters(100, 10), limited(6))[1] == ()


def test_no_room_for_one_word_or_for_the_number_asked_for() -> None:
    with pytest.raises(DataError, match="1 are too many"):
        word_counts("auto", hyperparameters(100, 10), limited(0))
    with pytest.raises(DataError, match="4 are too many"):
        word_counts(4, hyperparameters(100, 10), limited(3))


def test_how_the_vectors_start(pocket: Backbone) -> None:
    def soft(words: int, **settings: Any) -> torch.Tensor:
        config = FitConfig(words=words, **settings)
        return new_learner(config, pocket, ["cat", "dog"], words).soft.detach()

    photo = pocket.embed(pocket.tokenize("a photo of a"))
    assert torch.equal(soft(0), photo)  # as published
    assert torch.equal(soft(0, init="photo"), photo)
    assert soft(0, init="noise").std() == pytest.approx(0.02, rel=0.2)
    assert torch.equal(soft(0, init="noise", learner="kgcoop"), soft(0, init="noise"))
    assert torch.equal(soft(2, init="noise"), soft(2))  # as published with words
    started = soft(2, init="photo")
    assert torch.equal(started[-2:], photo[-2:])  # "of a", before the class name
    assert torch.equal(started[:-2], soft(2)[:-2])
    with pytest.raises(ConfigError, match="init is 'photo'; a group of 5 vectors cannot start"):
        soft(2, init="photo", m=5)


def test_maple_keeps_its_own_photo(pocket: Backbone) -> None:
    layout = learner_class("maple").layout_for(0, 2)
    assert start_layout(layout, "photo") == layout  # "a photo", before the text "of a"
    assert start_layout(layout, "noise").groups[0].init is None
