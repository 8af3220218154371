"""Making a study: of each run its words, the plain learner's nearest words, and random ones."""

from __future__ import annotations

import random
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from ipl.backbone.backbone import Backbone
from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.images import UnreadableImageError, small_jpeg
from ipl.explain.baseline import Baseline, baseline_recipe, read_baseline, train_baseline
from ipl.explain.comparison import run_names
from ipl.explain.loaded_run import LoadedRun, RunShots, load_run, redraw_shots
from ipl.explain.random_words import draw_words, frequencies
from ipl.explain.ratings.study import (
    CHOSEN,
    PLAIN,
    RANDOM,
    RatingImages,
    RatingTask,
    StudiedRun,
    Study,
    fingerprint,
)
from ipl.explain.vectors import nearest
from ipl.saving.format import SavedPrompt, read_run
from ipl.support.errors import ConfigError, DataError
from ipl.support.files import path_exists
from ipl.support.progress import SILENT, Reporter
from ipl.words.pool import Pool

THUMBNAILS = 12
SIDE = 160  # pixels


@dataclass(frozen=True)
class StudySettings:
    """How runs are opened, and where their learner without words comes from."""

    plain: Path | None = None  # a saved run; None: it is trained
    words_file: Path | None = None
    backbone: str | Backbone | None = None
    device: str = "auto"
    cache: bool = True
    strict: bool = False


def read_runs(folders: Sequence[Path]) -> list[SavedPrompt]:
    """Returns saved runs that have words, each given once."""
    every, seen = [read_run(folder) for folder in folders], dict[str, Path]()
    for folder, saved in zip(folders, every, strict=True):
        if not saved.words:
            raise ConfigError(f"The run {folder} has no words; there is nothing to rate.")
        if (mark := fingerprint(saved)) in seen:
            raise ConfigError(f"The runs {seen[mark]} and {folder} are the same prompt; give one.")
        seen[mark] = folder
    return every


def make_study(
    folders: Sequence[Path],
    data: Sequence[Path],
    making: StudySettings | None = None,
    reporter: Reporter = SILENT,
) -> tuple[Study, dict[str, bytes]]:
    """Returns the study of some runs, and its images by file name.

    `data` is one for all runs, or one for each. Runs of the same classes and data share a task:
    a word is asked once for all of them.
    """
    making = making or StudySettings()
    every = read_runs(folders)
    if len(data) not in (1, len(folders)):
        raise ConfigError(
            f"{len(data)} --data given for {len(folders)} run{'s' * (len(folders) > 1)}; give one "
            "for all, or one for each in the same order."
        )
    for path in data:
        if not path_exists(path):
            raise DataError(f"No such file or folder: {path}.")
    sources = list(data) * len(folders) if len(data) == 1 else list(data)
    maker = _Maker(making, reporter)
    runs = []
    for name, folder, saved, source in zip(
        run_names(folders), folders, every, sources, strict=True
    ):
        runs.append(maker.add(name, folder, saved, source))
    study = Study(
        seed=secrets.token_hex(16),
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        tasks=tuple(maker.tasks.values()),
        runs=tuple(runs),
    )
    return study, maker.thumbnails


class _Maker:
    """What the runs of a study share: backbones, tasks, learners without words."""

    def __init__(self, making: StudySettings, reporter: Reporter) -> None:
        self.making, self.reporter = making, reporter
        self.tasks: dict[str, RatingTask] = {}
        self.thumbnails: dict[str, bytes] = {}
        self._backbones: dict[str, Backbone] = {}
        self._plain: dict[str, Baseline] = {}

    def add(self, name: str, folder: Path, saved: SavedPrompt, data: Path) -> StudiedRun:
        subject, pool = self._open(folder, saved)
        drawn = redraw_shots(subject, data, self.making.strict, self.reporter)
        for note in (*subject.notes, *drawn.notes):
            self.reporter.warn(f"{name}: {note}")
        tokens = subject.learner.backbone.tokenize_words(pool.words)
        frequency, values = frequencies(pool, tokens)
        some = draw_words(pool, values, subject.words, 1)
        if not some:
            raise DataError(
                f"The run {folder} chose from {len(pool.words)} words; that is too few to draw "
                "random ones beside them."
            )
        plain = self._plain_of(subject, drawn)
        lists = {
            CHOSEN: subject.words,
            PLAIN: nearest_words(plain, pool, len(subject.words)),
            RANDOM: some[0],
        }
        key = f"{data.resolve()}\n{subject.classes}"
        asked = dict.fromkeys(word for words in lists.values() for word in words)
        self._ask(key, drawn.dataset, list(asked))
        return StudiedRun(
            name=name,
            fingerprint=fingerprint(saved),
            prompt=saved.prompt,
            task=list(self.tasks).index(key),
            lists=lists,
            plain=plain.how,
            frequency=frequency,
        )

    def _open(self, folder: Path, saved: SavedPrompt) -> tuple[LoadedRun, Pool]:
        making, key = self.making, str(sorted(saved.backbone.items()))
        given = self._backbones.get(key) or making.backbone
        how = (making.device, None, making.cache, self.reporter)
        subject = load_run(folder, given, *how)
        self._backbones[key] = model = subject.learner.backbone
        if subject.pool is None and making.words_file is not None:
            subject = load_run(folder, model, making.device, making.words_file, making.cache)
        if subject.pool is None:
            raise ConfigError(
                f"The run {folder} chose from a list of words that is not the bundled one: give "
                "--words-file."
            )
        return subject, subject.pool

    def _plain_of(self, subject: LoadedRun, drawn: RunShots) -> Baseline:
        if self.making.plain is not None:
            return read_baseline(subject, self.making.plain)
        saved, kind = subject.saved, type(subject.learner)
        same = ("seed", "views", "class_template")  # runs that have all this in common share one
        key = repr(
            (
                *(saved.learner, subject.classes, saved.placeholder, saved.backbone),
                baseline_recipe(kind, len(saved.words), saved.training),
                *(saved.training.get(name) for name in same),
                [str(item.path) for item in drawn.shots.items],
            )
        )
        if key not in self._plain:
            self._plain[key] = train_baseline(subject, drawn.shots, self.reporter)
        return self._plain[key]

    def _ask(self, key: str, dataset: Dataset, words: list[str]) -> None:
        """Adds words to a task, which is made when it is first asked for."""
        task = self.tasks.get(key)
        if task is None:
            shown = []
            for item in spread(dataset.train, THUMBNAILS):
                try:
                    data = small_jpeg(item.path, SIDE)
                except UnreadableImageError:
                    continue
                file = f"{secrets.token_hex(8)}.jpg"
                self.thumbnails[file] = data
                shown.append(RatingImages(file, dataset.class_names[item.label]))
            task = RatingTask(dataset.class_names, tuple(shown), {})
        new = [word for word in words if word not in task.items.values()]
        items = {**task.items, **{secrets.token_hex(8): word for word in new}}
        # In the order of their names, so that not even the file tells which word came first.
        self.tasks[key] = replace(task, items=dict(sorted(items.items())))


def nearest_words(plain: Baseline, pool: Pool, count: int) -> tuple[str, ...]:
    """Returns so many words near the soft vectors of a learner.

    First the nearest of each vector, those with the highest cosine before others, then the second
    nearest, and so on.
    """
    backbone = plain.learner.backbone
    rows = backbone.embed(backbone.tokenize_words(pool.words))
    near = [nearest(vector, rows, pool, count) for vector in plain.learner.soft.detach()]
    ranked = [sorted(place, key=lambda n: -n.cosine) for place in zip(*near, strict=True)]
    return tuple(dict.fromkeys(n.word for place in ranked for n in place))[:count]


def spread(items: Sequence[Item], most: int) -> list[Item]:
    """Returns some images of as many classes as can be, in the order of their classes."""
    stream, by_class = random.Random(0), dict[int, list[Item]]()
    for item in items:
        by_class.setdefault(item.label, []).append(item)
    classes = list(by_class.values())
    stream.shuffle(classes)
    for some in classes:
        stream.shuffle(some)
    turns = max((len(some) for some in classes), default=0)
    dealt = [some[turn] for turn in range(turns) for some in classes if turn < len(some)]
    return sorted(dealt[:most], key=lambda item: item.label)
