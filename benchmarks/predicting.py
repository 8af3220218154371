"""Measures `ipl predict` on a folder of JPEGs: images per second beside what decoding allows.

    python benchmarks/predicting.py --images 10000 --edge 256

A prompt is learnt from the drawn scenes, with PocketCLIP. Three sides take turns with parts of the
folder in one process, so that whatever else the machine does slows all of them:

- before: decode a batch of 64 with four threads, then run the image tower on all cores;
- now: `predict_stream`, in which each core decodes and classifies images of its own;
- decoding alone, on all cores.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from serving import learn

from ipl import PromptClassifier
from ipl.datasets.images import open_image
from ipl.datasets.scenes import cached_scenes
from ipl.inference.prediction_stream import BATCH, PredictionSpeed, predict_stream

PART = 512  # images between two turns
DIFFERENT = 200  # images; the others are copies


def write_images(folder: Path, count: int, edge: int) -> list[Path]:
    """Returns the paths of JPEG images of edge x edge pixels."""
    folder.mkdir()
    paths: list[Path] = []
    scenes = cached_scenes().test
    for index in range(count):
        path = folder / f"{index:05}.jpg"
        if index < DIFFERENT:
            image = open_image(scenes[2 * index].path)
            image.resize((edge, edge)).save(path, quality=90)
        else:
            path.write_bytes(paths[index % DIFFERENT].read_bytes())
        paths.append(path)
    return paths


@torch.no_grad()
def before(prompt: PromptClassifier, paths: list[Path]) -> None:
    """Classifies images as `predict_stream` did in version 0.1.0."""
    logits = prompt.learner_.head()
    for start in range(0, len(paths), BATCH):
        logits(prompt.encode(paths[start : start + BATCH])).softmax(1)


def decode(prompt: PromptClassifier, paths: list[Path]) -> None:
    """Decodes images, and resizes and crops them."""
    evaluate = prompt.learner_.backbone.preprocessing.evaluate
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for _ in threads.map(lambda path: evaluate(open_image(path)), paths):
            pass


def main() -> None:
    """Prints the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--edge", type=int, default=256, help="pixels along an image's edge")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        prompt = PromptClassifier.from_pretrained(learn(Path(folder), "coop"), device="cpu")
        paths = write_images(Path(folder) / "images", given.images, given.edge)
        speed = PredictionSpeed()

        def now(prompt: PromptClassifier, paths: list[Path]) -> None:
            for _ in predict_stream(prompt, paths, speed=speed):
                pass

        sides: list[Callable[[PromptClassifier, list[Path]], None]] = [before, now, decode]
        rates: dict[str, list[float]] = {side.__name__: [] for side in sides}
        for side in sides:  # warm up
            side(prompt, paths[:BATCH])
        for start in range(0, len(paths), PART):
            part = paths[start : start + PART]
            for side in sides:
                started = time.perf_counter()
                side(prompt, part)
                rates[side.__name__].append(len(part) / (time.perf_counter() - started))
    print(
        f"{given.images} JPEGs of {given.edge} x {given.edge} px, {os.cpu_count()} cores, load "
        f"average {os.getloadavg()[0]:.1f}"
    )
    for name, values in rates.items():
        ratio = np.median(np.divide(values, rates["before"]))
        print(f"{name:7} {np.median(values):8.0f} images/s   ratio {ratio:6.2f}")
    print(
        f"ipl predict says: {speed.rate:.0f} images/s, decoder {speed.decoder_limit:.0f} images/s"
    )


if __name__ == "__main__":
    main()
