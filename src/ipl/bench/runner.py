"""One run from beginning to end: data, fit, tests, and the record of it all."""

from __future__ import annotations

import gc
import time
import traceback
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.loading import load_backbone
from ipl.backbone.prefix_cache import MEMORY
from ipl.backbone.zero_shot import zero_shot_accuracy
from ipl.bench.data import BenchData, items_sha256
from ipl.bench.plan import BASE_TO_NOVEL, ZERO_SHOT
from ipl.bench.profile import Watch
from ipl.bench.records import blank, one_sentence
from ipl.bench.run import Run
from ipl.bench.tasks import Task, base_to_novel_task, transfer_task
from ipl.datasets.dataset import Dataset
from ipl.support.cache import Cache
from ipl.support.errors import BackboneError, ConfigError, DataError
from ipl.support.progress import SILENT, Reporter
from ipl.words.pool import Pool


@dataclass(frozen=True)
class RunEnvironment:
    """Where runs find their data and how they are computed; nothing here changes a result."""

    root: str
    device: str = "auto"
    memory: float = MEMORY  # GiB, of the word search
    cache: bool = True
    profile: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Returns everything as plain values for JSON."""
        return asdict(self)


class Runner:
    """What a process keeps between runs: the backbone, and the dataset it is at, with features."""

    def __init__(self, place: RunEnvironment, reporter: Reporter = SILENT) -> None:
        self.place, self.reporter = place, reporter
        self._backbone: tuple[tuple[str, str], Backbone] | None = None
        self._store: tuple[str, FeatureStore] | None = None
        self._opened: dict[str, BenchData] = {}

    def backbone(self, run: Run) -> Backbone:
        """Returns the backbone of a run, loaded once for all that share it."""
        wanted = (run.backbone, run.precision)
        if self._backbone is None or self._backbone[0] != wanted:
            self._backbone = None  # before the next one needs the room
            self.forget()
            try:
                backbone = load_backbone(run.backbone, self.place.device, run.precision)
            except ConfigError as error:  # the device
                raise BackboneError(str(error)) from error
            self._backbone = wanted, backbone
        return self._backbone[1]

    def forget(self) -> None:
        """Lets go of datasets and features."""
        self._store, self._opened = None, {}
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def record(self, run: Run) -> dict[str, Any]:
        """Returns the record of a run; one that fails has its error in it.

        A backbone or device that is not there is no run's own failure, and raises BackboneError.
        """
        record = blank(run)
        try:
            record = blank(run, self.backbone(run))
            record |= {**self._result(run), "status": "done"}
        except BackboneError:
            raise
        except Exception as error:  # the grid goes on, whatever became of this run
            record |= {"error": one_sentence(error), "traceback": traceback.format_exc()}
        if record["error"]:  # out here the error is gone, and the tensors its frames held
            self.forget()
        return record

    def _result(self, run: Run) -> dict[str, Any]:
        """Returns what a run found out, by the record's names."""
        store = self._features(run)
        task = self._task(run)
        started = time.perf_counter()
        tests = {name: _Test(test, store) for name, test in task.tests.items()}
        looked = time.perf_counter() - started
        if run.learner == ZERO_SHOT:
            result = self._zero_shot(run, tests, store)
        else:
            result = self._learnt(run, task, tests, store)
        result["seconds"]["test"] += looked
        opened = [self._opened[name] for name in (run.dataset, *run.targets)]
        notes = [note for one in opened for note in one.notes]
        notes += [note for test in tests.values() for note in test.notes]
        data = {
            "classes": {name: len(test.dataset.class_names) for name, test in tests.items()},
            "test_images": {name: test.readable for name, test in tests.items()},
            "missing_images": {one.dataset.name: len(one.missing) for one in opened},
            "unreadable_images": {name: test.unreadable for name, test in tests.items()},
            "train_images": 0 if run.learner == ZERO_SHOT else len(task.learn.train),
            "split_sha256": opened[0].sha256,
            "shots_sha256": items_sha256(task.learn.train, self.place.root),
            "target_sha256": {one.dataset.name: one.sha256 for one in opened[1:]},
        }
        return {**result, "data": data, "notes": list(dict.fromkeys([*result["notes"], *notes]))}

    def _features(self, run: Run) -> FeatureStore:
        """Returns the store that all runs of a dataset share."""
        if self._store is None or self._store[0] != run.dataset:
            self.forget()
            cache = Cache(reporter=self.reporter) if self.place.cache else None
            self._store = run.dataset, FeatureStore(self.backbone(run), cache)
        return self._store[1]

    def _task(self, run: Run) -> Task:
        for name in (run.dataset, *run.targets):
            if name not in self._opened:
                self._opened[name] = BenchData.read(name, self.place.root)
        source = self._opened[run.dataset].dataset
        if run.protocol == BASE_TO_NOVEL:
            return base_to_novel_task(source, run.shots, run.seed)
        targets = {name: self._opened[name].dataset for name in run.targets}
        return transfer_task(run.protocol, source, targets, run.shots, run.seed)

    def _zero_shot(self, run: Run, tests: dict[str, _Test], store: FeatureStore) -> dict[str, Any]:
        templates = run.settings["templates"]
        started = time.perf_counter()
        with Watch(store.backbone.device, self.place.profile) as watch:
            accuracy = {
                name: zero_shot_accuracy(
                    test.dataset, store, templates.get(name, templates[run.dataset])
                )
                for name, test in tests.items()
            }
        return {
            "prompt": templates[run.dataset],
            "accuracy": accuracy,
            "seconds": {"fit": 0.0, "test": time.perf_counter() - started},
            "peak_memory": watch.peak_memory,
            "profile": watch.profile,
            "notes": watch.notes,
        }

    def _learnt(
        self, run: Run, task: Task, tests: dict[str, _Test], store: FeatureStore
    ) -> dict[str, Any]:
        _check_shots(task.learn, store)
        classifier = run.classifier(
            backbone=store.backbone,
            memory=self.place.memory,
            cache=self.place.cache,
            pool=_pool(run, store.backbone),
            reporter=self.reporter,
        )
        started = time.perf_counter()
        with Watch(store.backbone.device, self.place.profile) as watch:
            classifier.fit(task.learn, features=store)
        fitted = time.perf_counter()
        notes = [*classifier.notes_, *watch.notes]
        used = classifier.learner_.backbone
        if used is not store.backbone:  # what overflows is trained again in a wider precision
            notes.append(f"It overflowed in {run.precision} and was learnt in {used.precision}.")
            store = FeatureStore(used)
        accuracy = {
            name: classifier.with_classes(test.dataset).score(test.dataset, features=store)
            for name, test in tests.items()
        }
        result, selection = classifier.result_, classifier.selection_
        return {
            "chosen": classifier.words_,
            "prompt": classifier.prompt_,
            "accuracy": accuracy,
            "train_accuracy": result.train_accuracy,
            "words_tried": result.results["words_tried"],
            "history": result.history.as_dict() if result.history else None,
            "selection": selection.as_dict() if selection else None,
            "seconds": {"fit": fitted - started, "test": time.perf_counter() - fitted},
            "peak_memory": watch.peak_memory,
            "profile": watch.profile,
            "notes": notes,
        }


class _Test:
    """A test set without the images that cannot be read, and a sentence on those."""

    def __init__(self, dataset: Dataset, store: FeatureStore) -> None:
        seen = store.encode([item.path for item in dataset.test])
        self.dataset = replace(dataset, test=tuple(dataset.test[index] for index in seen.indices))
        self.readable, self.unreadable = len(seen.indices), len(seen.unreadable)
        self.notes: tuple[str, ...] = ()
        if seen.unreadable:
            self.notes = (
                f"{dataset.name}: {len(seen.unreadable):,} of {len(dataset.test):,} test images "
                f"cannot be read, first: {seen.unreadable[0]}; accuracies are over the rest.",
            )
        if not seen.indices:
            raise DataError(f"{dataset.name}: none of its test images can be read.")


def _check_shots(learn: Dataset, store: FeatureStore) -> None:
    """Raises DataError unless every shot can be read: with others it is another experiment."""
    unreadable = store.encode([item.path for item in learn.train]).unreadable
    if unreadable:
        raise DataError(
            f"{learn.name}: {len(unreadable):,} of the {len(learn.train):,} training images that "
            f"were drawn cannot be read, first: {unreadable[0]}."
        )


def _pool(run: Run, backbone: Backbone) -> Pool | None:
    """Returns the candidates that a run asks for; None is the bundled pool."""
    wanted = run.settings.get("pool")
    if wanted is None:
        return None
    pool = None
    if wanted["words_file"] is not None:
        pool, _ = Pool.from_file(wanted["words_file"], backbone.tokenizer)
    return (pool or Pool.bundled()).without_names() if wanted["no_names"] else pool
