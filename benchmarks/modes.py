"""Compares the two ways to search on given images: whether they find the same words, at what cost.

    python benchmarks/modes.py DATA [DATA ...] [--seeds 1,2,3] [--words 3] [--device auto]

For each dataset and seed it prints the words that `exhaustive` chooses, whether `exact` finds the
same best twenty words in the same order at every step, how many words it scored in fp32 and with
which margin, and the seconds of both. DATA is what `ipl select` takes: a folder of class folders,
or a CSV or JSONL file.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.labelled_features import draw_shots
from ipl.backbone.loading import load_backbone
from ipl.datasets.readers import read_dataset
from ipl.words.greedy import greedy_search
from ipl.words.objective import Objective
from ipl.words.pool import Pool
from ipl.words.scorer import SentenceScorer
from ipl.words.selection import Selection


def ranked(selection: Selection) -> list[list[str]]:
    """Returns the best twenty words of each step, in order."""
    return [[step.word, *(r.word for r in step.runners_up)] for step in selection.steps]


def compare(options: argparse.Namespace, path: Path, seed: int, backbone: Any) -> dict[str, Any]:
    """Returns the selection of each mode for one dataset and seed."""
    dataset = read_dataset(path)
    shots, _ = draw_shots(dataset, options.shots, seed, FeatureStore(backbone))
    pool = Pool.bundled().for_tokenizer(backbone.tokenizer)
    selections, seconds = {}, {}
    for mode in ("exhaustive", "exact"):
        scorer = SentenceScorer(backbone, dataset.class_names, shots.features, shots.labels)
        started = time.perf_counter()
        selections[mode] = greedy_search(scorer, pool, options.words, Objective(), mode)
        seconds[mode] = time.perf_counter() - started
    truth, exact = selections["exhaustive"], selections["exact"]
    return {
        "data": path.stem,
        "classes": len(dataset.class_names),
        "seed": seed,
        "words": truth.words,
        "same_twenty": ranked(exact) == ranked(truth),
        "checked": [step.checked for step in exact.steps],
        "margins": [step.margin for step in exact.steps],
        "seconds": seconds,
    }


def main() -> None:
    """Prints a Markdown row per dataset and seed; with --json, also writes a JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--words", type=int, default=3)
    parser.add_argument("--shots", type=int, default=16)
    parser.add_argument("--backbone", default="pocket")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    backbone = load_backbone(options.backbone, options.device)
    print(f"{options.backbone}, {backbone.device}, torch {torch.__version__}\n")
    print("| data | classes | seed | words | same twenty | checked | margins | seconds: both |")
    print("|---|---|---|---|---|---|---|---|")
    rows = []
    for path in options.data:
        for seed in map(int, options.seeds.split(",")):
            row = compare(options, path, seed, backbone)
            rows.append(row)
            checked = ", ".join(f"{count:,}" for count in row["checked"])
            margins = ", ".join(f"{margin:.2g}" for margin in row["margins"])
            took = ", ".join(f"{row['seconds'][mode]:.1f}" for mode in ("exhaustive", "exact"))
            print(
                f"| {row['data']} | {row['classes']} | {seed} | {', '.join(row['words'])} "
                f"| {'yes' if row['same_twenty'] else 'no'} | {checked} | {margins} | {took} |",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
