"""What `ipl fit` saves, beside what it must beat, with few images and with all of them.

    python benchmarks/head.py ROOT docs/results/head.csv

ROOT is a folder of published datasets. For the first classes of each, for each number of images
per class and each seed, `ipl fit` is run with its defaults, with PocketCLIP. A row has the chosen
words, the accuracy on the test images of zero-shot CLIP, a linear probe, the probe with class
names, the prompt alone and the prompt with its head, and the accuracy of zero-shot CLIP and of the
prompt on as many other classes of the dataset, if it has them. Rows that the file has are not
computed again; `--summary` prints the means of the file.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections import defaultdict
from itertools import product
from pathlib import Path

import torch

from ipl.backbone.features import FeatureStore
from ipl.backbone.labelled_features import encode_items
from ipl.backbone.loading import load_backbone
from ipl.backbone.zero_shot import zero_shot_logits
from ipl.config import FitConfig
from ipl.datasets.benchmark_readers import read_benchmark
from ipl.datasets.dataset import Dataset
from ipl.learners.learner import Learner
from ipl.support.progress import SILENT
from ipl.training.comparison import HEAD, LINEAR_PROBE, NAMED_PROBE, PROMPT, ZERO_SHOT
from ipl.training.fit import fit

DATASETS = (
    "pacs/photo",
    "pacs/sketch",
    "dtd",
    "caltech101",
    "oxford_pets",
    "oxford_flowers",
    "eurosat",
)
METHODS = (ZERO_SHOT, LINEAR_PROBE, NAMED_PROBE, PROMPT, HEAD)
OTHERS = ("other zero-shot", "other prompt")
COLUMNS = ("dataset", "learner", "shots", "seed", "images", "words", *METHODS, *OTHERS, "seconds")


def main() -> None:
    """Adds the rows that the file lacks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--learners", nargs="+", default=("kgcoop",))
    parser.add_argument("--shots", nargs="+", default=("4", "16", "all"))
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--seeds", type=int, nargs="+", default=(1, 2, 3))
    parser.add_argument("--summary", action="store_true")
    options = parser.parse_args()
    if options.summary:
        print_means(options.out)
        return
    done = set()
    if options.out.is_file():
        done = {tuple(row[:4]) for row in csv.reader(options.out.open())}
    else:
        options.out.write_text(",".join(COLUMNS) + "\n")
    backbone = load_backbone("pocket")
    for name in options.datasets:
        whole = read_benchmark(name, options.root)
        count = min(options.classes, len(whole.class_names))
        dataset = whole.only(range(count), name)
        rest = range(count, min(2 * count, len(whole.class_names)))
        store = FeatureStore(backbone)
        for shots, learner, seed in product(options.shots, options.learners, options.seeds):
            if (name, learner, shots, str(seed)) in done:
                continue
            config = FitConfig(
                learner=learner, shots=None if shots == "all" else int(shots), seed=seed
            )
            started = time.perf_counter()
            result = fit(config, dataset, backbone, store=store)
            seconds = time.perf_counter() - started
            comparison = result.comparison
            found = [comparison.of(method) for method in METHODS]
            accuracies = [100 * comparison.accuracy(each) if each else None for each in found]
            accuracies += (
                other_classes(result.learner, whole.only(rest, name), store)
                if len(rest) > 1
                else (None, None)
            )
            row = [name, learner, shots, seed, result.images, " ".join(result.words)]
            row += ["" if value is None else f"{value:.1f}" for value in accuracies]
            with options.out.open("a", newline="") as file:
                csv.writer(file, lineterminator="\n").writerow([*row, f"{seconds:.0f}"])
            print(*row, f"{seconds:.0f} s", flush=True)


def other_classes(learner: Learner, dataset: Dataset, store: FeatureStore) -> list[float]:
    """The accuracy of zero-shot and of the prompt on classes that were not trained."""
    images = encode_items(dataset.test, "held-out", store, SILENT)
    with torch.no_grad():
        prompt = learner.rebuilt(class_names=dataset.class_names)
        predictions = (
            zero_shot_logits(learner.backbone, dataset.class_names, images.features),
            prompt.logits(prompt.features_of(images, store)),
        )
    return [100 * float((p.argmax(1).cpu() == images.labels).double().mean()) for p in predictions]


def print_means(file: Path) -> None:
    """Print the mean over the seeds of each dataset, learner and number of images."""
    groups = defaultdict(list)
    for row in csv.DictReader(file.open()):
        groups[row["dataset"], row["learner"], row["shots"]].append(row)
    columns = (*METHODS, *OTHERS, "seconds")
    print("dataset,learner,shots", *columns, sep=",")
    for key, rows in groups.items():
        means = []
        for column in columns:
            values = [float(row[column]) for row in rows if row[column]]
            means.append(f"{sum(values) / len(values):.1f}" if values else "")
        print(*key, *means, sep=",")


if __name__ == "__main__":
    main()
