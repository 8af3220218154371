"""Measures what fresh crops cost in training: from files, and as ipl cuts them.

    python benchmarks/fresh_crops.py --model vit-b16 --device cuda
    python benchmarks/fresh_crops.py --model pocket

Both sides cut the same random crops of the same JPEG files of 500 x 375 pixels in this process, in
batches of 32 (CoOp) and 4 (MaPLe, PromptSRC), and their bytes are compared. "From files" reads an
image for every crop, and cuts a batch when it is needed, with as many threads. "Now" decodes images
once, and cuts the next batches in threads. "Crops" is the time of a batch if nothing else is done,
"step" a whole step of training: crops, image tower, loss, gradients, optimiser.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from common import build, class_names, timed
from PIL import Image, ImageFilter
from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.encode_images import decoding_threads, open_source
from ipl.backbone.labelled_features import LabelledFeatures
from ipl.datasets.dataset import Item
from ipl.learners.registry import learner_class
from ipl.support.progress import Reporter
from ipl.training import views as views_module
from ipl.training.decoded_images import Crops, DecodedImages
from ipl.training.loop import new_optimiser
from ipl.training.step import make_step
from ipl.training.views import FreshViews, make_views
from ipl.words.pool import Pool

IMAGES = 128
CLASSES = 50
WARM, MEASURED = 10, 50  # epochs


class ImagesFromFiles:
    """Crops that are read from their files, one batch after the other."""

    def __init__(self, backbone: Backbone, paths: Sequence[Path]) -> None:
        self.backbone, self.paths = backbone, paths

    def crops(self, batches: Iterable[Crops]) -> Iterator[Tensor]:
        """Yields the bytes of each batch."""
        with decoding_threads() as threads:
            for batch in batches:
                yield torch.from_numpy(np.stack(list(threads.map(self.crop, batch))))

    def crop(self, wanted: tuple[int, random.Random | None]) -> np.ndarray[Any, Any]:
        """Returns the bytes of a crop."""
        index, stream = wanted
        assert stream is not None
        image = open_source(self.paths[index])
        return np.asarray(self.backbone.preprocessing.augment(image, stream))


def write_images(folder: Path) -> list[Path]:
    """Writes JPEG files that compress like photographs."""
    paths = []
    for number in range(IMAGES):
        noise = np.random.default_rng(number).integers(0, 256, (375, 500, 3), dtype=np.uint8)
        image = Image.fromarray(noise).filter(ImageFilter.GaussianBlur(3))
        paths.append(folder / f"{number}.jpg")
        image.save(paths[-1], quality=92)
    return paths


def batches(size: int, epochs: int) -> list[tuple[int, Tensor]]:
    """Returns the epoch and the images of each batch."""
    return [(epoch, part) for epoch in range(epochs) for part in torch.arange(IMAGES).split(size)]


def seconds_of_crops(views: FreshViews, size: int, epochs: int) -> tuple[Tensor, float]:
    """Returns the crops of the first batch, and the seconds of a batch."""
    order = ((torch.full_like(part, epoch), part) for epoch, part in batches(size, 1 + epochs))
    crops = views.pixels(order)
    first = next(crops)[..., :3].clone()
    for _ in islice(crops, IMAGES // size - 1):
        pass
    device = torch.device("cpu")
    return first, timed(lambda: sum(1 for _ in crops), device, 1)[1] / (epochs * IMAGES // size)


def seconds_of_step(views: FreshViews, name: str, size: int, epochs: int) -> float:
    """Returns the seconds of a step of training."""
    backbone, kind = views.backbone, learner_class(name)
    names = class_names(Pool.bundled().words, CLASSES)
    learner = kind.from_hyperparameters(backbone, names, 0, kind.hyperparameters(0))
    first = next(views.batches([(0, torch.arange(size))]))
    step = make_step(learner, new_optimiser(learner, 1e-5), first, Reporter())
    upcoming = views.batches(batches(size, WARM + epochs))
    for batch in islice(upcoming, WARM * IMAGES // size):
        step(batch)

    def run() -> None:
        for batch in upcoming:
            step(batch)

    return timed(run, backbone.device, 1)[1] / (epochs * IMAGES // size)


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", choices=["pocket", "vit-b16"], default="pocket")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--epochs", type=int, default=MEASURED)
    options = parser.parse_args()
    backbone = build(options.model, options.device, "fp16" if options.device == "cuda" else "fp32")
    print("| learner | batch | crops from files, ms | crops now, ms | same bytes ", end="")
    print("| step from files, ms | step now, ms | ratio |\n|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        paths = write_images(Path(folder))
        items = tuple(Item(path, index % CLASSES) for index, path in enumerate(paths))
        shots = LabelledFeatures(items, torch.zeros(len(items), backbone.feature_dim), ())
        for name, size in (("coop", 32), ("maple", 4), ("promptsrc", 4)):
            crops, steps, firsts = [], [], []
            for images in (ImagesFromFiles, DecodedImages):
                with mock.patch.object(views_module, "DecodedImages", images):
                    views = make_views("fresh", learner_class(name), backbone, shots, 1, Reporter())
                assert isinstance(views, FreshViews)
                first, seconds = seconds_of_crops(views, size, options.epochs)
                firsts.append(first)
                crops.append(1000 * seconds)
                steps.append(1000 * seconds_of_step(views, name, size, options.epochs))
            same = "yes" if torch.equal(*firsts) else "no"
            print(f"| {name} | {size} | {crops[0]:.2f} | {crops[1]:.2f} | {same} ", end="")
            print(f"| {steps[0]:.2f} | {steps[1]:.2f} | {steps[0] / steps[1]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
