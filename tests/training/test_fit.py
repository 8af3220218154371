"""Which number of words is kept, what may be asked for, and what auto does with when less fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ipl.backbone.backbone import Backbone
from ipl.backbone.labelled_features import LabelledFeatures
from ipl.config import FitConfig
from ipl.datasets.dataset import Item
from ipl.learners.hyperparameters import Hyperparameters
from ipl.support.errors import DataError
from ipl.training.fit import word_counts
from ipl.training.result import Trial
from ipl.training.trainer import Trained, Trainer, new_learner
from ipl.training.views import BankedViews

WORDS = ("one", "two", "three", "four", "five")
LABELS = (0, 1, 0, 1)
SHOTS = LabelledFeatures(
    tuple(Item(Path(f"{index}.png"), label) for index, label in enumerate(LABELS)),
    torch.nn.functional.normalize(torch.ones(4, 8), dim=-1),
    (),
)


TRIALS = {1: (0.5, 1.0), 2: (1.0, 0.3), 3: (1.0, 0.2), 4: (1.0, 0.2), 5: (0.75, 0.1)}


def test_accuracy_then_loss_then_fewer_words(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def train(self: Trainer, slots: int, words: Any, name: str = "train") -> Trained:
        seen.append((words, name))
        return Trained(None, None, Trial(slots, *TRIALS[slots]))  # type: ignore[arg-type]

    monkeypatch.setattr(Trainer, "train", train)
    trainer = Trainer(FitConfig(), None, (), SHOTS, None)  # type: ignore[arg-type]
    best, trials = trainer.train_best(list(TRIALS), WORDS)
    assert best.trial.words == 3
    assert [trial.words for trial in trials] == list(TRIALS)
    assert seen[1] == (WORDS[:2], "train-2-words")  # each with the first k words
    assert trainer.train_best([2], WORDS)[0].trial == trials[1]


def test_a_trial_is_the_loss_and_accuracy_on_the_training_images(
    pocket: Backbone, few_images: tuple[torch.Tensor, torch.Tensor]
) -> None:
    features, labels = few_images
    items = tuple(Item(Path(str(i)), int(label)) for i, label in enumerate(labels))
    shots = LabelledFeatures(items, features, ())
    views = BankedViews(pocket, labels, 1, features[None])
    config = FitConfig(words=0, epochs=1, batch=8)
    trained = Trainer(config, pocket, ("cat", "dog", "fox"), shots, views).train(0, ())
    logits = trained.learner.logits(features).detach()
    accuracy = float((logits.argmax(1) == labels).float().mean())
    assert trained.trial.accuracy == pytest.approx(accuracy)
    loss = torch.nn.functional.cross_entropy(logits, labels)
    assert trained.trial.loss == pytest.approx(float(loss), abs=1e-5)


def hyperparameters(epochs: int, interval: int) -> Hyperparameters:
    return Hyperparameters(epochs=epochs, interval=interval, batch=4, lr=0.1, m=2)


def possible(most: int) -> Any:
    """Returns a check that lets no more than so many words pass."""

    def check(k: int) -> None:
        if k > most:
            raise DataError(f"{k} are too many.")

    return check


@pytest.mark.parametrize(
    ("epochs", "interval", "possible_words", "tried", "says"),
    [
        (60, 10, 99, 6, None),
        (100, 10, 6, 6, None),
        (59, 10, 99, 5, "no more than 5 can be tried: 59 epochs"),
        (1, 1, 99, 1, "no more than 1 can be tried: 1 epochs"),
        (100, 10, 3, 3, "no more than 3 can be tried: 4 are too many."),
    ],
)
def test_auto_does_with_what_there_is_room_for_and_says_why(
    epochs: int, interval: int, possible_words: int, tried: int, says: str | None
) -> None:
    how = hyperparameters(epochs, interval)
    numbers, notes = word_counts("auto", how, possible(possible_words))
    assert list(numbers) == list(range(1, tried + 1))
    assert len(notes) == (says is not None)
    assert all(str(says) in note for note in notes)


def test_no_room_for_one_word_or_for_the_number_asked_for() -> None:
    with pytest.raises(DataError, match="1 are too many"):
        word_counts("auto", hyperparameters(100, 10), possible(0))
    with pytest.raises(DataError, match="4 are too many"):
        word_counts(4, hyperparameters(100, 10), possible(3))


def test_how_the_vectors_start(pocket: Backbone) -> None:
    def soft(words: int, **settings: Any) -> torch.Tensor:
        config = FitConfig(**{"learner": "coop", "words": words, **settings})
        return new_learner(config, pocket, ["cat", "dog"], words).soft.detach()

    photo = pocket.embed(pocket.tokenize("a photo of a"))
    assert torch.equal(soft(0), photo)
    assert soft(2).std() < 0.05
