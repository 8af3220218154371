"""One run from beginning to end: data, fit, tests, and the record of it all."""

from __future__ import annotations

import gc
import json
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch

from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.known_images import note_known_images
from ipl.backbone.labelled_features import LabelledFeatures, draw_shots
from ipl.backbone.linear_probe import fit_linear_probe
from ipl.backbone.loading import load_backbone
from ipl.backbone.prefix_cache import MEMORY
from ipl.backbone.zero_shot import zero_shot_accuracy
from ipl.bench.arms import LINEAR_PROBE, WORDS_ONLY, ZERO_SHOT
from ipl.bench.data import BenchData, items_sha256
from ipl.bench.profile import UsageMonitor
from ipl.bench.protocols.protocol import Task
from ipl.bench.protocols.registry import find_protocol
from ipl.bench.record_writing import CHECKPOINTS, blank, one_sentence
from ipl.bench.records import DONE
from ipl.bench.run import Run
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset
from ipl.loggers import RunLog, log_run
from ipl.support.cache import Cache
from ipl.support.errors import BackboneError, ConfigError, DataError
from ipl.support.machine import available_memory
from ipl.support.progress import SILENT, Reporter
from ipl.training.fit import read_pool, word_choice

MEMORY_SHARE = 4  # a quarter of what is available is for crops of test images


@dataclass(frozen=True)
class RunEnvironment:
    """Where runs find their data and how they are computed; nothing here changes a result.

    Parameters
    ----------
    root : str
        The folder that contains the datasets.
    device : str
        auto, cpu, cuda, cuda:1, mps.
    memory : float
        GiB of working memory for the word search.
    cache : bool
        Whether features, words and unfinished trainings are kept in the cache.
    profile : bool
        Whether the utilisation of the device is sampled.
    paths : mapping
        The absolute paths of the user's own datasets, by name.
    log_to : sequence of str
        Where each run is logged, such as `tensorboard:DIR`.
    jobs : int
        The processes of the machine that share its memory.
    keeps_crops : bool
        Whether crops of all images stay in memory, because a later run prompts images.
    """

    root: str
    device: str = "auto"
    memory: float = MEMORY
    cache: bool = True
    profile: bool = False
    paths: Mapping[str, str] = field(default_factory=dict)
    log_to: Sequence[str] = ()
    jobs: int = 1
    keeps_crops: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "log_to", tuple(self.log_to))  # JSON knows only lists

    def as_dict(self) -> dict[str, Any]:
        """Returns everything as plain values for JSON."""
        return asdict(self)


class Runner:
    """Does runs in this process, and keeps the backbone, the dataset and its features between them.

    Parameters
    ----------
    environment : RunEnvironment
        Where the data is, and how to compute.
    reporter : Reporter
        Hears how far a run has come, and its warnings.
    datasets : mapping, optional
        Datasets that have been read, by name; others are read from the root of the environment.
    """

    def __init__(
        self,
        environment: RunEnvironment,
        reporter: Reporter = SILENT,
        datasets: Mapping[str, Dataset] | None = None,
    ) -> None:
        self.environment, self.reporter = environment, reporter
        self._datasets = dict(datasets or {})
        self._backbone: tuple[tuple[str, str], Backbone] | None = None
        self._store: tuple[str, FeatureStore] | None = None
        self._data: dict[str, BenchData] = {}

    def backbone(self, run: Run) -> Backbone:
        """Returns the backbone of a run, loaded once for all that share it."""
        key = (run.backbone, run.precision)
        if self._backbone is None or self._backbone[0] != key:
            self._backbone = None  # before the next one needs the memory
            self.forget()
            try:
                backbone = load_backbone(run.backbone, self.environment.device, run.precision)
            except ConfigError as error:  # the device
                raise BackboneError(str(error)) from error
            self._backbone = key, backbone
        return self._backbone[1]

    def forget(self) -> None:
        """Lets go of datasets and features."""
        self._store, self._data = None, {}
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def record(self, run: Run) -> dict[str, Any]:
        """Returns the record of a run; that of a run that failed contains its error.

        Raises
        ------
        BackboneError
            If the backbone or the device is missing, which is no fault of the run.
        """
        return self.fit(run)[0]

    def fit(self, run: Run) -> tuple[dict[str, Any], PromptClassifier | None]:
        """Returns the record of a run and its fitted classifier.

        The classifier is None if the run failed, or trains nothing.
        """
        record, classifier = blank(run), None
        try:
            record = blank(run, self.backbone(run))
            with log_run(self.environment.log_to, run.id, run.as_values(), self.reporter) as log:
                result, classifier = self._result(run, log)
                record |= {**result, "status": DONE}
                _log_record(log, run, record)
            record["notes"] = list(dict.fromkeys([*record["notes"], *log.problems]))
        except BackboneError:
            raise
        except Exception as error:  # the grid continues, whatever became of this run
            record |= {"error": one_sentence(error), "traceback": traceback.format_exc()}
        if record["error"]:  # out here the error is gone, and the tensors its frames held
            self.forget()
        return record, classifier

    def _result(self, run: Run, log: Reporter) -> tuple[dict[str, Any], PromptClassifier | None]:
        """Returns the results of a run by the record's names, and the classifier."""
        store = self._features(run)
        task = self.task(run)
        datasets = [self._data[name] for name in (run.dataset, *run.targets)]
        started = time.perf_counter()
        tests = {name: _TestSet(test, store, log) for name, test in task.tests.items()}
        encoding = time.perf_counter() - started
        classifier = None
        if run.arm == ZERO_SHOT:
            result = self._zero_shot(run, tests, store)
        elif run.arm == LINEAR_PROBE:
            result = self._linear_probe(run, task, tests, store)
        elif run.arm == WORDS_ONLY:
            result = self._words_only(run, task, tests, store, log)
        else:
            result, classifier = self._fitted(run, task, tests, store, log)
        result["seconds"]["test"] += encoding
        notes = [note for data in datasets for note in data.notes]
        notes += [note for test in tests.values() for note in test.notes]
        for data in datasets:
            notes += note_known_images(run.backbone, data.dataset.class_names)
        result["data"] = {
            "classes": {name: len(test.dataset.class_names) for name, test in tests.items()},
            "test_images": {name: test.readable for name, test in tests.items()},
            "missing_images": {data.dataset.name: len(data.missing) for data in datasets},
            "unreadable_images": {name: test.unreadable for name, test in tests.items()},
            "train_images": 0 if run.arm == ZERO_SHOT else len(task.training.train),
            "split_sha256": datasets[0].sha256,
            "shots_sha256": items_sha256(task.training.train, datasets[0].root),
            "target_sha256": {data.dataset.name: data.sha256 for data in datasets[1:]},
            "test_sha256": items_sha256(
                (item for test in task.tests.values() for item in test.test), datasets[0].root
            ),
        }
        result["notes"] = list(dict.fromkeys([*result["notes"], *notes]))
        return result, classifier

    def _features(self, run: Run) -> FeatureStore:
        """Returns the store that all runs of a dataset share."""
        if self._store is None or self._store[0] != run.dataset:
            self.forget()
            cache = Cache(reporter=self.reporter) if self.environment.cache else None
            store = FeatureStore(
                self.backbone(run),
                cache,
                crop_bytes=available_memory() // MEMORY_SHARE // self.environment.jobs,
                keeps_crops=self.environment.keeps_crops,
            )
            self._store = run.dataset, store
        return self._store[1]

    def task(self, run: Run) -> Task:
        """Returns what a run trains on and is tested on; datasets are read once."""
        root, paths = self.environment.root, self.environment.paths
        for name in (run.dataset, *run.targets):
            if name not in self._data:
                dataset = self._datasets.get(name)
                self._data[name] = (
                    BenchData.of(dataset, root)
                    if dataset
                    else BenchData.read(name, root, paths.get(name))
                )
        targets = {name: self._data[name].dataset for name in run.targets}
        dataset = self._data[run.dataset].dataset
        return find_protocol(run.protocol).task(dataset, targets, run.shots, run.seed)

    def _zero_shot(
        self, run: Run, tests: Mapping[str, _TestSet], store: FeatureStore
    ) -> dict[str, Any]:
        templates = run.settings["templates"]
        with self._measured(store) as measured:
            accuracy = {
                name: zero_shot_accuracy(
                    test.dataset, store, templates.get(name, templates[run.dataset])
                )
                for name, test in tests.items()
            }
        return {"prompt": templates[run.dataset], "accuracy": accuracy, **measured}

    def _linear_probe(
        self, run: Run, task: Task, tests: Mapping[str, _TestSet], store: FeatureStore
    ) -> dict[str, Any]:
        """Returns the accuracy on the test sets whose classes it was trained on."""
        shots, names = self._shots(run, task, store), task.training.class_names
        accuracy = {}
        with self._measured(store) as measured:
            probe = fit_linear_probe(shots.features, shots.labels, len(names), run.seed)
            for name, test in tests.items():
                if set(test.dataset.class_names) <= set(names):
                    columns = [names.index(each) for each in test.dataset.class_names]
                    images = store.encode([item.path for item in test.dataset.test])
                    guesses = probe.logits(images.features)[:, columns].argmax(1).cpu()
                    labels = torch.tensor([item.label for item in test.dataset.test])
                    accuracy[name] = float((guesses == labels).double().mean())
        return {"accuracy": accuracy, **measured}

    def _words_only(
        self,
        run: Run,
        task: Task,
        tests: Mapping[str, _TestSet],
        store: FeatureStore,
        log: Reporter,
    ) -> dict[str, Any]:
        """Returns the accuracy of the sentence that chose the words, as a hand-made prompt."""
        shots, config, backbone = self._shots(run, task, store), run.config, store.backbone
        config = replace(config, memory=self.environment.memory)
        choice = word_choice(config, read_pool(config, backbone, self.reporter))
        cache = Cache(reporter=self.reporter) if self.environment.cache else None
        with self._measured(store) as measured:
            selection = choice.choose(
                backbone,
                task.training.class_names,
                shots,
                int(run.words),
                cache,
                store,
                log,
            )
            prompt = choice.template.full("{}", selection.words)
            accuracy = {
                name: zero_shot_accuracy(test.dataset, store, prompt)
                for name, test in tests.items()
            }
        return {
            "chosen": list(selection.words),
            "prompt": prompt,
            "accuracy": accuracy,
            "selection": selection.as_dict(),
            **measured,
        }

    def _shots(self, run: Run, task: Task, store: FeatureStore) -> LabelledFeatures:
        """Returns the training images in the order in which a fit draws them."""
        _check_shots(task.training, store)
        return draw_shots(task.training, run.shots, run.seed, store)[0]

    @contextmanager
    def _measured(self, store: FeatureStore) -> Iterator[dict[str, Any]]:
        """Yields what a record says about the cost of its block, once the block has ended."""
        measured: dict[str, Any] = {}
        started = time.perf_counter()
        with UsageMonitor(store.backbone.device, self.environment.profile) as usage:
            yield measured
        measured |= {
            "seconds": {"fit": 0.0, "test": time.perf_counter() - started},
            "peak_memory": usage.peak_memory,
            "profile": usage.profile,
            "notes": usage.notes,
        }

    def _fitted(
        self,
        run: Run,
        task: Task,
        tests: Mapping[str, _TestSet],
        store: FeatureStore,
        log: Reporter,
    ) -> tuple[dict[str, Any], PromptClassifier]:
        _check_shots(task.training, store)
        environment = self.environment
        settings = run.config.as_dict() | {"backbone": store.backbone}
        settings |= {"memory": environment.memory, "cache": environment.cache}
        classifier, warned = PromptClassifier(**settings, reporter=log), len(log.warnings)
        started = time.perf_counter()
        with UsageMonitor(store.backbone.device, environment.profile) as usage:
            classifier.fit(task.training, features=store)
        trained = time.perf_counter()
        notes = [*log.warnings[warned:], *usage.notes]  # all notes of a fit are warnings, too
        scores = {
            name: classifier.with_classes(test.dataset).score(test.dataset, features=store)
            for name, test in tests.items()
        }
        result, selection = classifier.result_, classifier.selection_
        record = {
            "chosen": classifier.words_,
            "prompt": classifier.prompt_,
            "accuracy": scores,
            "train_accuracy": result.train_accuracy,
            "words_tried": result.results["words_tried"],
            "history": result.history.as_dict(),
            "selection": selection.as_dict() if selection else None,
            "seconds": {"fit": trained - started, "test": time.perf_counter() - trained},
            "peak_memory": usage.peak_memory,
            "profile": usage.profile,
            "notes": notes,
            CHECKPOINTS: list(result.checkpoints),
        }
        return record, classifier


class _TestSet:
    """A test set without the images that cannot be read, and a sentence on those."""

    def __init__(self, dataset: Dataset, store: FeatureStore, reporter: Reporter) -> None:
        images = store.encode([item.path for item in dataset.test], reporter)
        self.dataset = replace(dataset, test=tuple(dataset.test[index] for index in images.indices))
        self.readable, self.unreadable = len(images.indices), len(images.unreadable)
        self.notes: tuple[str, ...] = ()
        if images.unreadable:
            self.notes = (
                f"{dataset.name}: {len(images.unreadable):,} of {len(dataset.test):,} test images "
                f"cannot be read, first: {images.unreadable[0]}; accuracies are over the rest.",
            )
        if not images.indices:
            raise DataError(f"{dataset.name}: none of its test images can be read.")


def _log_record(log: RunLog, run: Run, record: Mapping[str, Any]) -> None:
    """Logs the accuracies and the prompt of a finished run, and its record as a file."""
    log.log_accuracies(find_protocol(run.protocol).scores(record["accuracy"]))
    if record.get("prompt"):
        log.log_text("result/prompt", record["prompt"])
    saved = {name: value for name, value in record.items() if name != CHECKPOINTS}
    log.log_file("record.json", json.dumps(saved, indent=2).encode())


def _check_shots(training: Dataset, store: FeatureStore) -> None:
    """Raises DataError unless every shot can be read: with others it is another experiment."""
    unreadable = store.encode([item.path for item in training.train]).unreadable
    if unreadable:
        raise DataError(
            f"{training.name}: {len(unreadable):,} of the {len(training.train):,} training images "
            f"that were drawn cannot be read, first: {unreadable[0]}."
        )
