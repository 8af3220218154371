"""One step: what it learns, and its recording on a GPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from rich.console import Console

from ipl.backbone.backbone import Backbone
from ipl.backbone.loading import load_backbone
from ipl.learners.coop import CoOp
from ipl.learners.hyperparameters import Hyperparameters
from ipl.learners.learner import Batch, Learner
from ipl.support.errors import TrainingError
from ipl.support.progress import Reporter
from ipl.training.loop import new_optimiser, train
from ipl.training.step import RecordedStep, TrainingStep, make_step
from ipl.training.views import BankedViews, from_bank
from tests.helpers.learners import make_learner

LEARNERS = ["coop", "cocoop", "kgcoop", "maple", "promptsrc"]


class Looks(CoOp):
    """A learner whose loss looks at a value, as a recording cannot."""

    def loss(self, batch: Batch) -> torch.Tensor:
        loss = super().loss(batch)
        return loss * 2 if loss.item() > 1e9 else loss


class Told(Looks):
    recordable = False


def learner(backbone: Backbone, kind: str | type[Learner] = CoOp, words: int = 2) -> Learner:
    return make_learner(backbone, kind, words, placed=False, seed=5)


def images(backbone: Backbone, count: int = 4) -> Batch:
    generator = torch.Generator().manual_seed(0)
    edge = backbone.preprocessing.crop
    pixels = torch.randn(count, 3, edge, edge, generator=generator)
    features = torch.randn(count, backbone.feature_dim, generator=generator)
    features = torch.nn.functional.normalize(features, dim=-1)
    parts = (torch.arange(count) % 3, features, pixels)
    return Batch(*(part.to(backbone.device) for part in parts))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda loss: loss.item(), "float"),
        (lambda loss: loss[None], r"a tensor of shape \(1,\)"),
        (lambda loss: loss.detach(), r"a tensor of shape \(\)"),
    ],
)
def test_a_loss_must_be_one_number_with_gradients(
    pocket: Backbone, change: Callable[[torch.Tensor], object], found: str
) -> None:
    class Wrong(CoOp):
        def loss(self, batch: Batch) -> torch.Tensor:
            return change(super().loss(batch))  # type: ignore[return-value]

    one = learner(pocket, Wrong)
    step = TrainingStep(one, new_optimiser(one, 0.01))
    with pytest.raises(TrainingError, match=rf"loss of the learner coop must be .* {found}\."):
        step(images(pocket))


def test_a_step_returns_the_loss_before_it_and_lowers_it(pocket: Backbone) -> None:
    one, batch = learner(pocket), images(pocket)
    before = one.loss(batch).detach()
    step = make_step(one, new_optimiser(one, 0.01), batch, Reporter(quiet=True))
    assert type(step) is TrainingStep
    assert torch.equal(step(batch), before)
    assert one.loss(batch) < before


def test_only_the_main_thread_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others may use the GPU at the same time."""
    backbone = SimpleNamespace(device=torch.device("cuda"))
    on_gpu: Any = SimpleNamespace(backbone=backbone, recordable=True, name="coop")
    monkeypatch.setattr("ipl.training.step.RecordedStep", lambda *what: "recorded")
    arguments: Any = (on_gpu, None, None, Reporter(quiet=True))
    assert make_step(*arguments) == "recorded"
    with ThreadPoolExecutor() as threads:
        assert type(threads.submit(make_step, *arguments).result()) is TrainingStep


@pytest.fixture(scope="module")
def cuda() -> Backbone:
    return load_backbone("pocket", "cuda")


@pytest.mark.gpu
@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("words", [0, 2])
def test_a_recorded_step_is_the_step(cuda: Backbone, name: str, words: int) -> None:
    """Three steps on three batches, with a word that arrives between them."""
    found = []
    for recorded in (False, True):
        one = learner(cuda, name, words)
        optimiser, losses = new_optimiser(one, 0.01), []
        first = images(cuda)
        step = RecordedStep(one, optimiser, first) if recorded else TrainingStep(one, optimiser)
        for number in range(3):
            if number == 1 and words:
                one.place_word("blue")
            moved = Batch(first.labels, first.features, first.pixels.roll(number, 0))
            losses.append(float(step(moved)))
        found.append((losses, [p.detach().clone() for p in one.parameters()]))
    (plain, expected), (ours, parameters) = found
    assert ours == pytest.approx(plain, rel=1e-4)
    for mine, theirs in zip(parameters, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-5)


@pytest.mark.gpu
def test_recording_changes_nothing(cuda: Backbone) -> None:
    one, batch = learner(cuda), images(cuda)
    before = one.soft.detach().clone()
    RecordedStep(one, new_optimiser(one, 0.01), batch)
    assert torch.equal(one.soft, before)
    assert not math.isnan(float(one.loss(batch)))


@pytest.mark.gpu
def test_a_loss_that_looks_at_values_runs_unrecorded(cuda: Backbone) -> None:
    console = Console(record=True, width=200, force_terminal=False)
    one, batch = learner(cuda, Looks), images(cuda)
    step = make_step(one, new_optimiser(one, 0.01), batch, Reporter(console=console))
    assert type(step) is TrainingStep
    assert "cannot be recorded" in console.export_text()
    assert torch.cuda.get_sync_debug_mode() == 0
    before = one.loss(batch).detach()
    assert torch.equal(step(batch), before)
    told = learner(cuda, Told)
    assert type(make_step(told, new_optimiser(told, 0.01), batch, Reporter())) is TrainingStep


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["coop", "maple"])
def test_training_on_a_gpu_ends_where_it_ends_on_a_cpu(
    pocket: Backbone, cuda: Backbone, name: str
) -> None:
    found = []
    hyperparameters = Hyperparameters(epochs=3, interval=1, batch=2, lr=0.01, m=2, depth=2)
    for backbone in (pocket, cuda):
        one = make_learner(backbone, name, 2, placed=False, seed=5, m=2, depth=2 - (name == "coop"))
        batch = images(backbone)
        pixels = (batch.pixels.permute(0, 2, 3, 1) * 40 + 128).clamp(0, 255).to(torch.uint8).cpu()
        bank = from_bank(pixels[None])
        views = BankedViews(backbone, batch.labels, 1, batch.features[None], bank)
        found.append(train(one, views, 4, ["furry", "blue"], hyperparameters).epochs)
    for ours, theirs in zip(*found, strict=True):
        assert ours.word == theirs.word
        assert ours.loss == pytest.approx(theirs.loss, rel=1e-2)
