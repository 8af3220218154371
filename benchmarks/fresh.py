"""Measures a training step with `--views fresh`: images decoded for every crop, decoded once.

    python benchmarks/fresh.py --model vit-b16 --device cuda --classes 50

800 JPEGs of 500 x 375 pixels are cropped anew in every epoch. Both sides are the trainings of
`ipl fit`, with its threads; the first one keeps no decoded image.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from common import build, long_class_names, synchronise
from PIL import Image

from ipl.backbone.backbone import Backbone
from ipl.learners.registry import learner_class
from ipl.support.progress import Reporter
from ipl.training.crops import ImageCrops
from ipl.training.loop import new_optimiser
from ipl.training.step import make_step
from ipl.training.views import FreshViews, _from_files
from ipl.words.pool import Pool

IMAGES, SIZE = 800, (500, 375)


def save_images(folder: Path) -> list[Path]:
    """Smooth random pictures, whose JPEGs are about as large as photographs'."""
    paths = [folder / f"{number}.jpg" for number in range(IMAGES)]
    for number, path in enumerate(paths):
        coarse = np.random.default_rng(number).integers(0, 256, (40, 50, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize(SIZE, Image.Resampling.BICUBIC).save(path, quality=90)
    return paths


def step_seconds(
    backbone: Backbone, paths: list[Path], learner: str, classes: int, keep: bool, steps: int
) -> float:
    """The mean time of a step, after one epoch."""
    kind = learner_class(learner)
    hyperparameters = kind.hyperparameters(0)
    names = long_class_names(Pool.bundled().words, classes)
    model = kind.from_hyperparameters(backbone, names, 0, hyperparameters)
    crops = ImageCrops(backbone, paths)
    if not keep:
        crops.free_bytes = 0
    labels = torch.arange(len(paths)) % classes
    views = FreshViews(backbone, labels, _from_files(crops, 1), kind)

    def order() -> Iterator[tuple[int, torch.Tensor]]:
        epoch = 0
        while True:
            for indices in torch.randperm(len(paths)).split(hyperparameters.batch):
                if len(indices) == hyperparameters.batch:
                    yield epoch, indices
            epoch += 1

    batches = views.batches(order())
    step = make_step(model, new_optimiser(model, 1e-5), next(batches), Reporter())
    for batch in islice(batches, len(paths) // hyperparameters.batch):
        step(batch)
    synchronise(backbone.device)
    started = time.perf_counter()
    for batch in islice(batches, steps):
        step(batch)
    synchronise(backbone.device)
    return (time.perf_counter() - started) / steps


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=["pocket", "vit-b16"], default="pocket")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--classes", type=int, default=50)
    parser.add_argument("--learners", default="coop,maple,promptsrc")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    precision = "fp16" if options.device == "cuda" else "fp32"
    backbone = build(options.model, options.device, precision)
    print("| learner | decoded for every crop, ms | decoded once, ms | ratio |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        paths = save_images(Path(folder))
        for learner in options.learners.split(","):
            each = [
                1000 * step_seconds(backbone, paths, learner, options.classes, keep, options.steps)
                for keep in (False, True)
            ]
            print(f"| {learner} | {each[0]:.2f} | {each[1]:.2f} | {each[0] / each[1]:.1f} |")


if __name__ == "__main__":
    main()
