"""Notes: sentences below a table on its data, its backbone and its settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ipl.backbone.families import POCKET
from ipl.backbone.known_images import TRAINED_ON
from ipl.bench.arms import ZERO_SHOT
from ipl.bench.records import RunRecord
from ipl.bench.tables.results import Result, measures_of
from ipl.config import GIVEN
from ipl.metrics import wilson_interval


def data_notes(result: Result) -> list[str]:
    """Everything a reader must know about the runs of a result, a sentence each."""
    return [
        *_given_words(result.runs),
        *_left_out(result.runs),
        *_other_images(result.runs),
        *_seen_before(result),
        *_uncertainty(result),
    ]


def _given_words(runs: Iterable[RunRecord]) -> list[str]:
    words = {run.dataset: str(run.settings["words_given"]) for run in runs if run.arm == GIVEN}
    texts = [f"{dataset}: {given}" for dataset, given in sorted(words.items())]
    return [f"Given words: {'; '.join(texts)}."] if texts else []


def _left_out(runs: Sequence[RunRecord]) -> Iterator[str]:
    """A note for each test set of which images are missing or cannot be read."""
    for key, reason in (("missing_images", "are missing"), ("unreadable_images", "cannot be read")):
        counts: dict[str, int] = {}
        for run in runs:
            for part, count in run.data.get(key, {}).items():
                name = f"{run.dataset} ({part})" if part in run.rules.parts else part
                counts[name] = max(counts.get(name, 0), count)
        for name, count in counts.items():
            if count:
                yield f"{count:,} test images of {name} {reason}; accuracies are over the rest."


def _other_images(runs: Sequence[RunRecord]) -> Iterator[str]:
    """A note for each dataset whose zero-shot run has other test images than another."""
    for run in runs:
        of_dataset = [other for other in runs if other.dataset == run.dataset]
        hashes = {other.data.get("test_sha256") for other in of_dataset} - {None}
        if run.learner == ZERO_SHOT and len(hashes) > 1:
            yield (
                f"{run.dataset} has no test part: each number is from the images that the shots "
                f"leave, that of zero-shot from those of seed {run.seed} ({run.shots} shots)."
            )


def _seen_before(result: Result) -> Iterator[str]:
    """What the bundled backbone was itself trained with."""
    if not any(run.backbone.get("name") == POCKET for run in result.runs):
        return
    if known := [name for name in result.datasets if name in TRAINED_ON]:
        yield (
            f"PocketCLIP ({POCKET}) was itself trained with images and class names of "
            f"{', '.join(known)}: there no class is new to it, and high numbers say little."
        )


def _uncertainty(result: Result) -> list[str]:
    """How sure an accuracy can be with as many test images."""
    texts: list[str] = []
    for name in result.datasets:
        tested = [run for run in result.runs if measures_of(run, name) is not None]
        counts = [
            run.data.get("test_images", {}).get(part, 0)
            for run in tested
            for part in run.rules.parts or (name,)
        ]
        if counts and (fewest := min(counts)):
            low, high = wilson_interval(fewest // 2, fewest)  # the widest
            points, images = ("", "") if texts else (" points", " images")
            texts.append(f"± {50 * (high - low):.1f}{points} on {name} ({fewest:,}{images})")
    start = "The number of test images alone leaves an accuracy uncertain by up to"
    return [f"{start} {', '.join(texts)}, at 95 %."] if texts else []
