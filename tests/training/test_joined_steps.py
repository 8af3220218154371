"""Steps of several trainings as one: who takes part, and that each learns what it would alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from ipl.backbone.backbone import Backbone
from ipl.backbone.loading import load_backbone
from ipl.learners.coop import CoOp
from ipl.learners.hyperparameters import Hyperparameters
from ipl.learners.learner import Batch, Learner
from ipl.learners.registry import learner_class
from ipl.support.progress import Reporter
from ipl.support.turns import Turns
from ipl.training.history import TrainingHistory
from ipl.training.joined_steps import JoinedSteps
from ipl.training.loop import train
from ipl.training.views import BankedViews

NAMES = ["cat", "starry night", "pirate ship"]
SHORT = Hyperparameters(epochs=3, interval=1, batch=2, lr=0.01, m=2, depth=2)
Training = Callable[[], TrainingHistory]


def views(backbone: Backbone, seed: int) -> BankedViews:
    generator = torch.Generator().manual_seed(seed)
    edge = backbone.preprocessing.crop
    pixels = torch.randint(256, (4, edge, edge, 3), dtype=torch.uint8, generator=generator)
    features = torch.randn(1, 4, backbone.feature_dim, generator=generator)
    features = torch.nn.functional.normalize(features, dim=-1).to(backbone.device)
    return BankedViews(backbone, torch.arange(4) % 3, 1, features, lambda _, images: pixels[images])


def training(
    backbone: Backbone,
    seed: int,
    kind: type[Learner] = CoOp,
    words: Sequence[str] = ("furry", "blue"),
    slots: int = 2,
    hyperparameters: Hyperparameters = SHORT,
) -> Training:
    learner = kind.from_hyperparameters(backbone, NAMES, slots, hyperparameters, seed=seed)
    images = views(backbone, seed)
    return lambda: train(learner, images, 4, words, hyperparameters, seed)


def together(trainings: Sequence[Training]) -> list[TrainingHistory | BaseException]:
    """Returns what trainings in threads that take turns come to."""
    turns, steps = Turns(), JoinedSteps()
    found: list[TrainingHistory | BaseException] = [RuntimeError("not done")] * len(trainings)

    def work(index: int) -> None:
        with turns, steps.entered():
            try:
                found[index] = trainings[index]()
            except Exception as error:
                found[index] = error

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(trainings))]
    with turns:  # until all of them wait for their first turn
        for thread in threads:
            thread.start()
        while len(turns._waiting) < len(threads):
            time.sleep(0.001)
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    return found


def losses(history: TrainingHistory | BaseException) -> list[float]:
    assert isinstance(history, TrainingHistory), history
    return [epoch.loss for epoch in history.epochs]


@pytest.mark.parametrize("name", ["coop", "cocoop", "kgcoop", "maple", "promptsrc"])
def test_each_learns_what_it_learns_alone(
    pocket: Backbone, joined: list[int], name: str, one_thread: None
) -> None:
    """Three trainings with other vectors, images and words, the last with empty slots."""
    words = (("furry", "blue"), ("visit", "social"), ())

    def make() -> list[Training]:
        kind = learner_class(name)
        return [training(pocket, 3 + i, kind, each) for i, each in enumerate(words)]

    alone = [losses(each()) for each in make()]
    assert not joined
    found = together(make())
    assert joined == [3] * 6
    for ours, expected in zip(found, alone, strict=True):
        assert losses(ours) == pytest.approx(expected, rel=1e-4)


def test_only_the_same_shapes_are_joined(pocket: Backbone, joined: list[int]) -> None:
    others = [training(pocket, 1, slots=2), training(pocket, 2, words=(), slots=0)]
    together(others)
    assert set(joined) == {1}


def test_who_ends_leaves_and_who_begins_joins_in(pocket: Backbone, joined: list[int]) -> None:
    longer = replace(SHORT, epochs=5)
    first, second = training(pocket, 1), training(pocket, 2, hyperparameters=longer)

    def twice() -> TrainingHistory:
        first()
        return training(pocket, 3, hyperparameters=replace(SHORT, epochs=4))()

    found = together([twice, second])
    assert joined[:10] == [2] * 10  # six steps of the first training, four of the next
    assert joined[10:] == [1] * 4
    assert losses(found[1]) == pytest.approx(
        losses(training(pocket, 2, hyperparameters=longer)()), rel=1e-4
    )


def test_one_that_fails_costs_no_other(pocket: Backbone, joined: list[int]) -> None:
    """Its images cannot be read any more after the first epoch."""
    failing = CoOp.from_hyperparameters(pocket, NAMES, 2, SHORT, seed=1)
    images = views(pocket, 1)
    batch = images.batch

    def broken(epoch: int, indices: torch.Tensor) -> Batch:
        if epoch:
            raise OSError("gone")
        return batch(epoch, indices)

    images.batch = broken  # type: ignore[method-assign]
    found = together(
        [lambda: train(failing, images, 4, (), SHORT), training(pocket, 2), training(pocket, 3)]
    )
    assert isinstance(found[0], OSError)
    assert joined == [3, 3, 2, 2, 2, 2]
    assert losses(found[2]) == pytest.approx(losses(training(pocket, 3)()), rel=1e-4)


def test_a_wrong_loss_is_an_error_of_each(pocket: Backbone) -> None:
    class Wrong(CoOp):
        def loss(self, batch: Batch) -> torch.Tensor:
            raise ValueError("a bug")

    found = together([training(pocket, seed, Wrong) for seed in (1, 2)])
    assert [str(error) for error in found] == ["a bug", "a bug"]


def test_who_is_to_blame_fails_alone(pocket: Backbone) -> None:
    class Moody(CoOp):
        def loss(self, batch: Batch) -> torch.Tensor:
            if self.seed == 2:
                raise ValueError("a bug")
            return super().loss(batch)

    trainings, said = [], []
    for seed in (1, 2, 3):
        learner = Moody.from_hyperparameters(pocket, NAMES, 2, SHORT, seed=seed)
        learner.seed = seed  # type: ignore[assignment]
        console = Console(record=True, width=200, force_terminal=False)
        said.append(console)
        trainings.append(
            lambda learner=learner, seed=seed, console=console: train(
                learner, views(pocket, seed), 4, (), SHORT, seed, Reporter(console=console)
            )
        )
    found = together(trainings)
    assert str(found[1]) == "a bug"
    assert losses(found[0]) == losses(training(pocket, 1, words=())())
    assert "are not computed together with others: ValueError: a bug" in said[2].export_text()


def test_a_learner_that_is_not_recordable_is_left_alone(
    pocket: Backbone, joined: list[int]
) -> None:
    class Told(CoOp):
        recordable = False

    found = together([training(pocket, seed, Told) for seed in (1, 2)])
    assert not joined
    assert all(isinstance(each, TrainingHistory) for each in found)


@pytest.fixture(scope="module")
def cuda() -> Backbone:
    return load_backbone("pocket", "cuda")


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["coop", "cocoop", "kgcoop", "maple", "promptsrc"])
def test_recorded_on_a_gpu(cuda: Backbone, name: str) -> None:
    kind = learner_class(name)
    lengths = [replace(SHORT, epochs=epochs) for epochs in (2, 4, 4)]

    def make() -> list[Training]:
        return [
            training(cuda, 3 + index, kind, hyperparameters=each)
            for index, each in enumerate(lengths)
        ]

    alone = [losses(each()) for each in make()]
    for ours, expected in zip(together(make()), alone, strict=True):
        assert losses(ours) == pytest.approx(expected, rel=1e-3)


class Looks(CoOp):
    """A learner whose loss looks at a value, as a recording cannot."""

    def loss(self, batch: Batch) -> torch.Tensor:
        loss = super().loss(batch)
        return loss * 2 if loss.item() > 1e9 else loss


@pytest.mark.gpu
def test_what_cannot_be_recorded_is_done_one_by_one(cuda: Backbone) -> None:
    alone = losses(training(cuda, 1, Looks)())
    found = together([training(cuda, seed, Looks) for seed in (1, 2)])
    assert losses(found[0]) == pytest.approx(alone, rel=1e-3)
    assert torch.cuda.get_sync_debug_mode() == 0
