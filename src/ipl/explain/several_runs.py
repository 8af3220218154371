"""Several saved runs side by side: their prompts, and their accuracies on the same images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ipl._version import __version__
from ipl.backbone.backbone import Backbone
from ipl.display.document import Document
from ipl.display.formatting import percent, range_of_percent, several
from ipl.display.table import Table
from ipl.explain.inputs import find_images, load_run
from ipl.metrics import PairedDifference, paired_difference, wilson_interval
from ipl.saving.format import read_run
from ipl.saving.run_folder import find_run
from ipl.support.errors import ConfigError, DataError
from ipl.support.files import check_exists
from ipl.support.progress import SILENT, Reporter
from ipl.training.comparison import ABOUT_INTERVALS, difference_sentence
from ipl.training.result import FitResult

AS_SAVED = (
    "Accuracies are as saved when each was trained, on its own held-out images; these need not be "
    "the same, nor their classes. With --data all are scored on the images given."
)


def compare_runs(
    folders: Sequence[Path],
    data: Path | None = None,
    device: str = "auto",
    cache: bool = True,
    reporter: Reporter = SILENT,
) -> Document:
    """Compare saved runs: their prompts and accuracies.

    Parameters
    ----------
    folders : sequence of Path
        At least two folders of saved runs, or owner/name on the Hugging Face hub.
    data : Path, optional
        Labelled images to score all runs on, those that any was trained on left out. Default:
        accuracies as saved with the runs.
    device : str
        The device to load backbones on.
    cache : bool
        Whether image features are read from and written to the disk cache.
    reporter : Reporter
        Receives progress and messages.

    Returns
    -------
    Document
        The runs in the order given and, with data, each compared with the first.

    Raises
    ------
    ConfigError
        If fewer than two runs are given, or runs with different classes are to be scored on the
        same data.
    DataError
        If the data has no class of the runs, or no image that none of them was trained on.
    """
    if len(folders) < 2:
        raise ConfigError(f"{len(folders)} run given; a comparison needs at least two.")
    if data is not None:
        check_exists(data)
    results = [read_run(find_run(folder)) for folder in folders]
    names, about, notes = run_names(folders), AS_SAVED, list[str]()
    right: list[list[bool]] = []  # of each run, about the images that are new to all
    if data is not None:
        if len({frozenset(result.trained_classes) for result in results}) > 1:
            raise ConfigError(
                "These runs were trained on different classes, and accuracies over different "
                "classes cannot be compared. Leave out --data."
            )
        right, notes = _score(names, folders, results, data, device, cache, reporter)
        about = (
            f"All were scored now on the same {several(len(right[0]), 'image')}; images that one "
            "of them is known to have been trained on are left out for all. " + ABOUT_INTERVALS
        )
    differences = [_difference(each, right[0]) for each in right[1:]]
    verdict = [
        f"{name}: {difference_sentence(names[0], difference)}"
        for name, difference in zip(names[1:], differences, strict=False)
    ]
    counts = [(sum(each), len(each)) for each in right] or map(_saved_counts, results)
    rows, values = [], []
    for name, folder, result, (correct, images) in zip(
        names, folders, results, counts, strict=True
    ):
        accuracy = correct / images if images else None
        interval = wilson_interval(correct, images) if images else None
        shown = [percent(accuracy), range_of_percent(*interval) if interval else "-", str(images)]
        rows.append([name, *shown, ", ".join(result.words) or "none", result.prompt])
        one = {"name": name, "run": str(folder), "prompt": result.prompt, "words": result.words}
        values.append({**one, "accuracy": accuracy, "interval": interval, "images": images})
    numbers = ("accuracy", "95 % interval", "images")
    caption = "Held-out accuracy of each run"
    return Document(
        title=f"{len(names)} prompts side by side",
        subtitle=", ".join(names),
        prompt=(),
        lead=(*verdict, about),
        warnings=tuple(notes),
        sections=(),
        foot=f"Written by ipl {__version__}. What the numbers mean: docs/report.md in ipl's "
        "repository.",
        table=Table(("run", *numbers, "words", "prompt"), rows, caption=caption, numbers=numbers),
        values={
            "runs": values,
            "minus_first": [asdict(difference) for difference in differences],
            "verdict": verdict,
        },
    )


def run_names(folders: Sequence[Path]) -> list[str]:
    """The last part of each path, or the whole paths where two end alike."""
    short = [folder.resolve().name for folder in folders]
    return short if len(set(short)) == len(short) else [str(folder) for folder in folders]


def _score(
    names: Sequence[str],
    folders: Sequence[Path],
    results: Sequence[FitResult],
    data: Path,
    device: str,
    cache: bool,
    reporter: Reporter,
) -> tuple[list[list[bool]], list[str]]:
    """Which of the images that are new to all runs each gets right, and what is to be known."""
    scored, notes = list[dict[tuple[str, str], bool]](), list[str]()
    backbones = dict[str, Backbone]()
    for name, folder, result in zip(names, folders, results, strict=True):
        weights = str(sorted(result.backbone.items()))
        run = load_run(folder, backbones.get(weights), device, None, cache, reporter)
        backbones[weights] = run.learner.backbone  # runs of one backbone share it
        images = find_images(run, data, reporter=reporter)
        right = (images.learnt.argmax(1) == images.test.labels).tolist()
        keys = [(str(item.path), run.classes[item.label]) for item in images.test.items]
        scored.append(dict(zip(keys, right, strict=True)))
        notes += [f"{name}: {note}" for note in (*run.notes, *images.notes)]
    common = [image for image in scored[0] if all(image in each for each in scored)]
    if not common:
        raise DataError(f"{data} has no image that none of these runs was trained on.")
    return [[each[image] for image in common] for each in scored], notes


def _difference(right: Sequence[bool], other: Sequence[bool]) -> PairedDifference:
    """The accuracy of one run minus that of another on the same images."""
    pairs = list(zip(right, other, strict=True))
    return paired_difference(pairs.count((True, False)), pairs.count((False, True)), len(pairs))


def _saved_counts(result: FitResult) -> tuple[int, int]:
    """Right answers and images when the run was trained."""
    comparison = result.comparison
    return (sum(comparison.learnt.correct), comparison.total) if comparison else (0, 0)
