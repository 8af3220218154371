"""Which words each utility and each part of the pool choose, and what their sentence is worth.

    python benchmarks/words.py ROOT docs/results/sentences.csv

ROOT is a folder of published datasets. For the first classes of each and three seeds the words are
chosen with 16 shots, with PocketCLIP and without training. A row has the words, their gains and
held-out gains, how many of them `--words auto` takes, and the accuracy of the sentence with the
first 0, 1, ... of them on the test images. Rows that the file has are not computed again.
"""

from __future__ import annotations

import argparse
import csv
from itertools import product
from pathlib import Path

import torch

from ipl.backbone.features import FeatureStore
from ipl.backbone.labelled_features import LabelledFeatures
from ipl.backbone.loading import load_backbone
from ipl.backbone.zero_shot import zero_shot_accuracy
from ipl.config import FitConfig
from ipl.datasets.benchmark_readers import read_benchmark
from ipl.datasets.fewshot import sample_shots
from ipl.support.progress import SILENT
from ipl.training.fit import search_settings
from ipl.words.gain import UTILITIES
from ipl.words.pool import Pool

DATASETS = ("eurosat", "dtd", "oxford_pets", "oxford_flowers", "caltech101", "pacs/photo")
SHOTS = 16
COLUMNS = ("dataset", "pool", "utility", "seed", "words", "gains", "held_out_gains", "auto")


def main() -> None:
    """Adds the rows that the file lacks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--seeds", type=int, nargs="+", default=(1, 2, 3))
    parser.add_argument("--words", type=int, default=3)
    options = parser.parse_args()
    backbone, k = load_backbone("pocket"), options.words
    columns = [*COLUMNS, *(f"test_accuracy_{count}" for count in range(k + 1))]
    done = set()
    if options.out.is_file():
        done = {tuple(row[:4]) for row in csv.reader(options.out.open())}
    else:
        options.out.write_text(",".join(columns) + "\n")
    for name in options.datasets:
        whole = read_benchmark(name, options.root)
        dataset = whole.only(range(min(options.classes, len(whole.class_names))), name)
        store = FeatureStore(backbone, text_bytes=1 << 32)
        for pool, seed, utility in product(("all", "visible"), options.seeds, UTILITIES):
            if (name, pool, utility, str(seed)) in done:
                continue
            config = FitConfig(words=k, utility=utility, pool_part=pool, seed=seed)
            drawn = sample_shots(whole.train, SHOTS, seed)
            items = tuple(item for item in drawn if item.label < len(dataset.class_names))
            features = store.encode([item.path for item in items]).features
            shots = LabelledFeatures(items, features, ())
            search = search_settings(config, Pool.bundled().part(pool, dataset.class_names))
            found = search.choose(*(backbone, dataset.class_names, shots, k, None, store, SILENT))
            steps = [(step, step.certainty) for step in found.steps]
            earned = [step.earns_its_place for step in found.steps]
            accuracies = [
                zero_shot_accuracy(dataset, store, search.template.full("{}", found.words[:count]))
                for count in range(k + 1)
            ]
            row = [name, pool, utility, seed, " ".join(found.words)]
            row.append(" ".join(f"{step.gain:.3f}" for step, _ in steps))
            row.append(" ".join(f"{sure.held_out_gain:.3f}" for _, sure in steps if sure))
            row.append([*earned, False].index(False))
            row += [f"{100 * accuracy:.1f}" for accuracy in accuracies]
            with options.out.open("a", newline="") as file:
                csv.writer(file, lineterminator="\n").writerow(row)
            print(*row, flush=True)


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main()
