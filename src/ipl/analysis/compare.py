"""The same questions of several saved runs: words, accuracies, and what sets them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ipl.analysis.metrics import Score, log_probabilities, score
from ipl.analysis.outcomes import zero_shot
from ipl.analysis.subject import Subject, look_at, open_run
from ipl.analysis.vectors import describe
from ipl.backbone import Backbone
from ipl.errors import ConfigError
from ipl.progress import SILENT, Reporter
from ipl.saving import SavedPrompt, find_run, read_run
from ipl.selection import Selection


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
    images: int | None

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


def compare_runs(
    folders: Sequence[Path],
    data: Path | None = None,
    images: int = 2000,
    device: str = "auto",
    cache: bool = True,
    reporter: Reporter = SILENT,
) -> Comparison:
    """Returns saved runs side by side; with `data`, all are scored anew on its pictures."""
    if len(folders) < 2:
        raise ConfigError(f"{len(folders)} run given; a comparison needs at least two.")
    every = [read_run(find_run(folder)) for folder in folders]  # before anything is computed
    names, runs, notes = run_names(folders), [], list[str]()
    loaded: dict[str, Backbone] = {}
    with reporter.task("Looking at runs", len(folders)) as advance:
        for name, folder, saved in zip(names, folders, every, strict=True):
            key = str(sorted(saved.backbone.items()))  # runs of one backbone share it
            subject = open_run(folder, loaded.get(key), device, None, cache, reporter)
            loaded[key] = subject.learner.backbone
            one, told = _look(name, subject, data, images, reporter)
            runs.append(one)
            notes += [f"{name}: {note}" for note in told]
            advance()
    settings = [_settings(run.saved) for run in runs]
    keys = list(dict.fromkeys(key for one in settings for key in one))
    rows = [(key, tuple(one.get(key, "") for one in settings)) for key in keys]
    words = Counter(word for run in runs for word in set(run.saved.words))
    shared = [word for word, count in words.most_common() if count > 1]
    return Comparison(
        runs=tuple(runs),
        same=tuple((key, max(values)) for key, values in rows if len(set(values) - {""}) == 1),
        differ=tuple((key, values) for key, values in rows if len(set(values) - {""}) > 1),
        shared=tuple((word, tuple(_place(run, word) for run in runs)) for word in shared),
        notes=tuple(notes),
    )


def _look(
    name: str, subject: Subject, data: Path | None, images: int, reporter: Reporter
) -> tuple[Compared, tuple[str, ...]]:
    vectors = describe(subject.learner, subject.saved.training, subject.candidates).vectors
    ways = [vector.moved for vector in vectors if vector.moved is not None]
    test = frozen = count = None
    notes: tuple[str, ...] = ()
    if data is not None:
        pictures = look_at(subject, data, images, reporter=reporter)
        labels, count = pictures.test.labels, len(pictures.test.items)
        test = score(log_probabilities(subject.learner, pictures.features), labels)
        frozen = score(zero_shot(subject.learner, subject.saved.classes, pictures.test), labels)
        notes = pictures.notes
    moved = sum(ways) / len(ways) if ways else None
    return (
        Compared(
            name, str(subject.folder), subject.saved, subject.selection, moved, test, frozen, count
        ),
        notes,
    )


def run_names(folders: Sequence[Path]) -> list[str]:
    """Returns the last part of each path, or the whole path where two end alike."""
    short = [folder.resolve().name for folder in folders]
    return short if len(set(short)) == len(short) else [str(folder) for folder in folders]


def _place(run: Compared, word: str) -> int:
    return run.saved.words.index(word) + 1 if word in run.saved.words else 0


def _settings(saved: SavedPrompt) -> dict[str, str]:
    """Returns what decides a run, as texts."""
    training: dict[str, Any] = {
        key: value
        for key, value in saved.training.items()
        if key not in ("classes", "history") and value is not None
    }
    rows = {"learner": saved.learner, "words": str(len(saved.words))}
    rows |= {"backbone": str(saved.backbone["name"])}
    rows |= {"weights": str(saved.backbone["weights_sha256"])[:12]}
    rows |= {"classes": str(len(saved.classes)), "class names": ", ".join(saved.classes)}
    rows |= {k: f"{v:g}" if isinstance(v, float) else str(v) for k, v in training.items()}
    rows |= {"placeholder": saved.placeholder}
    if saved.selection:
        keys = ("lambda_", "preset", "word_embedding", "template", "search", "pool_size")
        rows |= {k.strip("_").replace("_", " "): str(saved.selection.get(k)) for k in keys}
    return rows
