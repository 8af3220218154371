"""The accuracies of several runs, on the same images where that is possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ipl.backbone.zero_shot import zero_shot_log_probabilities
from ipl.datasets.dataset import Item
from ipl.display.document import Block, Figure, Paragraph, Section
from ipl.display.formatting import number, percent, several
from ipl.display.plots import Bar, bars
from ipl.display.table import Table
from ipl.explain.loaded_run import LoadedRun, RunImages, RunShots, encode_held_out, redraw_shots
from ipl.explain.vectors import describe_vectors
from ipl.metrics import PairedDifference, Score, paired_difference, score, wilson_interval
from ipl.support.progress import SILENT, Reporter
from ipl.training.comparison import ABOUT_INTERVALS, LINEAR_PROBE, ZERO_SHOT, difference_sentence
from ipl.training.result import FitResult
from ipl.words.selection import Selection

OTHER_CLASSES = (
    "These runs were trained on different classes, and accuracies over different classes cannot be "
    "compared: fewer classes, or classes that look less alike, are easier to tell apart."
)


@dataclass(frozen=True)
class ComparedRun:
    """One run: what is saved with it and, if data is given, its score on that data."""

    name: str
    folder: str
    result: FitResult
    selection: Selection | None
    moved: float | None  # mean distance of the soft vectors from their start
    test: Score | None
    zero_shot: Score | None
    classes: tuple[str, ...]  # those it was trained on
    image_paths: tuple[str, ...] | None  # the images it was scored on, if data is given
    right: tuple[bool, ...] = ()  # for each of these images, whether it is classified correctly

    @property
    def images(self) -> int | None:
        """Returns how many images it was scored on, None without data."""
        return None if self.image_paths is None else len(self.image_paths)

    @property
    def held_out_images(self) -> int:
        """Returns how many images the accuracy is from: computed now, else as saved."""
        return self.result.held_out_images if self.images is None else self.images

    def accuracy(self) -> float | None:
        """Returns the held-out accuracy: computed now, else as saved."""
        return self.test.accuracy if self.test else self.result.held_out_accuracy

    def interval(self) -> tuple[float, float] | None:
        """Returns the 95 % interval of this accuracy, None if nothing was held out."""
        accuracy, images = self.accuracy(), self.held_out_images
        if accuracy is None or not images:
            return None
        return wilson_interval(round(accuracy * images), images)

    def baseline(self, name: str) -> float | None:
        """Returns what it must beat: the accuracy of a baseline on the same images, if known."""
        if self.zero_shot is not None:
            return self.zero_shot.accuracy if name == ZERO_SHOT else None
        saved = self.result.comparison
        method = saved.of(name) if saved else None
        return saved.accuracy(method) if saved and method else None


def same_classes(runs: Sequence[ComparedRun]) -> bool:
    """Returns whether all runs were trained on the same classes."""
    return len({frozenset(run.classes) for run in runs}) == 1


def same_images(runs: Sequence[ComparedRun]) -> bool:
    """Returns whether all runs were scored now, on the same images."""
    return runs[0].images is not None and len({run.image_paths for run in runs}) == 1


def read_images(
    runs: Sequence[LoadedRun], data: Path, limit: int, reporter: Reporter = SILENT
) -> list[RunImages]:
    """Returns up to `limit` images of each run: for all the same, if that is possible.

    Runs of the same classes get the images that none of them was trained on. Runs of different
    classes, or that have no such image, get those that are new to each.
    """
    found = [redraw_shots(run, data, reporter=reporter) for run in runs]
    items = [run_shots.held_out for run_shots in found]
    if len({frozenset(run.classes) for run in runs}) == 1:
        items = _new_to_all(runs, found) or items
    return [
        encode_held_out(run, run_shots, held_out, limit, reporter=reporter)
        for run, run_shots, held_out in zip(runs, found, items, strict=True)
    ]


def _new_to_all(runs: Sequence[LoadedRun], found: Sequence[RunShots]) -> list[tuple[Item, ...]]:
    """Returns the same images for each run, in the same order; nothing if there are none.

    Their labels differ where runs have their classes in different orders.
    """
    held_out = [
        {(item.path, run.classes[item.label]): item for item in run_shots.held_out}
        for run, run_shots in zip(runs, found, strict=True)
    ]
    common = [key for key in held_out[0] if all(key in items for items in held_out)]
    return [tuple(items[key] for key in common) for items in held_out] if common else []


def score_run(name: str, run: LoadedRun, run_images: RunImages | None) -> ComparedRun:
    """Returns what is saved with a run and, if there are images, its score on these."""
    vectors = describe_vectors(run.learner, run.result.config, run.candidates).vectors
    distances = [vector.moved for vector in vectors if vector.moved is not None]
    test = zero_shot = image_paths = None
    right: tuple[bool, ...] = ()
    if run_images is not None:
        labels, features = run_images.test.labels, run_images.test.features
        predictions = run.learner.log_probabilities(run_images.features)
        test = score(predictions, labels)
        paths = [str(item.path) for item in run_images.test.items]
        order = sorted(range(len(paths)), key=paths.__getitem__)
        image_paths = tuple(paths[index] for index in order)
        right = tuple((predictions.argmax(1) == labels)[order].tolist())
        untrained = zero_shot_log_probabilities(
            run.learner.backbone, run.classes, features, run.result.config.class_template
        )
        zero_shot = score(untrained, labels)
    return ComparedRun(
        name=name,
        folder=str(run.folder),
        result=run.result,
        selection=run.selection,
        moved=sum(distances) / len(distances) if distances else None,
        test=test,
        zero_shot=zero_shot,
        classes=run.classes,
        image_paths=image_paths,
        right=right,
    )


def differences(runs: Sequence[ComparedRun]) -> list[PairedDifference]:
    """Returns the accuracy of each run after the first minus that of the first.

    There are none unless all runs have the same classes and were scored now on the same images.
    """
    first, *others = runs
    if not (same_classes(runs) and same_images(runs)):
        return []
    pairs = [list(zip(run.right, first.right, strict=True)) for run in others]
    return [
        paired_difference(each.count((True, False)), each.count((False, True)), len(each))
        for each in pairs
    ]


def verdict(runs: Sequence[ComparedRun]) -> tuple[str, ...]:
    """Returns a sentence for each run after the first: whether it is better than the first."""
    first, *others = runs
    return tuple(
        f"{run.name}: {difference_sentence(first.name, difference)}"
        for run, difference in zip(others, differences(runs), strict=False)
    )


# -- how it is shown ----------------------------------------------------------------------------


def accuracy_table(runs: Sequence[ComparedRun]) -> Table:
    """Returns a table of the held-out accuracy of each run beside what it must beat."""
    baselines = {
        name: title
        for name, title in ((ZERO_SHOT, "zero-shot"), (LINEAR_PROBE, "linear probe"))
        if any(run.baseline(name) is not None for run in runs)
    }
    numbers = ["accuracy", "95 % interval", *baselines.values(), "images"]
    rows = []
    for run in runs:
        ends = [f"{100 * end:.1f}" for end in run.interval() or ()]
        cells = [percent(run.accuracy()), " to ".join(ends)]
        cells += [*(percent(run.baseline(name)) for name in baselines), f"{run.held_out_images:,}"]
        rows.append([run.name, *(cell or "-" for cell in cells)])
    return Table(["run", *numbers], rows, caption="Held-out accuracy of each run", numbers=numbers)


def accuracy_notes(runs: Sequence[ComparedRun]) -> tuple[str, ...]:
    """Returns what the accuracies were measured on, and a warning if they cannot be compared."""
    scored = any(run.test is not None for run in runs)
    warning = () if same_classes(runs) else (OTHER_CLASSES,)
    return (_how_scored(runs, scored), *warning)


def accuracy_section(runs: Sequence[ComparedRun]) -> Section:
    """Returns the accuracies as a table and as bars."""
    scored = any(run.test is not None for run in runs)
    columns = ["run", "classes", "training", "held out, when trained"]
    columns += ["held out, now", "loss, now", "zero-shot, now", "images"] if scored else []
    rows = []
    for run in runs:
        results = run.result.results
        row = [
            run.name,
            str(len(run.classes)),
            percent(results.get("train_accuracy")),
            percent(results.get("held_out_accuracy")),
        ]
        if run.test is not None and run.zero_shot is not None:
            row += [percent(run.test.accuracy), number(run.test.loss)]
            row += [percent(run.zero_shot.accuracy), f"{run.images:,}"]
        rows.append(row)
    accuracy_bars = [
        Bar(f"{run.name}{_scored_on(runs, run)}", accuracy, percent(accuracy), 1)
        for run in runs
        if (accuracy := run.accuracy()) is not None
    ]
    values = ", ".join(f"{bar.label} {bar.shown}" for bar in accuracy_bars)
    table = Table(columns, rows, caption="Accuracy of each run")
    svg = bars(accuracy_bars, f"Held-out accuracy: {values}.")
    how, *warnings = accuracy_notes(runs)
    blocks: list[Block] = [*map(Paragraph, verdict(runs)), Paragraph(how)]
    blocks += [Paragraph(text, "warning") for text in warnings]
    blocks.append(accuracy_table(runs))
    blocks.append(Figure("Held-out accuracy", svg, table) if accuracy_bars else table)
    return Section("accuracy", "Accuracy", tuple(blocks))


def _how_scored(runs: Sequence[ComparedRun], scored: bool) -> str:
    if not scored:
        return (
            "As saved when each was trained, on its own held-out images; these need not be the "
            "same. With --data all are scored on the images given."
        )
    if same_images(runs):
        return (
            f"All were scored now on the same {several(runs[0].held_out_images, 'image')}; images "
            "that one of them is known to have been trained on are left out for all. "
            f"{ABOUT_INTERVALS}"
        )
    return (
        "All were scored now, each on those of the images given that are of its own classes and "
        "that it was not trained on: these are not the same for all."
    )


def _scored_on(runs: Sequence[ComparedRun], run: ComparedRun) -> str:
    """Returns what a run was scored on, where that differs between runs."""
    parts = [] if same_classes(runs) else [several(len(run.classes), "class", "classes")]
    if run.images is not None and not same_images(runs):
        parts.append(several(run.images, "image"))
    return f" ({', '.join(parts)})" if parts else ""
