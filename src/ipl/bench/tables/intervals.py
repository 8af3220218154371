"""95 % intervals of accuracies: what other test images and other seeds would change."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from scipy.special import stdtrit

from ipl.bench.protocols.protocol import Protocol, Values, recorded_count
from ipl.bench.records import RunRecord
from ipl.metrics import wilson_interval

# How far an accuracy may be too high and too low, in points, by measure; HM follows from them.
Errors = dict[str, tuple[float, float]]


def count_test_images(runs: Iterable[RunRecord], dataset: str) -> dict[str, int] | None:
    """Returns the fewest test images of runs, by part of a dataset; None if they are not known.

    A protocol without parts has one part, the dataset.
    """
    counts: dict[str, int] = {}
    for run in runs:
        for part in run.rules.parts or (dataset,):
            count = recorded_count(run.data, "test_images", part)
            if not count:
                return None
            counts[part] = min(count, counts.get(part, count))
    return counts or None


def image_errors(runs: Sequence[RunRecord], dataset: str, means: Values) -> Errors | None:
    """Returns how far other test images may put each accuracy; None if their number is not known.

    Of a mean over seeds this is an upper bound: all seeds are tested on the same images.
    """
    images = count_test_images(runs, dataset)
    if images is None:
        return None
    errors = {}
    for part, count in images.items():
        measure = part if part in means else "accuracy"
        if measure in means:  # a linear probe has no novel accuracy
            mean = means[measure]
            low, high = wilson_interval(round(mean / 100 * count), count)
            errors[measure] = mean - 100 * low, 100 * high - mean
    return errors


def average_errors(errors: Sequence[Errors | None]) -> Errors | None:
    """Returns the errors of an average over datasets, whose images are independent."""
    known = [each for each in errors if each is not None]
    if not known or len(known) < len(errors):
        return None
    return {
        measure: (
            math.hypot(*(each[measure][0] for each in known)) / len(known),
            math.hypot(*(each[measure][1] for each in known)) / len(known),
        )
        for measure in known[0]
    }


def seed_error(values: Sequence[float]) -> float:
    """Returns half of Student's 95 % interval of a mean over seeds; 0 for a single one."""
    if len(values) < 2:
        return 0.0
    t = float(stdtrit(len(values) - 1, 0.975))
    return t * statistics.stdev(values) / math.sqrt(len(values))


def find_intervals(
    protocol: Protocol, means: Values, errors: Errors | None, by_seed: Sequence[Values]
) -> dict[str, tuple[float, float]]:
    """Returns the 95 % interval of each mean in %; none if the errors are not known.

    Parameters
    ----------
    protocol : Protocol
        The protocol; its HM has the HM of the bounds.
    means : dict of str to float
        The means by measure.
    errors : dict of str to tuple of two floats, or None
        What other test images may change.
    by_seed : sequence of dict
        The measures of each seed: what other seeds may change. The two are independent, so their
        squares add up.
    """
    if errors is None:
        return {}
    lows, highs = {}, {}
    for measure, (below, above) in errors.items():
        of_seeds = seed_error([each[measure] for each in by_seed])
        lows[measure] = max(0.0, means[measure] - math.hypot(below, of_seeds))
        highs[measure] = min(100.0, means[measure] + math.hypot(above, of_seeds))
    # The average of one dataset is that dataset with, where there is one, its HM.
    lows, highs = protocol.average([lows]), protocol.average([highs])
    return {measure: (lows[measure], highs[measure]) for measure in means}
