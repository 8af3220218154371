"""A saved run with its learner, its pool of words, and the images it was trained on."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.labelled_features import LabelledFeatures, draw_shots, encode_items
from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.readers import read_dataset
from ipl.display.formatting import first_few, several
from ipl.learners.learner import Learner
from ipl.saving.format import read_run
from ipl.saving.restore import find_backbone, restore
from ipl.saving.run_folder import find_run
from ipl.support.cache import Cache
from ipl.support.errors import DataError
from ipl.support.progress import SILENT, Reporter
from ipl.training.fit import features_for
from ipl.training.result import FitResult
from ipl.training.trained_images import find_shots, find_trained, how_shots_differ
from ipl.words.choice import WordChoice
from ipl.words.modes import Search
from ipl.words.objective import Objective
from ipl.words.pool import Pool
from ipl.words.scorer import SentenceScorer
from ipl.words.selection import Selection
from ipl.words.template import Template


@dataclass(frozen=True)
class RunShots:
    """A run's dataset, with the shots as training drew them."""

    source: str
    dataset: Dataset  # only the run's classes
    novel: Dataset | None  # the other classes, if there are two or more
    classes: tuple[str, ...]  # all classes of the source, in its order
    shots: LabelledFeatures
    rest: tuple[Item, ...]  # training images that were not drawn
    notes: tuple[str, ...]
    same_shots: bool  # whether these are the images of the training
    drawn_again: bool  # whether drawing gives them; if not, the data has changed since


@dataclass(frozen=True)
class RunImages(RunShots):
    """A run's dataset with its shots and the held-out images."""

    test: LabelledFeatures
    features: Tensor  # of the test images, as the run's learner encodes them
    left_out: int  # test images beyond the limit


@dataclass(frozen=True)
class LoadedRun:
    """A saved run, its learner and, where known, its images and its pool of words."""

    folder: Path  # or owner/name on the hub
    result: FitResult
    learner: Learner
    selection: Selection | None
    pool: Pool | None  # None: the run chose from a word list that is not available
    store: FeatureStore
    run_images: RunImages | None = None

    @property
    def classes(self) -> tuple[str, ...]:
        """Returns the classes it was trained on; the saved prompt may classify others as well."""
        return tuple(self.learner.prompts.class_names)

    @property
    def notes(self) -> tuple[str, ...]:
        """Returns a note if the prompt was saved for other classes than it was trained on."""
        added = [name for name in self.result.classes if name not in self.classes]
        dropped = [name for name in self.classes if name not in self.result.classes]
        changes = []
        if added:
            changes.append(f"also classifies {first_few(added)}, which it was not trained on")
        if dropped:
            changes.append(f"no longer classifies {first_few(dropped)}")
        if not changes:
            return ()
        return (
            f"This prompt {' and '.join(changes)}; all results are about the {len(self.classes)} "
            "classes it was trained on.",
        )

    @property
    def words(self) -> tuple[str, ...]:
        """Returns the words of the prompt."""
        return self.result.words

    @property
    def candidates(self) -> Pool:
        """Returns the words that vectors are compared with: the run's, else the bundled ones."""
        return self.pool or Pool.bundled().for_tokenizer(self.learner.backbone.tokenizer)

    def choice(self, selection: Selection) -> WordChoice:
        """Returns how the run chose its words."""
        objective = Objective(selection.lambda_, selection.preset, selection.word_embedding)
        search = Search(selection.search)
        return WordChoice(objective, Template(selection.template), search, pool=self.pool)

    def sentence_scorer(self, selection: Selection, images: LabelledFeatures) -> SentenceScorer:
        """Returns the scorer of words in the sentence of the run's search, on these images."""
        return SentenceScorer(
            self.learner.backbone,
            self.learner.prompts.class_names,
            images.features,
            images.labels,
            Template(selection.template),
            self.store,
        )


def load_run(
    folder: Path,
    backbone: str | Backbone | None = None,
    device: str = "auto",
    words_file: Path | None = None,
    cache: bool = True,
    reporter: Reporter = SILENT,
) -> LoadedRun:
    """Load a saved run and restore its learner on its backbone, without any images.

    Parameters
    ----------
    folder : Path
        The folder of the run, or owner/name on the Hugging Face hub.
    backbone : str or Backbone, optional
        Where the backbone's weights are now. Default: as saved with the run.
    device : str
        The device to load the backbone on.
    words_file : Path, optional
        The word list that the run chose from, if it was not the bundled one.
    cache : bool
        Whether image features are read from and written to the disk cache.
    reporter : Reporter
        Receives progress and messages.

    Returns
    -------
    LoadedRun
        The run with its learner for the classes it was trained on.

    Raises
    ------
    DataError
        If `words_file` is not the word list that the run chose from.
    """
    result = read_run(find_run(folder))
    precision = str(result.backbone.get("precision", "fp32"))
    loaded_backbone = find_backbone(folder, result, backbone, device, precision)
    learner = restore_for_training_classes(result, loaded_backbone)
    selection = result.selection
    pool = _find_pool(learner, selection, words_file)
    store = FeatureStore(loaded_backbone, Cache(reporter=reporter) if cache else None)
    return LoadedRun(folder, result, learner, selection, pool, store)


def restore_for_training_classes(result: FitResult, backbone: Backbone) -> Learner:
    """Returns the learner for the classes it was trained on, whichever it was saved for."""
    learner, classes = restore(result, backbone), result.trained_classes
    return learner if classes == result.classes else learner.rebuilt(class_names=classes)


def _find_pool(
    learner: Learner, selection: Selection | None, words_file: Path | None
) -> Pool | None:
    """Returns the pool that the words were chosen from, identified by its hash."""
    tokenizer = learner.backbone.tokenizer
    if selection is None:
        return Pool.bundled().for_tokenizer(tokenizer)
    given = None if words_file is None else Pool.from_file(words_file, tokenizer)[0]
    whole = given or Pool.bundled()
    for variant in (lambda: whole, whole.without_names):
        pool = variant().for_tokenizer(tokenizer)
        if pool.sha256 == selection.pool_sha256:
            return pool
    if given is None:
        return None
    raise DataError(
        f"The word list {words_file} is not the one this run chose from: its hash is "
        f"{given.sha256[:12]}, the run's is {selection.pool_sha256[:12]}."
    )


def redraw_shots(
    run: LoadedRun, data: Path, strict: bool = False, reporter: Reporter = SILENT
) -> RunShots:
    """Returns the run's dataset with its shots drawn again, and a note if these are others.

    If the data has changed since, but has all images of the training, these are the shots.
    """
    whole = read_dataset(data, strict, run.result.config.held_out)
    dataset, novel = _split_by_run(whole, run.classes, run.folder)
    count = run.result.config.shots
    seed = run.result.config.seed
    shots, rest = draw_shots(dataset, count, seed, run.store, strict, reporter)
    notes = (*whole.notes, *shots.notes)
    reason = how_shots_differ(run.result, run.learner, shots, run.store)
    drawn_again = reason is None
    items = None if reason is None else find_shots(run.result, dataset.train, run.store)
    if items is not None:  # there are other images beside them now
        shots, reason = encode_items(items, "training", run.store, strict, reporter), None
        dataset, rest, _ = _leave_out_trained(run, dataset, dataset.train)
    elif reason is not None:
        dataset, rest, note = _leave_out_trained(run, dataset, rest)
        notes += (f"These are not the images this prompt was trained on ({reason}){note}",)
    return RunShots(
        str(data),
        dataset,
        novel,
        whole.class_names,
        shots,
        rest,
        notes,
        same_shots=reason is None,
        drawn_again=drawn_again,
    )


def _leave_out_trained(
    run: LoadedRun, dataset: Dataset, rest: tuple[Item, ...]
) -> tuple[Dataset, tuple[Item, ...], str]:
    """Leaves out images of the training that would be held out; the last value ends a note."""
    trained = find_trained(run.result, (*dataset.test, *rest), run.store)
    if trained is None:
        return dataset, rest, ", so some of the held-out images may have been used in training."
    count = sum(item in trained for item in dataset.test or rest)
    held_out = several(count, "held-out image is", "held-out images are")
    note = "one of those and left out" if count == 1 else "among those and left out"
    dataset = replace(dataset, test=tuple(i for i in dataset.test if i not in trained))
    rest = tuple(item for item in rest if item not in trained)
    return (
        dataset,
        rest,
        f"; {held_out} {note}." if count else "; no held-out image is one of those.",
    )


def read_run_images(
    run: LoadedRun, data: Path, limit: int, strict: bool = False, reporter: Reporter = SILENT
) -> RunImages:
    """Returns the run's images: its shots drawn again, and up to `limit` held-out images."""
    run_shots = redraw_shots(run, data, strict, reporter)
    held_out = run_shots.dataset.test or run_shots.rest
    items = at_most(held_out, limit)
    test = encode_items(items, "held-out", run.store, strict, reporter)
    if not test.items:
        if run_shots.same_shots:
            reason = "has no readable image that was not used in training"
        else:
            reason = (
                f"has no image left to measure on: a report on other data draws up to "
                f"{run.result.config.shots} images of each class first, as the training did"
            )
        raise DataError(
            f"{run_shots.dataset.name} {reason}. Without --data, a report shows what is saved with "
            "the run; ipl evaluate measures on all images that are new."
        )
    return RunImages(
        **{**vars(run_shots), "notes": (*run_shots.notes, *test.notes)},
        test=test,
        features=features_for(run.learner, test),
        left_out=len(held_out) - len(items),
    )


def at_most(items: tuple[Item, ...], limit: int) -> tuple[Item, ...]:
    """Returns all items, or `limit` of them drawn at random and in their order."""
    if len(items) <= limit:
        return items
    return tuple(items[i] for i in sorted(random.Random(0).sample(range(len(items)), limit)))


def _split_by_run(
    whole: Dataset, classes: tuple[str, ...], folder: Path
) -> tuple[Dataset, Dataset | None]:
    """Returns the data of the run's classes, and of the others if there are two or more."""
    if whole.class_names == classes:
        return whole, None
    labels = {name: label for label, name in enumerate(whole.class_names)}
    missing = [name for name in classes if name not in labels]
    if missing:
        raise DataError(
            f"{whole.name} has no class {missing[0]!r}, which {folder} was trained on; give the "
            "data of this run."
        )
    base = [labels[name] for name in classes]
    others = [label for label in range(len(labels)) if label not in set(base)]
    novel = whole.only(others, f"{whole.name} (novel)") if len(others) > 1 else None
    dataset = whole.only(base, whole.name)
    if base != sorted(base):  # shots are drawn class by class, in the order of the run's classes
        train = tuple(sorted(dataset.train, key=lambda item: item.label))
        dataset = replace(dataset, train=train)
    return dataset, novel
