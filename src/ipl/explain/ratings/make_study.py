"""Making a study: for each run its words, the baseline's nearest words, and random words."""

from __future__ import annotations

import random
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from ipl.backbone.backbone import Backbone
from ipl.backbone.labelled_features import LabelledFeatures
from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.images import UnreadableImageError, small_jpeg
from ipl.explain.baseline import Baseline, read_baseline, train_baseline
from ipl.explain.comparison import run_names
from ipl.explain.loaded_run import LoadedRun, load_run, redraw_shots
from ipl.explain.ratings.study import (
    CHOSEN,
    PLAIN,
    RANDOM,
    RatingImage,
    RatingTask,
    StudiedRun,
    Study,
    fingerprint,
)
from ipl.explain.vectors import nearest
from ipl.saving.format import read_run
from ipl.support.errors import ConfigError, DataError
from ipl.support.files import check_exists
from ipl.support.progress import SILENT, Reporter
from ipl.training.result import FitResult
from ipl.words.frequency import RandomWords
from ipl.words.pool import Pool

THUMBNAILS = 12
SIDE = 160  # pixels


@dataclass(frozen=True)
class StudySettings:
    """How runs are loaded, and where their learner without words comes from."""

    baseline: Path | None = None  # a saved run without words; None: it is trained
    words_file: Path | None = None
    backbone: str | Backbone | None = None
    device: str = "auto"
    cache: bool = True
    strict: bool = False


def read_runs(folders: Sequence[Path]) -> list[FitResult]:
    """Returns saved runs that have words, each given once."""
    runs, folder_of = [read_run(folder) for folder in folders], dict[str, Path]()
    for folder, result in zip(folders, runs, strict=True):
        if not result.words:
            raise ConfigError(f"The run {folder} has no words; there is nothing to rate.")
        if result.selection is None:
            raise ConfigError(
                f"The run {folder} cannot be rated, which compares chosen words with others: "
                f"{result.config.about_words}"
            )
        key = fingerprint(result)
        if key in folder_of:
            raise ConfigError(
                f"The runs {folder_of[key]} and {folder} are the same prompt; give one."
            )
        folder_of[key] = folder
    return runs


def make_study(
    folders: Sequence[Path],
    data: Sequence[Path],
    settings: StudySettings | None = None,
    reporter: Reporter = SILENT,
) -> tuple[Study, dict[str, bytes]]:
    """Make a study of saved runs, without writing it.

    Runs of the same classes and data share a task: a word is asked once for all of them.

    Parameters
    ----------
    folders : sequence of Path
        The folders of saved runs with words.
    data : sequence of Path
        The dataset of all runs, or one for each.
    settings : StudySettings, optional
        How runs are loaded, and where their learner without words comes from.
    reporter : Reporter
        Receives progress and messages.

    Returns
    -------
    tuple of Study and dict
        The study, and its images as JPEG files by name.

    Raises
    ------
    ConfigError
        If a run has no words or is given twice, or if the number of datasets does not fit.
    DataError
        If data does not exist, or the pool of a run is too small to draw random words from.
    """
    saved_runs = read_runs(folders)
    if len(data) not in (1, len(folders)):
        raise ConfigError(
            f"{len(data)} --data given for {len(folders)} run{'s' * (len(folders) > 1)}; give one "
            "for all, or one for each in the same order."
        )
    for path in data:
        check_exists(path)
    sources = list(data) * len(folders) if len(data) == 1 else list(data)
    builder = _StudyBuilder(settings or StudySettings(), reporter)
    runs = [
        builder.add(name, folder, result, source)
        for name, folder, result, source in zip(
            run_names(folders), folders, saved_runs, sources, strict=True
        )
    ]
    study = Study(
        seed=secrets.token_hex(16),
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        tasks=tuple(builder.tasks.values()),
        runs=tuple(runs),
    )
    return study, builder.thumbnails


class _StudyBuilder:
    """What the runs of a study share: backbones, tasks, learners without words."""

    def __init__(self, settings: StudySettings, reporter: Reporter) -> None:
        self.settings, self.reporter = settings, reporter
        self.tasks: dict[str, RatingTask] = {}
        self.thumbnails: dict[str, bytes] = {}
        self._backbones: dict[str, Backbone] = {}
        self._baselines: dict[str, Baseline] = {}

    def add(self, name: str, folder: Path, result: FitResult, data: Path) -> StudiedRun:
        """Returns a run with its three lists of words, having added them to its task."""
        run, pool = self._load(folder, result)
        run_shots = redraw_shots(run, data, self.settings.strict, self.reporter)
        for note in (*run.notes, *run_shots.notes):
            self.reporter.warn(f"{name}: {note}")
        tokens = run.learner.backbone.tokenize_words(pool.words)
        source = RandomWords(pool, tokens)
        try:
            random_words = source.draw(run.words, random.Random(0))
        except ConfigError:
            raise DataError(
                f"The run {folder} chose from {len(pool.words)} words; that is too few to draw "
                "random ones beside them."
            ) from None
        baseline = self._baseline_of(run, run_shots.shots, data)
        lists = {
            CHOSEN: run.words,
            PLAIN: nearest_words(baseline, pool, len(run.words)),
            RANDOM: random_words,
        }
        key = f"{data.resolve()}\n{run.classes}"
        distinct = dict.fromkeys(word for words in lists.values() for word in words)
        self._add_words(key, run_shots.dataset, list(distinct))
        return StudiedRun(
            name=name,
            fingerprint=fingerprint(result),
            prompt=result.prompt,
            task=list(self.tasks).index(key),
            lists=lists,
            plain=baseline.how,
            frequency=source.measure,
        )

    def _load(self, folder: Path, result: FitResult) -> tuple[LoadedRun, Pool]:
        settings, key = self.settings, str(sorted(result.backbone.items()))
        backbone = self._backbones.get(key) or settings.backbone
        run = load_run(folder, backbone, settings.device, None, settings.cache, self.reporter)
        self._backbones[key] = run.learner.backbone
        if run.pool is None and settings.words_file is not None:
            run = load_run(
                folder,
                run.learner.backbone,
                settings.device,
                settings.words_file,
                settings.cache,
            )
        if run.pool is None:
            raise ConfigError(
                f"The run {folder} chose from a list of words that is not the bundled one: give "
                "--words-file."
            )
        return run, run.pool

    def _baseline_of(self, run: LoadedRun, shots: LabelledFeatures | None, data: Path) -> Baseline:
        """Returns the learner without words; runs that would train the same one share it."""
        if self.settings.baseline is not None:
            return read_baseline(run, self.settings.baseline)
        if shots is None:
            raise DataError(
                f"The learner without words needs the images that {run.folder} was trained on, and "
                f"{data} does not have all of them; give that data, or --plain with a run without "
                "words."
            )
        paths = [str(item.path) for item in shots.items]
        key = repr((run.result.config.without_words(), run.result.backbone, run.classes, paths))
        if key not in self._baselines:
            self._baselines[key] = train_baseline(run, shots, self.reporter)
        return self._baselines[key]

    def _add_words(self, key: str, dataset: Dataset, words: list[str]) -> None:
        """Adds words to the task of a key, which is made when it is first needed."""
        task = self.tasks.get(key)
        if task is None:
            images = []
            for item in spread(dataset.train or dataset.test, THUMBNAILS):
                try:
                    data = small_jpeg(item.path, SIDE)
                except UnreadableImageError:
                    continue
                file = f"{secrets.token_hex(8)}.jpg"
                self.thumbnails[file] = data
                images.append(RatingImage(file, dataset.class_names[item.label]))
            task = RatingTask(dataset.class_names, tuple(images), {})
        new = [word for word in words if word not in task.items.values()]
        items = {**task.items, **{secrets.token_hex(8): word for word in new}}
        # Sorted by their random names, so that not even the file tells which word came first.
        self.tasks[key] = replace(task, items=dict(sorted(items.items())))


def nearest_words(baseline: Baseline, pool: Pool, count: int) -> tuple[str, ...]:
    """Returns the words nearest to the soft vectors of a learner.

    First the nearest of each vector, those with the highest cosine before others, then the second
    nearest, and so on.
    """
    backbone = baseline.learner.backbone
    embeddings = backbone.embed(backbone.tokenize_words(pool.words))
    near = [nearest(v, embeddings, pool, count) for v in baseline.learner.soft.detach()]
    by_rank = [sorted(words, key=lambda n: -n.cosine) for words in zip(*near, strict=True)]
    return tuple(dict.fromkeys(n.word for words in by_rank for n in words))[:count]


def spread(items: Sequence[Item], limit: int) -> list[Item]:
    """Returns some images of as many classes as possible, in the order of their classes."""
    stream, by_class = random.Random(0), dict[int, list[Item]]()
    for item in items:
        by_class.setdefault(item.label, []).append(item)
    classes = list(by_class.values())
    stream.shuffle(classes)
    for images in classes:
        stream.shuffle(images)
    rounds = max((len(images) for images in classes), default=0)
    dealt = [images[turn] for turn in range(rounds) for images in classes if turn < len(images)]
    return sorted(dealt[:limit], key=lambda item: item.label)
