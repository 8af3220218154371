"""Stopping after any epoch and going on: the same end as without stopping."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch

from ipl.backbone.backbone import Backbone
from ipl.backbone.labelled_features import LabelledFeatures
from ipl.datasets.dataset import Item
from ipl.learners.coop import CoOp
from ipl.learners.hyperparameters import Hyperparameters
from ipl.learners.learner import Batch, Learner
from ipl.support.cache import Cache, key_of
from ipl.support.errors import NotFiniteError
from ipl.training import checkpoint as checkpoint_module
from ipl.training.checkpoint import Checkpoint, remove_checkpoints, training_key
from ipl.training.history import TrainingHistory
from ipl.training.loop import train
from ipl.training.views import BankedViews, from_bank
from tests.helpers.learners import WORDS, make_learner

pytestmark = pytest.mark.faults

KEY = key_of(of="a test")
Images = tuple[torch.Tensor, torch.Tensor]


class Stopped(BaseException):
    """As Ctrl-C: no Exception."""


class StoppingViews(BankedViews):
    """Views that stop the training in the middle of an epoch."""

    stop_in: int | None = None

    def batches(self, order: Iterable[tuple[int, torch.Tensor]]) -> Generator[Batch, None, None]:
        seen = False
        for epoch, indices in order:
            if epoch == self.stop_in and seen:
                raise Stopped
            seen = epoch == self.stop_in
            yield from super().batches([(epoch, indices)])


HOW = Hyperparameters(epochs=5, interval=2, batch=4, lr=0.05, m=2, depth=2)
AVERAGED = HOW.override(average_mean=3.0, average_std=2.0)


def run(
    pocket: Backbone,
    images: Images,
    name: str = "coop",
    cache: Cache | None = None,
    stop_in: int | None = None,
) -> tuple[Learner, TrainingHistory]:
    hyperparameters = AVERAGED if name == "promptsrc" else HOW
    learner = make_learner(pocket, name, 2, placed=False, seed=5, m=2, depth=2)
    edge = pocket.preprocessing.crop
    generator = torch.Generator().manual_seed(0)
    bank = torch.randint(256, (12, edge, edge, 3), dtype=torch.uint8, generator=generator)
    features = torch.stack([images[0], images[0].roll(1, 0)])
    pixels = from_bank(bank.expand(2, *bank.shape)) if learner.prompts_images else None
    views = StoppingViews(pocket, images[1], 2, features, pixels)
    views.stop_in = stop_in
    checkpoint = None if cache is None else Checkpoint(cache, KEY)
    return learner, train(learner, views, 12, WORDS, hyperparameters, 5, checkpoint=checkpoint)


@pytest.mark.parametrize(
    ("name", "stop_in"),
    [("coop", 0), ("coop", 4), ("cocoop", 2), ("promptsrc", 3)],
)
def test_going_on_ends_where_not_stopping_ends(
    pocket: Backbone, few_images: Images, tmp_path: Path, name: str, stop_in: int
) -> None:
    expected, record = run(pocket, few_images, name)
    cache = Cache(tmp_path)
    with pytest.raises(Stopped):
        run(pocket, few_images, name, cache, stop_in)
    kept = Checkpoint(cache, KEY).read()
    assert (len(kept.history.epochs) if kept else 0) == stop_in
    ours, again = run(pocket, few_images, name, cache)
    assert again.epochs == record.epochs
    assert ours.words == expected.words
    for (where, mine), theirs in zip(ours.named_parameters(), expected.parameters(), strict=True):
        assert torch.equal(mine, theirs), where


def test_what_is_kept_after_the_end_trains_no_epoch(
    pocket: Backbone, few_images: Images, tmp_path: Path
) -> None:
    """Checkpoints are removed when the run is saved, not before."""
    cache = Cache(tmp_path)
    first, _ = run(pocket, few_images, "promptsrc", cache)
    again, record = run(pocket, few_images, "promptsrc", cache, stop_in=0)
    assert len(record.epochs) == 5
    assert torch.equal(again.image, first.image)  # averaged once, not twice
    assert Checkpoint(cache, KEY).is_written
    remove_checkpoints([KEY, key_of(of="another")], cache)
    assert not Checkpoint(cache, KEY).is_written
    assert Checkpoint(cache, KEY).read() is None


def test_epochs_are_written_now_and_then(
    pocket: Backbone, few_images: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed outright loses no more than the time between two writes."""
    written: list[int] = []
    put = Cache.put

    def spy(self: Cache, kind: str, key: str, arrays: object, facts: dict[str, object]) -> None:
        written.append(len(facts["epochs"]))
        put(self, kind, key, arrays, facts)

    monkeypatch.setattr(Cache, "put", spy)
    run(pocket, few_images, cache=Cache(tmp_path))
    assert written == [5]
    written.clear()
    Cache(tmp_path).clear()
    monkeypatch.setattr(checkpoint_module, "SECONDS_BETWEEN_WRITES", 0.0)
    run(pocket, few_images, cache=Cache(tmp_path))
    assert written == [1, 2, 3, 4, 5]


def test_a_broken_training_is_not_gone_on_with(
    pocket: Backbone, few_images: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loss, calls = CoOp.loss, []

    def breaks(self: CoOp, batch: Batch) -> torch.Tensor:
        calls.append(None)
        return loss(self, batch) * (float("nan") if len(calls) > 7 else 1.0)

    monkeypatch.setattr(CoOp, "loss", breaks)
    with pytest.raises(NotFiniteError, match="nan in epoch 3, batch 2"):
        run(pocket, few_images, cache=Cache(tmp_path))
    assert Checkpoint(Cache(tmp_path), KEY).read() is None


def test_a_prompt_that_the_last_step_broke_is_an_error(
    pocket: Backbone, few_images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(self: CoOp, batch: Batch) -> torch.Tensor:
        return (self.soft * 0).sqrt().sum()  # a loss of 0 whose gradient is not a number

    monkeypatch.setattr(CoOp, "loss", breaks)
    hyperparameters = Hyperparameters(epochs=1, interval=1, batch=12, lr=0.1, m=2)
    learner = make_learner(pocket, "coop")
    views = BankedViews(pocket, few_images[1], 1, few_images[0][None])
    with pytest.raises(NotFiniteError, match="soft contains NaN or infinity"):
        train(learner, views, 12, [], hyperparameters)


def test_the_key_holds_all_that_decides_how_a_training_goes(
    pocket: Backbone, few_images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    features, labels = few_images
    items = tuple(Item(Path(str(index)), int(label)) for index, label in enumerate(labels))
    shots = LabelledFeatures(items, features, ())
    usual = {"words": WORDS, "views": 0, "hyperparameters": HOW, "seed": 1}

    def key(start: int = 1, **changes: Any) -> str:
        learner = make_learner(pocket, "coop", 2, seed=start)
        return training_key(learner, shots=shots, **{**usual, **changes})

    first = key()
    assert key() == first
    assert key(words=WORDS[::-1]) != first
    assert key(views=1) != first
    assert key(seed=2) != first
    assert key(start=2) != first  # other first vectors
    assert key(hyperparameters=HOW.override(lr=0.01)) != first
    with monkeypatch.context() as patch:  # as if a template or a formula had changed
        patch.setattr(checkpoint_module, "_package_code", lambda: "other code")
        assert key() != first
    assert key() == first
