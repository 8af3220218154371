"""Several saved runs side by side: words, accuracies on the same images, settings that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch

from ipl._version import __version__
from ipl.backbone.backbone import Backbone
from ipl.backbone.zero_shot import zero_shot_log_probabilities
from ipl.datasets.dataset import Item
from ipl.display.document import Block, Document, Paragraph, Prompts, Section
from ipl.display.formatting import percent, range_of_percent, several
from ipl.display.page import notebook_html
from ipl.display.table import Table
from ipl.explain.loaded_run import (
    LoadedRun,
    RunImages,
    RunShots,
    encode_held_out,
    load_run,
    redraw_shots,
)
from ipl.metrics import PairedDifference, Score, paired_difference, score
from ipl.prompts.layout import prompt_pieces
from ipl.saving.format import read_run
from ipl.saving.run_folder import find_run
from ipl.support.errors import ConfigError
from ipl.support.files import check_exists
from ipl.support.progress import SILENT, Reporter
from ipl.training.comparison import (
    ABOUT_INTERVALS,
    LINEAR_PROBE,
    PROMPT,
    ZERO_SHOT,
    Comparison,
    compare_predictions,
    difference_sentence,
)
from ipl.training.result import FitResult

OTHER_CLASSES = (
    "These runs were trained on different classes, and accuracies over different classes cannot be "
    "compared: fewer classes, or classes that look less alike, are easier to tell apart."
)
# What is saved of a search, by its name in Selection.
OF_SEARCH = ("lambda_", "preset", "word_embedding", "template", "search", "pool_size")


@dataclass(frozen=True)
class ComparedRun:
    """One run: what is saved with it and, if data is given, what it does on that data."""

    name: str
    folder: str
    result: FitResult
    comparison: Comparison | None  # on the data given, else as saved
    held_out: Score | None = None  # on the data given
    zero_shot: Score | None = None
    # Whether it is right, for each image of the data given by its path and its class.
    right: dict[tuple[str, str], bool] | None = None


@dataclass(frozen=True)
class ComparedSettings:
    """Settings of several runs, as texts."""

    same: dict[str, str]  # with one value in all runs
    differ: dict[str, list[str]]  # a value per run, empty where it has none


@dataclass(frozen=True)
class ComparedRuns:
    """Runs side by side."""

    runs: tuple[ComparedRun, ...]
    settings: ComparedSettings
    notes: tuple[str, ...]

    def _repr_html_(self) -> str:
        prompts = Table(("run", "prompt"), [(run.name, run.result.prompt) for run in self.runs])
        sentences = (*self.verdict, *self.about_accuracies, *self.notes)
        title = f"{len(self.runs)} prompts side by side"
        return notebook_html(title, [prompts, self.accuracies(), *sentences])

    @property
    def same_classes(self) -> bool:
        """Returns whether all runs were trained on the same classes."""
        return len({frozenset(run.result.trained_classes) for run in self.runs}) == 1

    @property
    def same_images(self) -> bool:
        """Returns whether all runs were scored now, on the same images."""
        images = {None if run.right is None else frozenset(run.right) for run in self.runs}
        return len(images) == 1 and None not in images

    @property
    def differences(self) -> list[PairedDifference]:
        """Returns the accuracy of each run after the first minus that of the first.

        There are none unless all runs have the same classes and were scored now on the same images.
        """
        if not (self.same_classes and self.same_images):
            return []
        first, *others = [run.right or {} for run in self.runs]
        pairs = [[(right, first[image]) for image, right in other.items()] for other in others]
        return [
            paired_difference(each.count((True, False)), each.count((False, True)), len(each))
            for each in pairs
        ]

    @property
    def verdict(self) -> tuple[str, ...]:
        """Returns a sentence for each run after the first: whether it is better than the first."""
        first, *others = [run.name for run in self.runs]
        return tuple(
            f"{name}: {difference_sentence(first, difference)}"
            for name, difference in zip(others, self.differences, strict=False)
        )

    @property
    def about_accuracies(self) -> tuple[str, ...]:
        """Returns what the accuracies were measured on, and whether they can be compared."""
        first = self.runs[0]
        if first.right is None:
            how = (
                "As saved when each was trained, on its own held-out images; these need not be the "
                "same. With --data all are scored on the images given."
            )
        elif self.same_images:
            how = (
                f"All were scored now on the same {several(len(first.right), 'image')}; images "
                "that one of them is known to have been trained on are left out for all. "
                f"{ABOUT_INTERVALS}"
            )
        else:
            how = (
                "All were scored now, each on those of the images given that are of its own "
                "classes and that it was not trained on: these are not the same for all."
            )
        return (how,) if self.same_classes else (how, OTHER_CLASSES)

    @property
    def shared_words(self) -> dict[str, list[int]]:
        """Returns the words of two or more runs, most frequent first, with their position in each.

        The position is 0 in a run that does not have the word.
        """
        prompts = [run.result.words for run in self.runs]
        counts = Counter(word for words in prompts for word in set(words))
        shared = {
            word: [words.index(word) + 1 if word in words else 0 for words in prompts]
            for word in counts
            if counts[word] > 1
        }
        order = sorted(
            shared, key=lambda word: (-counts[word], min(filter(None, shared[word])), word)
        )
        return {word: shared[word] for word in order}

    def accuracies(self) -> Table:
        """Returns a table of the held-out accuracy of each run beside what it must beat."""
        comparisons = [run.comparison for run in self.runs]
        baselines = {
            name: title
            for name, title in ((ZERO_SHOT, "zero-shot"), (LINEAR_PROBE, "linear probe"))
            if any(each is not None and each.of(name) for each in comparisons)
        }
        numbers = ["accuracy", "95 % interval", *baselines.values(), "images"]
        rows = []
        for run in self.runs:
            if (found := run.comparison) is None:
                rows.append([run.name, *("-" for _ in numbers[:-1]), "0"])
                continue
            beaten = [found.of(name) for name in baselines]
            shown = [percent(found.accuracy(method)) if method else "-" for method in beaten]
            interval = range_of_percent(*found.interval())
            rows.append([run.name, percent(found.accuracy()), interval, *shown, f"{found.total:,}"])
        caption = "Held-out accuracy of each run"
        return Table(["run", *numbers], rows, caption=caption, numbers=numbers)


def compare_runs(
    folders: Sequence[Path],
    data: Path | None = None,
    images: int = 2000,
    device: str = "auto",
    cache: bool = True,
    reporter: Reporter = SILENT,
) -> ComparedRuns:
    """Compare saved runs: their words, accuracies and settings.

    Parameters
    ----------
    folders : sequence of Path
        At least two folders of saved runs, or owner/name on the Hugging Face hub.
    data : Path, optional
        Labelled images to score all runs on, those that they were trained on left out. Default:
        accuracies as saved with the runs.
    images : int
        The largest number of images to score a run on.
    device : str
        The device to load backbones on.
    cache : bool
        Whether image features are read from and written to the disk cache.
    reporter : Reporter
        Receives progress and messages.

    Returns
    -------
    ComparedRuns
        The runs in the order given, with the settings and words they share.

    Raises
    ------
    ConfigError
        If fewer than two runs are given, or `images` is less than 1.
    DataError
        If the data has no class of a run, or no image that it was not trained on.
    """
    saved_runs = read_runs(folders, data, images)
    backbones: dict[str, Backbone] = {}
    loaded_runs = []
    for folder, result in zip(folders, saved_runs, strict=True):
        key = str(sorted(result.backbone.items()))  # runs of one backbone share it
        loaded_runs.append(load_run(folder, backbones.get(key), device, None, cache, reporter))
        backbones[key] = loaded_runs[-1].learner.backbone
    found: list[RunImages] | list[None] = [None] * len(folders)
    if data is not None:
        found = _read_images(loaded_runs, data, images, reporter)
    runs, notes = list[ComparedRun](), list[str]()
    with reporter.task("Looking at runs", len(folders)) as advance:
        for name, run, run_images in zip(run_names(folders), loaded_runs, found, strict=True):
            runs.append(_score_run(name, run, run_images))
            about = (*run.notes, *(run_images.notes if run_images else ()))
            notes += [f"{name}: {note}" for note in about]
            advance()
    same = [
        f"{twin.name} and {run.name} are the same prompt."
        for index, run in enumerate(runs)
        if (twin := next((r for r in runs[:index] if _is_same_prompt(run.result, r.result)), None))
    ]
    return ComparedRuns(tuple(runs), compare_settings(saved_runs), (*same, *notes))


def read_runs(
    folders: Sequence[Path], data: Path | None = None, images: int = 2000
) -> list[FitResult]:
    """Returns the saved runs; raises an error for wrong arguments of `compare_runs`."""
    if len(folders) < 2:
        raise ConfigError(f"{len(folders)} run given; a comparison needs at least two.")
    if images < 1:
        raise ConfigError(f"images is {images}; it must be 1 or more.")
    if data is not None:
        check_exists(data)
    return [read_run(find_run(folder)) for folder in folders]


def run_names(folders: Sequence[Path]) -> list[str]:
    """Returns the last part of each path, or the whole path where two end alike.

    A path that is given twice is numbered.
    """
    short = [folder.resolve().name for folder in folders]
    names = short if len(set(short)) == len(short) else [str(folder) for folder in folders]
    if len(set(names)) == len(names):
        return names
    return [f"{name} ({number})" for number, name in enumerate(names, start=1)]


def _is_same_prompt(one: FitResult, other: FitResult) -> bool:
    """Returns whether two saved prompts have the same words and the same numbers."""
    keys = [
        (p.config.learner, p.prompt, p.backbone["weights_sha256"], set(p.tensors))
        for p in (one, other)
    ]
    if keys[0] != keys[1]:
        return False
    return all(torch.equal(tensor, other.tensors[name]) for name, tensor in one.tensors.items())


def _read_images(
    runs: Sequence[LoadedRun], data: Path, limit: int, reporter: Reporter
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


def _score_run(name: str, run: LoadedRun, run_images: RunImages | None) -> ComparedRun:
    """Returns what is saved with a run and, if there are images, what it does on these."""
    result, learner = run.result, run.learner
    if run_images is None:
        return ComparedRun(name, str(run.folder), result, result.comparison)
    test, template = run_images.test, result.config.class_template
    zero_shot = zero_shot_log_probabilities(learner.backbone, run.classes, test.features, template)
    prompt = learner.log_probabilities(run_images.features)
    right = (prompt.argmax(1) == test.labels).tolist()
    images = [(str(item.path), run.classes[item.label]) for item in test.items]
    return ComparedRun(
        name,
        str(run.folder),
        result,
        compare_predictions(
            [(ZERO_SHOT, template, zero_shot), (PROMPT, result.prompt, prompt)],
            test.labels,
            run.classes,
        ),
        score(prompt, test.labels),
        score(zero_shot, test.labels),
        dict(zip(images, right, strict=True)),
    )


def compare_settings(results: Sequence[FitResult]) -> ComparedSettings:
    """Returns what is the same and what differs.

    Settings about words mean nothing in a run without slots for them: such a run has none, and
    they differ if those of the other runs do.
    """
    values = [_settings_of(result) for result in results]
    settings = ComparedSettings({}, {})
    for key in dict.fromkeys(key for each in values for key in each):
        row = [each.get(key, "") for each in values]
        held = [value for value in row if value]
        if len(set(held)) > 1:
            settings.differ[key] = row
        elif len(held) == len(results):
            settings.same[key] = held[0]
    return settings


def _settings_of(result: FitResult) -> dict[str, str]:
    """Returns the settings that decide a run."""
    rows = {
        "learner": result.config.learner,
        "words": len(result.words),
        "backbone": result.backbone["name"],
        "weights": str(result.backbone["weights_sha256"])[:12],
        "classes": len(result.trained_classes),
        "class names": ", ".join(result.trained_classes),
        **result.training_settings,
        "placeholder": result.config.placeholder if result.layout.slots else None,
        "slots": result.config.arm,
    }
    texts = {
        key: f"{value:g}" if isinstance(value, float) else str(value)
        for key, value in rows.items()
        if value is not None
    }
    if result.selection is not None:
        of_search = {key: str(getattr(result.selection, key)) for key in OF_SEARCH}
        texts |= {key.strip("_").replace("_", " "): value for key, value in of_search.items()}
    return texts


# -- how it is shown ----------------------------------------------------------------------------


def comparison_document(compared: ComparedRuns) -> Document:
    """Returns the runs side by side: words, accuracies, and settings that differ."""
    how, *warnings = compared.about_accuracies
    accuracy: list[Block] = [*map(Paragraph, compared.verdict), compared.accuracies()]
    accuracy += [Paragraph(how), *(Paragraph(text, "warning") for text in warnings)]
    differing = ", ".join(compared.settings.differ)
    return Document(
        title=f"{len(compared.runs)} prompts side by side",
        subtitle=", ".join(run.name for run in compared.runs),
        prompt=(),
        lead=(f"The runs differ in: {differing or 'nothing that is saved with a run'}.",),
        warnings=compared.notes,
        sections=(
            Section("words", "The words", tuple(_word_blocks(compared))),
            Section("accuracy", "Accuracy", tuple(accuracy)),
            Section("settings", "Settings", tuple(_setting_blocks(compared))),
        ),
        foot=f"Written by ipl {__version__}. What the numbers mean: docs/report.md in ipl's "
        "repository.",
    )


def _word_blocks(compared: ComparedRuns) -> list[Block]:
    runs, names = compared.runs, [run.name for run in compared.runs]
    pieces = tuple((run.name, prompt_pieces(run.result.prompt)) for run in runs)
    blocks: list[Block] = [Prompts(pieces)]
    if shared := compared.shared_words:
        rows = [
            [word, *(f"word {position}" if position else "" for position in positions)]
            for word, positions in shared.items()
        ]
        blocks.append(Table(("word", *names), rows, caption="Words that two or more runs share"))
    elif sum(bool(run.result.words) for run in runs) > 1:
        blocks.append(Paragraph("No two of these runs share a word."))
    return blocks


def _setting_blocks(compared: ComparedRuns) -> list[Block]:
    settings, names = compared.settings, [run.name for run in compared.runs]
    differ = [[key, *values] for key, values in settings.differ.items()]
    same = [*settings.same.items()]
    return [
        Table(("setting", *names), differ, caption="Settings that differ")
        if differ
        else Paragraph("All settings that are saved with a run are the same."),
        Table(("setting", "value"), same, caption="Settings that are the same"),
    ]


def comparison_values(compared: ComparedRuns) -> dict[str, Any]:
    """Returns the comparison as plain values for JSON."""
    minus_first = [None, *map(asdict, compared.differences)]
    return {
        "runs": [
            {**_run_values(run), "minus_first": difference}
            for run, difference in zip_longest(compared.runs, minus_first)
        ],
        "verdict": list(compared.verdict),
        **asdict(compared.settings),
        "shared_words": compared.shared_words,
        "same_classes": compared.same_classes,
        "same_images": compared.same_images,
        "notes": list(compared.notes),
    }


def _run_values(run: ComparedRun) -> dict[str, Any]:
    result, found = run.result, run.comparison
    return {
        "name": run.name,
        "run": run.folder,
        "prompt": result.prompt,
        "words": list(result.words),
        "selection": result.selection.as_dict() if result.selection else None,
        "results_when_trained": result.results,
        "accuracy": found.accuracy() if found else None,
        "interval": found.interval() if found else None,
        "held_out": asdict(run.held_out) if run.held_out else None,
        "zero_shot": asdict(run.zero_shot) if run.zero_shot else None,
        "classes": list(result.trained_classes),
        "images": found.total if found and run.right is not None else None,
    }
