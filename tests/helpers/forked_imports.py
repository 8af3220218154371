"""What the process has imported and loaded that commands are forked from; see forked.py."""

from __future__ import annotations

from functools import cache

import torch

import ipl.apps.serve
import ipl.backbone.loading
import ipl.bench.runner
import ipl.classifier
import ipl.cli.bench
import ipl.cli.export
import ipl.cli.fit
import ipl.cli.predict
import ipl.training.checkpoint

torch.set_num_threads(1)
load = cache(ipl.backbone.loading.load_backbone)
for module in (ipl.backbone.loading, ipl.classifier, ipl.bench.runner, ipl.cli.fit):
    module.load_backbone = load  # type: ignore[attr-defined]
load("pocket", "cpu")
load("pocket", "cpu", "fp32")
ipl.training.checkpoint.SECONDS_BETWEEN_WRITES = 0.0  # after every epoch: more to be killed in
