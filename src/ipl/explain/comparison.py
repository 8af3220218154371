"""Several saved runs side by side: words, accuracies, and the settings that differ."""

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
from ipl.display.document import (
    Block,
    Document,
    Figure,
    Paragraph,
    Prompts,
    Section,
)
from ipl.display.formatting import listed, number, percent, signed
from ipl.display.page import notebook_html
from ipl.display.plots import Bar, Series, bars, lines
from ipl.display.table import Table
from ipl.explain.compared_accuracies import (
    OTHER_CLASSES,
    ComparedRun,
    accuracy_section,
    differences,
    read_images,
    same_classes,
    same_images,
    score_run,
    verdict,
)
from ipl.explain.compared_settings import ComparedSettings, compare_settings, settings_section
from ipl.explain.loaded_run import RunImages, load_run
from ipl.prompts.layout import prompt_pieces
from ipl.saving.format import read_run
from ipl.saving.run_folder import find_run
from ipl.support.errors import ConfigError
from ipl.support.files import check_exists
from ipl.support.progress import SILENT, Reporter
from ipl.training.result import FitResult
from ipl.words.selection import Selection


@dataclass(frozen=True)
class Comparison:
    """Runs side by side."""

    runs: tuple[ComparedRun, ...]
    settings: ComparedSettings
    shared: tuple[tuple[str, tuple[int, ...]], ...]  # words of several runs: position, 0: absent
    notes: tuple[str, ...]

    def _repr_html_(self) -> str:
        rows = [
            (run.name, run.result.prompt, percent(run.accuracy()), str(len(run.classes)))
            for run in self.runs
        ]
        columns = ("run", "prompt", "held-out accuracy", "classes")
        parts: list[str | Table] = [Table(columns, rows)]
        if self.settings.differ:
            names = ("setting", *(run.name for run in self.runs))
            parts.append(Table(names, [(key, *values) for key, values in self.settings.differ]))
        if not self.same_classes:
            parts.append(OTHER_CLASSES)
        return notebook_html(f"{len(self.runs)} prompts side by side", [*parts, *self.notes])

    @property
    def same_classes(self) -> bool:
        """Returns whether all runs were trained on the same classes."""
        return same_classes(self.runs)

    @property
    def same_images(self) -> bool:
        """Returns whether all runs were scored now, on the same images."""
        return same_images(self.runs)


def compare_runs(
    folders: Sequence[Path],
    data: Path | None = None,
    images: int = 2000,
    device: str = "auto",
    cache: bool = True,
    reporter: Reporter = SILENT,
) -> Comparison:
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
    Comparison
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
        found = read_images(loaded_runs, data, images, reporter)
    runs, notes = list[ComparedRun](), list[str]()
    with reporter.task("Looking at runs", len(folders)) as advance:
        for name, run, run_images in zip(run_names(folders), loaded_runs, found, strict=True):
            runs.append(score_run(name, run, run_images))
            about = (*run.notes, *(run_images.notes if run_images else ()))
            notes += [f"{name}: {note}" for note in about]
            advance()
    return Comparison(
        runs=tuple(runs),
        settings=compare_settings(saved_runs),
        shared=_shared_words(runs),
        notes=(*_same_prompt_notes(runs), *notes),
    )


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


def _shared_words(runs: Sequence[ComparedRun]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Returns the words of two or more runs with their position in each; most frequent first."""
    counts = Counter(word for run in runs for word in set(run.result.words))
    first = {word: min(p for run in runs if (p := _position(run, word))) for word in counts}
    order = sorted(counts, key=lambda word: (-counts[word], first[word], word))
    return tuple(
        (word, tuple(_position(run, word) for run in runs)) for word in order if counts[word] > 1
    )


def _same_prompt_notes(runs: Sequence[ComparedRun]) -> list[str]:
    """Returns a note for each run that is the same prompt as one before it."""
    notes = []
    for index, run in enumerate(runs):
        twin = next((r for r in runs[:index] if _is_same_prompt(run.result, r.result)), None)
        if twin is not None:
            notes.append(f"{twin.name} and {run.name} are the same prompt.")
    return notes


def _is_same_prompt(one: FitResult, other: FitResult) -> bool:
    """Returns whether two saved prompts have the same words and the same numbers."""
    keys = [
        (p.learner, p.prompt, p.backbone["weights_sha256"], set(p.tensors)) for p in (one, other)
    ]
    if keys[0] != keys[1]:
        return False
    return all(torch.equal(tensor, other.tensors[name]) for name, tensor in one.tensors.items())


def _position(run: ComparedRun, word: str) -> int:
    return run.result.words.index(word) + 1 if word in run.result.words else 0


# -- how it is shown ----------------------------------------------------------------------------


def comparison_document(comparison: Comparison) -> Document:
    """Returns the runs side by side: words, accuracies, settings that differ, shared words."""
    sections = [
        _words_section(comparison),
        accuracy_section(comparison.runs),
        settings_section(comparison.settings, [run.name for run in comparison.runs]),
        _vectors_section(comparison),
    ]
    differing = ", ".join(key for key, _ in comparison.settings.differ)
    return Document(
        title=f"{len(comparison.runs)} prompts side by side",
        subtitle=", ".join(run.name for run in comparison.runs),
        prompt=(),
        lead=(f"The runs differ in: {differing or 'nothing that is saved with a run'}.",),
        warnings=comparison.notes,
        sections=tuple(sections),
        foot=f"Written by ipl {__version__}. What the numbers mean: docs/report.md in ipl's "
        "repository.",
    )


def _words_section(comparison: Comparison) -> Section:
    prompts = tuple((run.name, prompt_pieces(run.result.prompt)) for run in comparison.runs)
    blocks: list[Block] = [Prompts(prompts)]
    selections = [(run, run.selection) for run in comparison.runs if run.selection is not None]
    if any(selection.steps for _, selection in selections):
        blocks += _curve_blocks(selections)
    if comparison.shared:
        rows = [
            [word, *(f"word {position}" if position else "" for position in positions)]
            for word, positions in comparison.shared
        ]
        columns = ("word", *(run.name for run in comparison.runs))
        blocks.append(Table(columns, rows, caption="Words that two or more runs share"))
    elif sum(bool(run.result.words) for run in comparison.runs) > 1:
        blocks.append(Paragraph("No two of these runs share a word."))
    return Section("words", "The words", tuple(blocks))


def _curve_blocks(selections: list[tuple[ComparedRun, Selection]]) -> list[Block]:
    """Returns the loss after each word as curves; runs with the same curve share one."""
    curves: dict[tuple[float, ...], list[str]] = {}
    rows = []
    for run, selection in selections:
        losses = (selection.loss_without_words, *(step.loss for step in selection.steps))
        curves.setdefault(tuple(round(loss, 4) for loss in losses), []).append(run.name)
        rows += [
            [
                run.name,
                step.word,
                signed(step.gain),
                signed(step.utility),
                number(step.redundancy),
                number(step.loss),
            ]
            for step in selection.steps
        ]
    series = [
        Series(_curve_name(names), tuple(enumerate(losses)), 1 + index % 4)
        for index, (losses, names) in enumerate(curves.items())
    ]
    ends = "; ".join(f"{s.name} ends at {s.points[-1][1]:.3f}" for s in series)
    longest = max(len(s.points) for s in series)
    svg = lines(
        series,
        f"Cross-entropy after each word: {ends}.",
        "words",
        "cross-entropy",
        x_ticks=[(float(i), str(i)) for i in range(longest)],
    )
    columns = ("run", "word", "gain", "utility", "redundancy", "loss after")
    table = Table(columns, rows, caption="Each word when it was chosen")
    return [
        Figure("The loss after each word", svg, table),
        *(
            Paragraph(f"The curves of {listed(names)} are the same and drawn as one.", "note")
            for names in curves.values()
            if len(names) > 1
        ),
    ]


def _curve_name(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _vectors_section(comparison: Comparison) -> Section:
    moves = [(run.name, run.moved) for run in comparison.runs if run.moved is not None]
    if not moves:
        return Section("vectors", "The soft vectors", (Paragraph("Their starts are not known."),))
    move_bars = [Bar(name, moved, number(moved, 3)) for name, moved in moves]
    rows = [[name, number(moved)] for name, moved in moves]
    title = "Mean distance of the soft vectors from their start"
    values = ", ".join(f"{bar.label} {bar.shown}" for bar in move_bars)
    table = Table(("run", "moved"), rows, caption=title)
    figure = Figure(title, bars(move_bars, f"{title}: {values}."), table)
    return Section("vectors", "The soft vectors", (figure,))


def comparison_values(comparison: Comparison) -> dict[str, Any]:
    """Returns the comparison as plain values for JSON."""
    minus_first = [None, *map(asdict, differences(comparison.runs))]
    return {
        "runs": [
            {**_run_values(run), "minus_first": difference}
            for run, difference in zip_longest(comparison.runs, minus_first)
        ],
        "verdict": list(verdict(comparison.runs)),
        "same": dict(comparison.settings.same),
        "same_with_slots": dict(comparison.settings.same_with_slots),
        "differ": {key: list(values) for key, values in comparison.settings.differ},
        "shared_words": {word: list(positions) for word, positions in comparison.shared},
        "same_classes": comparison.same_classes,
        "same_images": comparison.same_images,
        "notes": list(comparison.notes),
    }


def _run_values(run: ComparedRun) -> dict[str, Any]:
    return {
        "name": run.name,
        "run": run.folder,
        "prompt": run.result.prompt,
        "words": list(run.result.words),
        "selection": run.selection.as_dict() if run.selection else None,
        "results_when_trained": run.result.results,
        "accuracy": run.accuracy(),
        "interval": run.interval(),
        "held_out": None if run.test is None else asdict(run.test),
        "zero_shot": None if run.zero_shot is None else asdict(run.zero_shot),
        "classes": list(run.classes),
        "images": run.images,
        "moved": run.moved,
    }
