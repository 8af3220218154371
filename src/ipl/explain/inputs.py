"""What a report is made from: a saved run, the images to measure it on, what sections share."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.features import FeatureStore
from ipl.backbone.labelled_features import LabelledFeatures, encode_items
from ipl.backbone.zero_shot import zero_shot_logits
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset, Item, findings_on
from ipl.datasets.readers import read_dataset
from ipl.display.formatting import first_few
from ipl.learners.learner import Learner
from ipl.support.cache import Cache
from ipl.support.errors import DataError
from ipl.support.progress import SILENT, Reporter
from ipl.training.chosen_images import choose_images, find_shots
from ipl.training.comparison import Comparison
from ipl.training.result import FitResult
from ipl.words.lexicon import Tokenizer
from ipl.words.pool import PARTS, Pool
from ipl.words.selection import Selection

if TYPE_CHECKING:
    from ipl.explain.effects import WordEffects


@dataclass(frozen=True)
class LoadedRun:
    """A saved run, for the classes that it was trained on, and its pool of words."""

    folder: Path  # or owner/name on the hub
    classifier: PromptClassifier
    pool: Pool | None  # None: the run chose from a word list that is not available
    store: FeatureStore

    @property
    def result(self) -> FitResult:
        return self.classifier.result_

    @property
    def learner(self) -> Learner:
        return self.classifier.learner_

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes it was trained on; the saved prompt may classify others."""
        return self.result.trained_classes

    @property
    def words(self) -> tuple[str, ...]:
        return self.result.words

    @property
    def selection(self) -> Selection | None:
        return self.result.selection

    @property
    def candidates(self) -> Pool:
        """The run's pool, else the bundled one."""
        return self.pool or Pool.bundled().for_tokenizer(self.learner.backbone.tokenizer)

    @property
    def notes(self) -> tuple[str, ...]:
        """A note if the prompt was saved for other classes than it was trained on."""
        if set(self.result.classes) == set(self.classes):
            return ()
        return (
            f"This prompt was saved for {first_few(self.result.classes)}; all results are about "
            f"the classes it was trained on: {first_few(self.classes)}.",
        )

    def zero_shot(self, classes: Sequence[str], features: Tensor) -> Tensor:
        """Log-probabilities (images, classes) of the backbone with a hand-written prompt."""
        template = self.result.config.class_template
        logits = zero_shot_logits(self.learner.backbone, classes, features, template)
        return logits.cpu().double().log_softmax(1)


def load_run(
    folder: Path,
    backbone: str | Backbone | None = None,
    device: str = "auto",
    words_file: Path | None = None,
    cache: bool = True,
    reporter: Reporter = SILENT,
) -> LoadedRun:
    """Load a saved run on its backbone."""
    classifier = PromptClassifier.from_pretrained(folder, backbone, device)
    result, learner = classifier.result_, classifier.learner_
    if result.classes != result.trained_classes:
        learner = learner.rebuilt(class_names=result.trained_classes)
        classifier.result_ = replace(result, learner=learner)
    pool = _find_pool(learner.backbone.tokenizer, result, words_file)
    store = FeatureStore(learner.backbone, Cache(reporter=reporter) if cache else None)
    return LoadedRun(folder, classifier, pool, store)


def _find_pool(tokenizer: Tokenizer, result: FitResult, words_file: Path | None) -> Pool | None:
    """The pool that the words were chosen from, identified by its hash."""
    selection = result.selection
    if selection is None:
        return Pool.bundled().for_tokenizer(tokenizer)
    given = None if words_file is None else Pool.from_file(words_file, tokenizer)[0]
    whole = given or Pool.bundled()
    for name in PARTS:
        pool = whole.part(name, result.trained_classes).for_tokenizer(tokenizer)
        if pool.sha256 == selection.pool_sha256:
            return pool
    if given is None:
        return None
    raise DataError(
        f"The word list {words_file} is not the one this run chose from: its hash is "
        f"{given.sha256[:12]}, the run's is {selection.pool_sha256[:12]}."
    )


# -- its images ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunImages:
    """Labelled data as a run sees it: the images of its training, and those to measure it on."""

    source: str
    shots: LabelledFeatures | None  # None if the source does not have all of them
    test: LabelledFeatures  # the held-out images, or as many as were asked for
    features: Tensor  # of the test images, as the run's learner encodes them
    prompt: Tensor  # log-probabilities (test images, classes) of the prompt alone
    learnt: Tensor  # those of the prompt with its head, if it has one
    left_out: int  # test images beyond the limit
    notes: tuple[str, ...]


def find_images(
    run: LoadedRun,
    data: Path,
    limit: int | None = None,
    reporter: Reporter = SILENT,
) -> RunImages:
    """Find the images of a run's training, by their hashes, and classify the held-out ones.

    With a `limit`, so many of these are drawn at random.
    """
    result, store = run.result, run.store
    dataset = read_dataset(data, result.config.held_out, to_test=True)
    dataset = _of_classes(dataset, run.classes, run.folder)
    chosen = choose_images(result, dataset, result.config.held_out, store, reporter=reporter)
    shots, notes = None, (*dataset.notes, *chosen.notes)
    if (shot_items := find_shots(result, dataset.train, store)) is not None:
        shots = encode_items(shot_items, "training", store, reporter)
        notes += shots.notes
    else:
        other = "This is not the data that the prompt was trained on, or it has changed since"
        notes += (f"{other}: the images looked at are {chosen.images_from}.",)
    labels = {item.label for item in chosen.items}
    if absent := [name for label, name in enumerate(run.classes) if label not in labels]:
        notes += (f"No such image is of {first_few(absent)}; these classes compete all the same.",)
    items = list(chosen.items)
    if limit is not None and len(items) > limit:
        items = [items[i] for i in sorted(random.Random(0).sample(range(len(items)), limit))]
    test = encode_items(items, "held-out", store, reporter)
    if not test.items:
        raise DataError(
            f"{data} has no readable image that {run.folder.name} was not trained on. "
            "Without --data, what is saved with the run is shown."
        )
    features = run.learner.features_of(test)
    return RunImages(
        source=str(data),
        shots=shots,
        test=test,
        features=features,
        prompt=run.learner.log_probabilities(features),
        learnt=run.classifier.log_probabilities(features),
        left_out=len(chosen.items) - len(items),
        notes=(*notes, *test.notes),
    )


def _of_classes(whole: Dataset, classes: tuple[str, ...], folder: Path) -> Dataset:
    """The data of a run's classes, with its labels."""
    if whole.class_names == classes:
        return whole
    labels = {name: label for label, name in enumerate(classes) if name in whole.class_names}
    if not labels:
        raise DataError(
            f"{whole.display_name} has none of the classes that {folder} was trained on: "
            f"{first_few(classes)}."
        )

    def relabel(items: tuple[Item, ...]) -> tuple[Item, ...]:
        names = ((item, whole.class_names[item.label]) for item in items)
        found = [Item(item.path, labels[name]) for item, name in names if name in labels]
        return tuple(sorted(found, key=lambda item: item.label))

    train, test = relabel(whole.train), relabel(whole.test)
    others = findings_on(
        "other class",
        (name for name in whole.class_names if name not in labels),
        "its images are left out",
    )
    return replace(
        whole, class_names=classes, train=train, test=test, findings=(*whole.findings, *others)
    )


# -- what the sections share --------------------------------------------------------------------


@dataclass(frozen=True)
class ReportData:
    """The run, its images and what several sections need; without images only what is saved."""

    run: LoadedRun
    comparison: Comparison | None  # computed now, else as saved with the run
    resamples: int = 5  # draws of the training images for which words are chosen again
    images: RunImages | None = None
    effects: WordEffects | None = None
    reporter: Reporter = SILENT
