"""One run from beginning to end: data, fit, tests, and the record of it all."""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from ipl.backbone.backbone import Backbone
from ipl.backbone.features import FeatureStore
from ipl.backbone.known_images import note_known_images
from ipl.backbone.labelled_features import LabelledFeatures, draw_shots
from ipl.backbone.linear_probe import fit_linear_probe
from ipl.backbone.loading import load_backbone
from ipl.backbone.zero_shot import zero_shot_accuracy
from ipl.bench.arms import LINEAR_PROBE, WORDS_ONLY, ZERO_SHOT
from ipl.bench.data import BenchData, items_sha256, task_of
from ipl.bench.profile import measure
from ipl.bench.protocols.protocol import Task
from ipl.bench.records import RunRecord
from ipl.bench.run import Run
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset
from ipl.loggers import log_run
from ipl.support.cache import Cache
from ipl.support.errors import BackboneError, ConfigError, DataError, IplError, first_line
from ipl.support.machine import available_memory
from ipl.support.progress import SILENT, Reporter
from ipl.training.fit import read_pool, search_settings
from ipl.training.schedule import SEARCHED

MEMORY_SHARE = 4  # a quarter of what is available is for crops of test images
TRAINED_BEFORE = "The prompt was trained by an earlier run; its times are those of that training."


@dataclass(frozen=True)
class RunEnvironment:
    """Where runs find their data and how they are computed; nothing here changes a result."""

    root: str  # the folder that contains the published datasets
    device: str = "auto"
    cache: bool = True  # of features, words and unfinished trainings
    profile: bool = False
    paths: Mapping[str, str] = field(default_factory=dict)  # of the user's own datasets, by name
    log_to: Sequence[str] = ()
    jobs: int = 1  # processes that share the machine's memory
    keeps_crops: bool = False  # of all images, because a later run prompts images
    prompts: str = ""  # the folder of trained prompts that several runs test; empty for none
    keeps_prompts: bool = False  # those of all other runs, too
    weights_sha256: str = ""  # what the hash of the backbone's weights must be; empty for any


class Runner:
    """Does runs in this process, and keeps the backbone, the dataset and its features between."""

    def __init__(self, environment: RunEnvironment, reporter: Reporter = SILENT) -> None:
        self.environment, self.reporter = environment, reporter
        self._backbone: tuple[tuple[str, str], Backbone] | None = None
        self._store: tuple[str, FeatureStore] | None = None
        self._data: dict[str, BenchData] = {}

    def backbone(self, run: Run) -> Backbone:
        """The backbone of a run, loaded once for all that share it."""
        name, precision = key = (run.config.backbone, run.config.precision)
        if self._backbone is None or self._backbone[0] != key:
            self._backbone = None  # before the next one needs the memory
            self.forget()
            try:
                backbone = load_backbone(name, self.environment.device, precision)
            except ConfigError as error:  # the device
                raise BackboneError(str(error)) from error
            wanted = self.environment.weights_sha256
            if wanted and backbone.weights_sha256 != wanted:
                raise BackboneError(
                    f"The weights of {name} have the SHA-256 {backbone.weights_sha256}, "
                    f"not {wanted} (--weights-sha256)."
                )
            self._backbone = key, backbone
        return self._backbone[1]

    def forget(self) -> None:
        """Lets go of datasets and features."""
        self._store, self._data = None, {}
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def execute(self, run: Run) -> RunRecord:
        """Execute a run; its record, which `run_grid` writes, has the error of one that failed.

        A missing backbone or device is no fault of the run: BackboneError.
        """
        checked = bool(self.environment.weights_sha256)
        record = RunRecord.failed(run, "", self.backbone(run), checked)
        try:
            with log_run(self.environment.log_to, run.id, run.as_values(), self.reporter) as log:
                record = replace(record, **self._result(run, log), error=None)
                log.log_accuracies(run.rules.scores(record.accuracy))
                if record.prompt:
                    log.log({"result/prompt": record.prompt})
            return replace(record, notes=tuple(dict.fromkeys([*record.notes, *log.problems])))
        except BackboneError:
            raise
        except Exception as error:  # the grid continues, whatever became of this run
            failed = replace(record, error=one_sentence(error), traceback=traceback.format_exc())
        # Out here the error is gone, and the tensors its frames held.
        self.forget()
        return replace(failed, accuracy={})

    def _result(self, run: Run, log: Reporter) -> dict[str, Any]:
        """The results of a run by the record's names."""
        store = self._features(run)
        task = self.task(run)
        datasets = [self._data[name] for name in (run.dataset, *run.targets)]
        started = time.perf_counter()
        tests, notes = {}, [note for data in datasets for note in data.notes]
        for name, test in task.tests.items():
            tests[name], unreadable = _readable(test, store, log)
            notes += unreadable
        encoding = time.perf_counter() - started
        untrained = {
            ZERO_SHOT: self._zero_shot,
            LINEAR_PROBE: self._linear_probe,
            WORDS_ONLY: self._words_only,
        }
        prepared = PreparedRun(run, task.training, tests, store, log)
        result = untrained.get(run.arm, self._fitted)(prepared)
        seconds = {"fit": 0.0, "test": 0.0} | result["seconds"]
        result["seconds"] = {**seconds, "test": seconds["test"] + encoding}
        for data in datasets:
            notes += note_known_images(run.config.backbone, data.dataset.class_names)
        result["data"] = {
            "classes": {name: len(test.class_names) for name, test in tests.items()},
            "test_images": {name: len(test.test) for name, test in tests.items()},
            "missing_images": {data.dataset.name: len(data.missing) for data in datasets},
            "unreadable_images": {
                name: len(task.tests[name].test) - len(test.test) for name, test in tests.items()
            },
            "train_images": 0 if run.arm == ZERO_SHOT else len(task.training.train),
            "split_sha256": datasets[0].sha256,
            "shots_sha256": items_sha256(task.training.train, datasets[0].root),
            "target_sha256": {data.dataset.name: data.sha256 for data in datasets[1:]},
            "test_sha256": items_sha256(
                (item for test in task.tests.values() for item in test.test), datasets[0].root
            ),
        }
        return {**result, "notes": tuple(dict.fromkeys([*result["notes"], *notes]))}

    def _features(self, run: Run) -> FeatureStore:
        """The store that all runs of a dataset share."""
        if self._store is None or self._store[0] != run.dataset:
            self.forget()
            share = available_memory() // MEMORY_SHARE // self.environment.jobs
            crop_bytes = share if self.environment.keeps_crops else 0
            store = FeatureStore(self.backbone(run), self._cache(), crop_bytes=crop_bytes)
            self._store = run.dataset, store
        return self._store[1]

    def _cache(self) -> Cache | None:
        return Cache(reporter=self.reporter) if self.environment.cache else None

    def task(self, run: Run) -> Task:
        """What a run trains on and is tested on; datasets are read once."""
        root, paths = self.environment.root, self.environment.paths
        for name in (run.dataset, *run.targets):
            if name not in self._data:
                self._data[name] = BenchData.read(name, root, paths.get(name))
        return task_of(run, self._data)

    def _zero_shot(self, prepared: PreparedRun) -> dict[str, Any]:
        templates, own = prepared.run.settings["templates"], prepared.run.dataset
        with measure("test", prepared.store.backbone.device, self.environment.profile) as measured:
            accuracy = {
                name: zero_shot_accuracy(test, prepared.store, templates.get(name, templates[own]))
                for name, test in prepared.tests.items()
            }
        return {"prompt": templates[own], "accuracy": accuracy, **measured}

    def _linear_probe(self, prepared: PreparedRun) -> dict[str, Any]:
        """The accuracy on the test sets whose classes it was trained on."""
        shots, names, store = prepared.shots(), prepared.training.class_names, prepared.store
        accuracy = {}
        with measure("test", store.backbone.device, self.environment.profile) as measured:
            probe = fit_linear_probe(shots.features, shots.labels, len(names), prepared.run.seed)
            for name, test in prepared.tests.items():
                if set(test.class_names) <= set(names):
                    columns = [names.index(each) for each in test.class_names]
                    images = store.encode([item.path for item in test.test])
                    guesses = probe.logits(images.features)[:, columns].argmax(1).cpu()
                    labels = torch.tensor([item.label for item in test.test])
                    accuracy[name] = float((guesses == labels).double().mean())
        return {"accuracy": accuracy, **measured}

    def _words_only(self, prepared: PreparedRun) -> dict[str, Any]:
        """The accuracy of the sentence that chose the words, as a hand-made prompt."""
        run, store, names = prepared.run, prepared.store, prepared.training.class_names
        shots = prepared.shots().at_most(SEARCHED, run.config.seed)  # as a fit does
        pool = read_pool(run.config, store.backbone.tokenizer, names, self.reporter)
        search, cache = search_settings(run.config, pool), self._cache()
        with measure("test", store.backbone.device, self.environment.profile) as measured:
            selection = search.choose(
                store.backbone, names, shots, int(run.words), cache, store, prepared.log
            )
            prompt = search.template.full("{}", selection.words)
            accuracy = {
                name: zero_shot_accuracy(test, store, prompt)
                for name, test in prepared.tests.items()
            }
        found = {"chosen": selection.words, "prompt": prompt, "selection": selection}
        return {**found, "accuracy": accuracy, **measured}

    def _fitted(self, prepared: PreparedRun) -> dict[str, Any]:
        """The accuracy of a trained prompt."""
        store, folder = prepared.store, self._prompt_folder(prepared.run)
        if folder is not None and folder.is_dir():
            classifier = PromptClassifier.from_pretrained(
                folder, store.backbone, reporter=prepared.log
            )
            selection, history = classifier.selection_, classifier.result_.history
            search = sum(step.seconds for step in selection.steps) if selection else 0.0
            measured: dict[str, Any] = {"notes": [TRAINED_BEFORE]}
            measured["seconds"] = {"fit": history.seconds + search}
        else:
            classifier, measured = self._fit(prepared)
            if folder is not None:
                classifier.save_pretrained(folder)
        started = time.perf_counter()
        accuracy = {
            name: classifier.with_classes(test).score(test, store=store)
            for name, test in prepared.tests.items()
        }
        measured["seconds"]["test"] = time.perf_counter() - started
        result = classifier.result_
        return {
            "chosen": tuple(classifier.words_),
            "prompt": classifier.prompt_,
            "accuracy": accuracy,
            "train_accuracy": result.train_accuracy,
            "words_tried": tuple(result.results["words_tried"]),
            "history": result.history,
            "selection": classifier.selection_,
            "checkpoints": result.checkpoints,
            **measured,
        }

    def _fit(self, prepared: PreparedRun) -> tuple[PromptClassifier, dict[str, Any]]:
        """A trained classifier, and what the record says about its cost."""
        prepared.check_shots()
        settings = prepared.run.config.as_dict()
        settings |= {"backbone": prepared.store.backbone, "cache": self.environment.cache}
        classifier = PromptClassifier(**settings, reporter=prepared.log)
        warned = len(prepared.log.warnings)
        with measure("fit", prepared.store.backbone.device, self.environment.profile) as measured:
            classifier.fit(prepared.training, store=prepared.store, validation_fraction=0.0)
        measured["notes"] += prepared.log.warnings[warned:]  # all notes of a fit are warnings, too
        return classifier, measured

    def _prompt_folder(self, run: Run) -> Path | None:
        """Where the trained prompt of a run is kept; None if it is not."""
        shared = run.training != run.id
        if not self.environment.prompts or not (shared or self.environment.keeps_prompts):
            return None
        return Path(self.environment.prompts) / run.training


@dataclass(frozen=True)
class PreparedRun:
    """A run with its shots and its test sets, without the images that cannot be read."""

    run: Run
    training: Dataset
    tests: Mapping[str, Dataset]
    store: FeatureStore
    log: Reporter

    def check_shots(self) -> None:
        """Raises DataError unless every shot can be read: with others it is another experiment."""
        shots = self.training.train
        if unreadable := self.store.encode([item.path for item in shots]).unreadable:
            raise DataError(
                f"{self.training.name}: {len(unreadable):,} of the {len(shots):,} training images "
                f"that were drawn cannot be read, first: {unreadable[0]}."
            )

    def shots(self) -> LabelledFeatures:
        """The training images in the order in which a fit draws them."""
        self.check_shots()
        return draw_shots(self.training, self.run.shots, self.run.seed, self.store)


def _readable(
    dataset: Dataset, store: FeatureStore, reporter: Reporter
) -> tuple[Dataset, list[str]]:
    """A test set without the images that cannot be read, and a sentence on those."""
    images = store.encode([item.path for item in dataset.test], reporter)
    if not images.indices:
        raise DataError(f"{dataset.name}: none of its test images can be read.")
    notes = []
    if images.unreadable:
        notes.append(
            f"{dataset.name}: {len(images.unreadable):,} of {len(dataset.test):,} test images "
            f"cannot be read, first: {images.unreadable[0]}; accuracies are over the rest."
        )
    return replace(dataset, test=tuple(dataset.test[index] for index in images.indices)), notes


def one_sentence(error: Exception) -> str:
    """What went wrong, in a line."""
    if isinstance(error, IplError):
        return " ".join(line.strip() for line in str(error).strip().splitlines())
    line = first_line(error)
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return f"Out of memory ({line})."
    return f"{line}."
