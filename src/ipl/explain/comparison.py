"""The same questions of several saved runs: words, accuracies, and what sets them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ipl.backbone.backbone import Backbone
from ipl.explain.loaded_run import LoadedRun, load_run, read_run_images
from ipl.explain.outcomes import zero_shot
from ipl.explain.vectors import describe_vectors
from ipl.metrics import Score, score
from ipl.saving.format import SavedPrompt, read_run
from ipl.saving.sharing import find_run
from ipl.support.errors import ConfigError
from ipl.support.progress import SILENT, Reporter
from ipl.words.selection import Selection


@dataclass(frozen=True)
class Compared:
    """One run: what it carries and, with its data, its score now."""

    name: str
    folder: str
    saved: SavedPrompt
    selection: Selection | None
    moved: float | None  # mean distance of the soft vectors from their start
    test: Score | None
    zero_shot: Score | None
    classes: tuple[str, ...]  # it was trained on
    run_images: tuple[str, ...] | None  # it was scored on now

    @property
    def images(self) -> int | None:
        """Returns how many images it was scored on now."""
        return None if self.run_images is None else len(self.run_images)

    def accuracy(self) -> float | None:
        """Returns the held-out accuracy: computed now, else as saved."""
        saved = self.saved.results.get("held_out_accuracy")
        return self.test.accuracy if self.test else saved


@dataclass(frozen=True)
class Comparison:
    """Runs side by side."""

    runs: tuple[Compared, ...]
    same: tuple[tuple[str, str], ...]  # settings that are the same wherever a run has them
    differ: tuple[tuple[str, tuple[str, ...]], ...]  # those they do not, a value per run
    shared: tuple[tuple[str, tuple[int, ...]], ...]  # words of two or more runs: place, 0: absent
    notes: tuple[str, ...]

    @property
    def same_classes(self) -> bool:
        """Returns whether all runs were trained on the same classes."""
        return len({frozenset(run.classes) for run in self.runs}) == 1

    @property
    def same_images(self) -> bool:
        """Returns whether all runs were scored now, on the same images."""
        return self.runs[0].images is not None and len({run.run_images for run in self.runs}) == 1


def compare_runs(
    folders: Sequence[Path],
    data: Path | None = None,
    images: int = 2000,
    device: str = "auto",
    cache: bool = True,
    reporter: Reporter = SILENT,
) -> Comparison:
    """Returns saved runs side by side; with `data`, all are scored anew on its images."""
    if len(folders) < 2:
        raise ConfigError(f"{len(folders)} run given; a comparison needs at least two.")
    every = [read_run(find_run(folder)) for folder in folders]  # before anything is computed
    names, runs, notes = run_names(folders), [], list[str]()
    loaded: dict[str, Backbone] = {}
    with reporter.task("Looking at runs", len(folders)) as advance:
        for name, folder, saved in zip(names, folders, every, strict=True):
            key = str(sorted(saved.backbone.items()))  # runs of one backbone share it
            subject = load_run(folder, loaded.get(key), device, None, cache, reporter)
            loaded[key] = subject.learner.backbone
            one, told = _look(name, subject, data, images, reporter)
            runs.append(one)
            notes += [f"{name}: {note}" for note in told]
            advance()
    settings = [_settings(run) for run in runs]
    keys = list(dict.fromkeys(key for one in settings for key in one))
    rows = [(key, tuple(one.get(key, "") for one in settings)) for key in keys]
    words = Counter(word for run in runs for word in set(run.saved.words))
    firsts = {word: min(p for run in runs if (p := _place(run, word))) for word in words}
    order = sorted(words, key=lambda word: (-words[word], firsts[word], word))
    shared = [word for word in order if words[word] > 1]
    return Comparison(
        runs=tuple(runs),
        same=tuple((key, max(values)) for key, values in rows if len(set(values) - {""}) == 1),
        differ=tuple((key, values) for key, values in rows if len(set(values) - {""}) > 1),
        shared=tuple((word, tuple(_place(run, word) for run in runs)) for word in shared),
        notes=(*_twins(runs), *notes),
    )


def _look(
    name: str, subject: LoadedRun, data: Path | None, images: int, reporter: Reporter
) -> tuple[Compared, tuple[str, ...]]:
    vectors = describe_vectors(subject.learner, subject.saved.training, subject.candidates).vectors
    ways = [vector.moved for vector in vectors if vector.moved is not None]
    test = frozen = seen = None
    notes = subject.notes
    if data is not None:
        run_images = read_run_images(subject, data, images, reporter=reporter)
        labels = run_images.test.labels
        seen = tuple(sorted(str(item.path) for item in run_images.test.items))
        test = score(subject.learner.log_probabilities(run_images.features), labels)
        frozen = score(zero_shot(subject.learner, subject.classes, run_images.test), labels)
        notes = (*notes, *run_images.notes)
    moved = sum(ways) / len(ways) if ways else None
    return (
        Compared(
            name=name,
            folder=str(subject.folder),
            saved=subject.saved,
            selection=subject.selection,
            moved=moved,
            test=test,
            zero_shot=frozen,
            classes=subject.classes,
            run_images=seen,
        ),
        notes,
    )


def run_names(folders: Sequence[Path]) -> list[str]:
    """Returns the last part of each path, or the whole path where two end alike.

    A path that is given twice is numbered.
    """
    short = [folder.resolve().name for folder in folders]
    whole = short if len(set(short)) == len(short) else [str(folder) for folder in folders]
    if len(set(whole)) == len(whole):
        return whole
    return [f"{name} ({number})" for number, name in enumerate(whole, start=1)]


def _twins(runs: Sequence[Compared]) -> list[str]:
    """Returns a note for each run that is the same prompt as one before it."""
    found = []
    for place, run in enumerate(runs):
        twin = next((other for other in runs[:place] if _same(run.saved, other.saved)), None)
        if twin is not None:
            found.append(f"{twin.name} and {run.name} are the same prompt.")
    return found


def _same(one: SavedPrompt, other: SavedPrompt) -> bool:
    """Returns whether two saved prompts have the same words and the same numbers."""
    said = [
        (p.learner, p.prompt, p.backbone["weights_sha256"], set(p.tensors)) for p in (one, other)
    ]
    if said[0] != said[1]:
        return False
    return all(torch.equal(tensor, other.tensors[name]) for name, tensor in one.tensors.items())


def _place(run: Compared, word: str) -> int:
    return run.saved.words.index(word) + 1 if word in run.saved.words else 0


def _settings(run: Compared) -> dict[str, str]:
    """Returns what decides a run, as texts."""
    saved = run.saved
    unsaid = {"classes", "history"} if saved.words else {"classes", "history", "interval"}
    training: dict[str, Any] = {
        key: value
        for key, value in saved.training.items()
        if key not in unsaid and value is not None
    }
    rows = {"learner": saved.learner, "words": str(len(saved.words))}
    rows |= {"backbone": str(saved.backbone["name"])}
    rows |= {"weights": str(saved.backbone["weights_sha256"])[:12]}
    rows |= {"classes": str(len(run.classes)), "class names": ", ".join(run.classes)}
    rows |= {k: f"{v:g}" if isinstance(v, float) else str(v) for k, v in training.items()}
    rows |= {"placeholder": saved.placeholder}
    if saved.selection:
        keys = ("lambda_", "preset", "word_embedding", "template", "search", "pool_size")
        rows |= {k.strip("_").replace("_", " "): str(saved.selection.get(k)) for k in keys}
    return rows
