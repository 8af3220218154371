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
from ipl.training.chosen_images import ChosenImages, choose_images
from ipl.training.fit import features_for
from ipl.training.result import FitResult
from ipl.training.trained_images import find_shots, how_shots_differ
from ipl.words.choice import WordChoice
from ipl.words.objective import Objective
from ipl.words.pool import Pool
from ipl.words.scorer import SentenceScorer
from ipl.words.selection import Selection
from ipl.words.template import Template


@dataclass(frozen=True)
class RunShots:
    """A dataset as a run sees it: its shots, if it has them, and the images to measure on."""

    source: str
    dataset: Dataset  # only the run's classes
    novel: Dataset | None  # the other classes, if there are two or more
    classes: tuple[str, ...]  # all classes of the source, in its order
    shots: LabelledFeatures | None  # None if it is not the data that the run was trained on
    held_out: tuple[Item, ...]
    notes: tuple[str, ...]
    drawn_again: bool  # whether drawing gives the shots; if not, the data has changed since


@dataclass(frozen=True)
class RunImages(RunShots):
    """A run's dataset with its shots and the encoded held-out images."""

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
        return WordChoice(objective, Template(selection.template), selection.search, pool=self.pool)

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
    """Returns the run's dataset with its shots, and the images that the run can be measured on.

    The shots are drawn again. If the data has changed since, but has all images of the training,
    these are the shots. Other data has none: all its images can be measured on, except those of the
    training, and a note says so.
    """
    whole = read_dataset(data, strict, run.result.config.held_out, to_test=True)
    dataset, novel = _split_by_run(whole, run.classes, run.folder)
    drawn = _draw_again(run, dataset, strict, reporter)
    shots, held_out, notes = drawn or _find_images(run, dataset, strict, reporter)
    return RunShots(
        str(data),
        dataset,
        novel,
        whole.class_names,
        shots,
        held_out,
        (*whole.test_notes, *notes),
        drawn_again=drawn is not None,
    )


def _draw_again(
    run: LoadedRun, dataset: Dataset, strict: bool, reporter: Reporter
) -> tuple[LabelledFeatures | None, tuple[Item, ...], tuple[str, ...]] | None:
    """Returns shots, held-out images and notes; None if the shots are not those of the training.

    A class without training images shows that it is other data.
    """
    if len({item.label for item in dataset.train}) < len(run.classes):
        return None
    config = run.result.config
    shots, rest = draw_shots(dataset, config.shots, config.seed, run.store, strict, reporter)
    if how_shots_differ(run.result, run.learner, shots, run.store) is not None:
        return None
    return shots, dataset.test or rest, shots.notes


def _find_images(
    run: LoadedRun, dataset: Dataset, strict: bool, reporter: Reporter
) -> tuple[LabelledFeatures | None, tuple[Item, ...], tuple[str, ...]]:
    """Returns the shots, if all are in the data, the images that are not of the training, notes."""
    result, store = run.result, run.store
    items = find_shots(result, dataset.train, store)
    chosen = choose_images(
        result, run.learner, dataset, result.config.held_out, store, reporter=reporter
    )
    if items is None:
        return None, tuple(chosen.items), _notes_on_other_data(run, dataset, chosen)
    shots = encode_items(items, "training", store, strict, reporter)
    return shots, tuple(chosen.items), shots.notes


def _notes_on_other_data(run: LoadedRun, dataset: Dataset, chosen: ChosenImages) -> tuple[str, ...]:
    """Returns that it is other data, and what is left out of it or not in it."""
    other, count = "This is not the data that the prompt was trained on", len(chosen.left_out)
    if count:
        if dataset.name == run.result.data:
            other = "This data has changed since the prompt was trained"
        total = count + len(chosen.items)
        were = "was a training image and is" if count == 1 else "were training images and are"
        notes = [f"{other}; {count:,} of its {several(total, 'image')} {were} left out."]
    else:
        notes = [f"{other}."]
    if not chosen.known:
        unknown = f"{other}; whether some of its images were training images is not known."
        notes = [] if chosen.notes else [unknown]
    labels = {item.label for item in chosen.items}
    if missing := [name for label, name in enumerate(run.classes) if label not in labels]:
        notes.append(
            f"{dataset.display_name} has no new image of {first_few(missing)}; all "
            f"{len(run.classes)} classes of the run compete all the same."
        )
    return (*notes, *chosen.notes)


def read_run_images(
    run: LoadedRun, data: Path, limit: int, strict: bool = False, reporter: Reporter = SILENT
) -> RunImages:
    """Returns the run's images: its shots, if the data has them, and up to `limit` held-out ones.

    Raises DataError if no image can be measured on.
    """
    run_shots = redraw_shots(run, data, strict, reporter)
    return encode_held_out(run, run_shots, run_shots.held_out, limit, strict, reporter)


def encode_held_out(
    run: LoadedRun,
    run_shots: RunShots,
    held_out: tuple[Item, ...],
    limit: int,
    strict: bool = False,
    reporter: Reporter = SILENT,
) -> RunImages:
    """Returns the run's images with up to `limit` of these held-out ones."""
    items = at_most(held_out, limit)
    test = encode_items(items, "held-out", run.store, strict, reporter)
    if not test.items:
        raise DataError(
            f"{run_shots.source} has no readable image that {run.folder.name} was not trained on. "
            "Without --data, what is saved with the run is shown."
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
    """Returns the data of the run's classes, and of the others if there are two or more.

    The labels of the first are those of the run, some of which may have no image.
    """
    if whole.class_names == classes:
        return whole, None
    labels = {name: label for label, name in enumerate(classes) if name in whole.class_names}
    if not labels:
        raise DataError(
            f"{whole.display_name} has none of the classes that {folder} was trained on: "
            f"{first_few(classes)}."
        )

    def relabel(items: tuple[Item, ...]) -> tuple[Item, ...]:
        names = ((item, whole.class_names[item.label]) for item in items)
        return tuple(Item(item.path, labels[name]) for item, name in names if name in labels)

    others = [label for label, name in enumerate(whole.class_names) if name not in labels]
    novel = whole.only(others, f"{whole.name} (novel)") if len(others) > 1 else None
    train, test = relabel(whole.train), relabel(whole.test)
    if (order := [labels[name] for name in whole.class_names if name in labels]) != sorted(order):
        # Shots are drawn class by class, in the order of the run's classes.
        train = tuple(sorted(train, key=lambda item: item.label))
    return replace(whole, class_names=classes, train=train, test=test), novel
