"""Trainings that an estimate measures, on a GPU."""

from __future__ import annotations

import gc

import pytest
import torch

from ipl.backbone.loading import load_backbone
from ipl.bench.sample_trainings import SampleTrainings
from ipl.bench.work_counts import STEP, WorkPiece
from ipl.config import FitConfig

NAMES = ["cat", "starry night", "pirate ship"]


@pytest.mark.gpu
@pytest.mark.parametrize("learner", ["coop", "cocoop", "kgcoop", "maple", "promptsrc"])
@pytest.mark.parametrize("joined", [1, 3])
def test_a_step_keeps_all_that_it_reads(learner: str, joined: int) -> None:
    backbone = load_backbone("pocket", "cuda", "fp16")
    config = FitConfig(learner=learner, words=2, empty_slots=True)
    piece = WorkPiece(STEP, config, classes=3, images=2, joined=joined)
    samples = SampleTrainings(backbone, {3: NAMES})
    make = samples.joined_step if joined > 1 else samples.step
    trained, step = make(piece)
    gc.collect()
    # What was given back is overwritten.
    rubbish = [torch.full((size,), -1, device="cuda") for size in [64, 4096, 1 << 18] * 50]
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    del rubbish
    assert all(value.isfinite().all() for value in trained.parameters())
