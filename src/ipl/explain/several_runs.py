"""Several saved runs side by side: their prompts, and their accuracies on the same images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from ipl._version import __version__
from ipl.backbone.backbone import Backbone
from ipl.display.document import Document
from ipl.display.formatting import percent, range_of_percent, several
from ipl.display.table import Table
from ipl.explain.run import find_images, load_run
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


@dataclass(frozen=True)
class ComparedRun:
    """A run, and which images of `--data` it is right about, by the image's path and class."""

    name: str
    folder: Path
    result: FitResult
    right: Mapping[tuple[str, str], bool] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> tuple[int, int]:
        """Right answers and images: of `--data`, else as saved with the run."""
        if self.right:
            return sum(self.right.values()), len(self.right)
        saved = self.result.comparison
        return (sum(saved.learnt.correct), saved.total) if saved else (0, 0)

    def minus(self, other: ComparedRun) -> PairedDifference:
        """The accuracy minus that of another run on the same images."""
        pairs = [(right, other.right[image]) for image, right in self.right.items()]
        return paired_difference(pairs.count((True, False)), pairs.count((False, True)), len(pairs))


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
    names = run_names(folders)
    runs = [ComparedRun(*each) for each in zip(names, folders, results, strict=True)]
    if data is not None:
        if len({frozenset(result.trained_classes) for result in results}) > 1:
            raise ConfigError(
                "These runs were trained on different classes, and accuracies over different "
                "classes cannot be compared. Leave out --data."
            )
        runs = _score(runs, data, device, cache, reporter)
    return _document(runs)


def run_names(folders: Sequence[Path]) -> list[str]:
    """The last part of each path, or the whole paths where two end alike."""
    short = [folder.resolve().name for folder in folders]
    return short if len(set(short)) == len(short) else [str(folder) for folder in folders]


def _score(
    runs: Sequence[ComparedRun], data: Path, device: str, cache: bool, reporter: Reporter
) -> list[ComparedRun]:
    """The runs on the same images, which none of them was trained on."""
    scored, backbones = list[ComparedRun](), dict[str, Backbone]()
    for run in runs:  # those of one backbone share it
        weights = str(sorted(run.result.backbone.items()))
        loaded = load_run(run.folder, backbones.get(weights), device, None, cache, reporter)
        backbones[weights] = loaded.learner.backbone
        images = find_images(loaded, data, reporter=reporter)
        right = (images.learnt.argmax(1) == images.test.labels).tolist()
        keys = [(str(item.path), loaded.classes[item.label]) for item in images.test.items]
        notes = tuple(f"{run.name}: {note}" for note in (*loaded.notes, *images.notes))
        scored.append(replace(run, right=dict(zip(keys, right, strict=True)), notes=notes))
    first, *others = scored
    common = [image for image in first.right if all(image in run.right for run in others)]
    if not common:
        raise DataError(f"{data} has no image that none of these runs was trained on.")
    return [replace(run, right={image: run.right[image] for image in common}) for run in scored]


def _document(runs: Sequence[ComparedRun]) -> Document:
    first, *others = runs
    about, differences, verdict = AS_SAVED, list[PairedDifference](), list[str]()
    if first.right:
        about = (
            f"All were scored now on the same {several(len(first.right), 'image')}; images that "
            "one of them is known to have been trained on are left out for all. " + ABOUT_INTERVALS
        )
        differences = [run.minus(first) for run in others]
        for run, difference in zip(others, differences, strict=True):
            verdict.append(f"{run.name}: {difference_sentence(first.name, difference)}")
    rows, values = [], []
    for run in runs:
        words, prompt, (correct, images) = run.result.words, run.result.prompt, run.counts
        accuracy = correct / images if images else None
        interval = wilson_interval(correct, images) if images else None
        shown = [percent(accuracy), range_of_percent(*interval) if interval else "-", str(images)]
        rows.append([run.name, *shown, ", ".join(words) or "none", prompt])
        one = {"name": run.name, "run": str(run.folder), "prompt": prompt, "words": words}
        values.append({**one, "accuracy": accuracy, "interval": interval, "images": images})
    numbers = ("accuracy", "95 % interval", "images")
    caption = "Held-out accuracy of each run"
    return Document(
        title=f"{len(runs)} prompts side by side",
        subtitle=", ".join(run.name for run in runs),
        prompt=(),
        lead=(*verdict, about),
        warnings=tuple(note for run in runs for note in run.notes),
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
