"""Measures what the baselines of a fit (zero-shot, a linear probe) cost beside the fit itself.

    python benchmarks/baselines.py DATA... --seed 1

Each fit has the default settings and starts without a cache. The features of the held-out images
are needed for the accuracy of the prompt as well, so that they count as part of the fit.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import ipl.training.fit
from ipl.classifier import PromptClassifier
from ipl.datasets.readers import read_dataset
from ipl.display.table import Table


def main() -> None:
    """Prints the seconds of every fit, and of its baselines."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("data", nargs="+", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    compare, seconds = ipl.training.fit.compare_with_baselines, [0.0]

    def timed(*arguments: Any) -> Any:
        started = time.perf_counter()
        result = compare(*arguments)
        seconds[0] = time.perf_counter() - started
        return result

    ipl.training.fit.compare_with_baselines = timed
    rows = []
    for data in options.data:
        started = time.perf_counter()
        classifier = PromptClassifier(seed=options.seed, device=options.device, cache=False)
        result = classifier.fit(read_dataset(data)).result_
        total = time.perf_counter() - started
        numbers = [len(result.classes), result.images, result.held_out_images]
        share = f"{100 * seconds[0] / (total - seconds[0]):.1f} %"
        rows.append([data.name, *map(str, numbers), f"{total:.1f}", f"{seconds[0]:.2f}", share])
        print(" ".join(rows[-1]), flush=True)
    columns = ("data", "classes", "shots", "held out", "fit, s", "baselines, s", "share")
    print(Table(columns, rows).to_markdown())


if __name__ == "__main__":
    main()
