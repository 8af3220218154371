"""Measures fresh crops in training: from files, from images decoded once, and on a GPU.

    python benchmarks/fresh_crops.py --model vit-b16 --device cuda
    python benchmarks/fresh_crops.py --model pocket

Every side cuts the same random crops of the same JPEG files of 500 x 375 pixels in this process,
in batches of 32 (CoOp) and 4 (MaPLe, PromptSRC); the bytes are compared. "Files" reads each file
for every crop. "Step" is a whole step of training with fresh crops: crops, image tower, loss,
gradients, optimiser; without a ratio of its own, it says what the crops still cost in it.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from common import build, class_names, timed
from PIL import Image, ImageFilter
from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.labelled_features import LabelledFeatures
from ipl.datasets.dataset import Item
from ipl.learners.registry import learner_class
from ipl.support.progress import Reporter
from ipl.training import decoded_images
from ipl.training.decoded_images import DecodedImages
from ipl.training.loop import new_optimiser
from ipl.training.step import make_step
from ipl.training.views import make_views
from ipl.words.pool import Pool

IMAGES = 128
CLASSES = 50


def write_images(folder: Path) -> list[Path]:
    """Writes JPEG files that compress like photographs."""
    paths = []
    for number in range(IMAGES):
        noise = np.random.default_rng(number).integers(0, 256, (375, 500, 3), dtype=np.uint8)
        image = Image.fromarray(noise).filter(ImageFilter.GaussianBlur(3))
        paths.append(folder / f"{number}.jpg")
        image.save(paths[-1], quality=92)
    return paths


def streams(count: int, epoch: int) -> list[random.Random]:
    """Returns the random streams of one batch."""
    return [random.Random(f"{epoch}/{index}") for index in range(count)]


def cut_seconds(images: DecodedImages, batches: Sequence[list[int]]) -> tuple[Tensor, float]:
    """Returns the last batch of crops, and the seconds of a batch after all images were seen."""

    def run() -> Tensor:
        for number, batch in enumerate(batches):
            crops = images.crops(batch, streams(len(batch), number))
        return crops.cpu()

    run()
    crops, seconds = timed(run, images.backbone.device, 3)
    return crops, seconds / len(batches)


def step_seconds(backbone: Backbone, name: str, paths: Sequence[Path], size: int) -> float:
    """Returns the seconds of a step of training with fresh crops."""
    kind = learner_class(name)
    names = class_names(Pool.bundled().words, CLASSES)
    learner = kind.from_hyperparameters(backbone, names, 0, kind.hyperparameters(0))
    items = tuple(Item(path, index % CLASSES) for index, path in enumerate(paths))
    shots = LabelledFeatures(items, torch.zeros(len(items), backbone.feature_dim), ())
    views = make_views("fresh", kind, backbone, shots, 1, Reporter())
    batches = torch.arange(len(paths)).split(size)
    step = make_step(learner, new_optimiser(learner, 1e-5), views.batch(0, batches[0]), Reporter())

    def run() -> None:
        for batch in batches:
            step(views.batch(1, batch))

    run()
    return timed(run, backbone.device, 2)[1] / len(batches)


def no_room(action: Callable[[], float]) -> float:
    """Returns what an action returns when no decoded image may be kept, and no GPU cuts crops."""
    kept, decide = decoded_images.KEPT_BYTES, decoded_images.bicubic.can_cut_on
    decoded_images.KEPT_BYTES = 0
    decoded_images.bicubic.can_cut_on = lambda _: False
    try:
        return action()
    finally:
        decoded_images.KEPT_BYTES, decoded_images.bicubic.can_cut_on = kept, decide


def main() -> None:
    """Prints two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=["pocket", "vit-b16"], default="pocket")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    precision = "fp16" if options.device == "cuda" else "fp32"
    backbone = build(options.model, options.device, precision)
    with tempfile.TemporaryDirectory() as folder:
        paths = write_images(Path(folder))
        print(
            "| batch | files, ms | decoded once, ms | ratio | on the GPU, ms | ratio | same bytes |"
        )
        print("|---|---|---|---|---|---|---|")
        for size in (32, 4):
            batches = [batch.tolist() for batch in torch.arange(len(paths)).split(size)]
            files = DecodedImages(backbone, paths)
            files.room = 0
            first, slow = cut_seconds(files, batches)
            second, fast = cut_seconds(DecodedImages(backbone, paths), batches)
            same, gpu = torch.equal(first, second), "| | "
            images = decoded_images.decoded_images(backbone, paths, random_crops=True)
            if type(images) is not DecodedImages:
                third, on_gpu = cut_seconds(images, batches)
                same &= torch.equal(first, third)
                gpu = f"| {1000 * on_gpu:.2f} | {slow / on_gpu:.1f} "
            print(
                f"| {size} | {1000 * slow:.2f} | {1000 * fast:.2f} | {slow / fast:.1f} {gpu}"
                f"| {'yes' if same else 'no'} |",
                flush=True,
            )
        print("\n| learner | batch | step from files, ms | step now, ms | ratio |")
        print("|---|---|---|---|---|")
        for name, size in (("coop", 32), ("maple", 4), ("promptsrc", 4)):
            before = no_room(lambda name=name, size=size: step_seconds(backbone, name, paths, size))
            now = step_seconds(backbone, name, paths, size)
            print(
                f"| {name} | {size} | {1000 * before:.2f} | {1000 * now:.2f} "
                f"| {before / now:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
