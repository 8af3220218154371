"""What is looked at: a saved run with its learner, and the images it came from."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.shots import LabelledFeatures, draw_shots, encode_items
from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.readers import read_dataset
from ipl.explain.scoring import sentence_scorer
from ipl.learners.learner import Learner
from ipl.metrics import score
from ipl.saving.format import SavedPrompt, read_run
from ipl.saving.restore import find_backbone, restore
from ipl.saving.sharing import find_run
from ipl.support.cache import Cache
from ipl.support.errors import DataError
from ipl.support.progress import SILENT, Reporter
from ipl.training.fitting import features_for
from ipl.words.modes import Search
from ipl.words.objective import Objective
from ipl.words.pool import Pool
from ipl.words.select import WordChoice
from ipl.words.selection import Selection
from ipl.words.template import Template

SAME_LOSS = 1e-3  # two computations of one loss on different machines differ by far less


@dataclass(frozen=True)
class RunShots:
    """The run's data, with the shots as training drew them."""

    source: str
    dataset: Dataset  # the run's classes
    novel: Dataset | None  # the data's other classes, if there are two or more
    classes: tuple[str, ...]  # of the data, in its order
    shots: LabelledFeatures
    rest: tuple[Item, ...]  # training images that were not drawn
    notes: tuple[str, ...]


@dataclass(frozen=True)
class RunImages(RunShots):
    """The same with images that were held out."""

    test: LabelledFeatures
    features: Tensor  # of the test images as the learner sees them
    left_out: int  # test images over the limit


@dataclass(frozen=True)
class LoadedRun:
    """A saved run, its learner and, where they are known, its images and pool of words."""

    folder: Path  # or owner/name on the hub
    saved: SavedPrompt
    learner: Learner
    selection: Selection | None
    pool: Pool | None  # None: the run chose from a list that is not known here
    store: FeatureStore
    run_images: RunImages | None = None

    @property
    def classes(self) -> tuple[str, ...]:
        """Returns the classes it was trained on; the saved prompt may classify others as well."""
        return tuple(self.learner.prompts.class_names)

    @property
    def notes(self) -> tuple[str, ...]:
        """Returns a note if the prompt was saved for other classes than it was trained on."""
        added = [name for name in self.saved.classes if name not in self.classes]
        dropped = [name for name in self.classes if name not in self.saved.classes]
        told = [f"also classifies {_some(added)}, which it was not trained on"] if added else []
        told += [f"no longer classifies {_some(dropped)}"] if dropped else []
        if not told:
            return ()
        about = f"what is told here is about the {len(self.classes)} classes it was trained on."
        return (f"This prompt {' and '.join(told)}; {about}",)

    @property
    def words(self) -> tuple[str, ...]:
        """Returns the words of the prompt."""
        return self.saved.words

    @property
    def candidates(self) -> Pool:
        """Returns the words that vectors are compared with: the run's, else the bundled ones."""
        return self.pool or Pool.bundled().for_tokenizer(self.learner.backbone.tokenizer)

    def choice(self, selection: Selection) -> WordChoice:
        """Returns how the run chose its words."""
        objective = Objective(selection.lambda_, selection.preset, selection.word_embedding)
        search = Search(selection.search)
        return WordChoice(objective, Template(selection.template), search, pool=self.pool)


def load_run(
    folder: Path,
    backbone: str | Backbone | None = None,
    device: str = "auto",
    words_file: Path | None = None,
    cache: bool = True,
    reporter: Reporter = SILENT,
) -> LoadedRun:
    """Returns a saved run, restored on its backbone, without images."""
    saved = read_run(find_run(folder))
    precision = str(saved.backbone.get("precision", "fp32"))
    model = find_backbone(folder, saved, backbone, device, precision)
    learner = restore_trained(saved, model)
    selection = saved.chosen
    pool = _pool(learner, selection, words_file)
    disk = Cache(reporter=reporter) if cache else None
    return LoadedRun(folder, saved, learner, selection, pool, FeatureStore(model, disk))


def restore_trained(saved: SavedPrompt, backbone: Backbone) -> Learner:
    """Returns the learner for the classes it was trained on, whichever it was saved for."""
    learner = restore(saved, backbone)
    trained = trained_classes(saved)
    return learner if trained == saved.classes else learner.for_classes(trained)


def trained_classes(saved: SavedPrompt) -> tuple[str, ...]:
    """Returns the classes that a saved prompt was trained on."""
    return tuple(saved.training.get("classes") or saved.classes)


def _some(names: Sequence[str]) -> str:
    """Returns up to three names, and how many more there are."""
    more = [f"{len(names) - 3} more"] if len(names) > 3 else []
    shown = [*names[:3], *more]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _pool(learner: Learner, selection: Selection | None, words_file: Path | None) -> Pool | None:
    """Returns the pool that the words were chosen from, told by its hash."""
    tokenizer = learner.backbone.tokenizer
    if selection is None:
        return Pool.bundled().for_tokenizer(tokenizer)
    own = None if words_file is None else Pool.from_file(words_file, tokenizer)[0]
    whole = own or Pool.bundled()
    for make in (lambda: whole, whole.without_names):
        if (found := make().for_tokenizer(tokenizer)).sha256 == selection.pool_sha256:
            return found
    if own is None:
        return None
    raise DataError(
        f"The word list {words_file} is not the one this run chose from: its hash is "
        f"{own.sha256[:12]}, the run's {selection.pool_sha256[:12]}."
    )


def redraw_shots(
    subject: LoadedRun, data: Path, strict: bool = False, reporter: Reporter = SILENT
) -> RunShots:
    """Returns the run's data with its shots drawn again, and a note if they are not its own."""
    saved, whole = subject.saved, read_dataset(data, strict)
    dataset, novel = _halves(whole, subject.classes, subject.folder)
    count, seed = int(saved.training.get("shots", 16)), int(saved.training.get("seed", 1))
    shots, rest = draw_shots(dataset, count, seed, subject.store, strict, reporter)
    notes = (*whole.notes, *shots.notes, *_same_shots(subject, shots))
    return RunShots(str(data), dataset, novel, whole.class_names, shots, rest, notes)


def read_run_images(
    subject: LoadedRun, data: Path, most: int, strict: bool = False, reporter: Reporter = SILENT
) -> RunImages:
    """Returns the run's images: its shots drawn again, and up to `most` of those held out."""
    drawn = redraw_shots(subject, data, strict, reporter)
    items = drawn.dataset.test or drawn.rest
    kept = items
    if len(items) > most:
        places = sorted(random.Random(0).sample(range(len(items)), most))
        kept = tuple(items[place] for place in places)
    test = encode_items(kept, "held-out", subject.store, strict, reporter)
    if not test.items:
        raise DataError(
            f"{drawn.dataset.name} has no readable image that training did not see; a report "
            "without --data tells what the run itself carries."
        )
    return RunImages(
        **{**vars(drawn), "notes": (*drawn.notes, *test.notes)},
        test=test,
        features=features_for(subject.learner, test),
        left_out=len(items) - len(kept),
    )


def _halves(
    whole: Dataset, classes: tuple[str, ...], folder: Path
) -> tuple[Dataset, Dataset | None]:
    """Returns the data of the run's classes, and of the others if there are two or more."""
    if whole.class_names == classes:
        return whole, None
    places = {name: place for place, name in enumerate(whole.class_names)}
    lost = [name for name in classes if name not in places]
    if lost:
        raise DataError(
            f"{whole.name} has no class {lost[0]!r}, which {folder} was trained on; give the data "
            "of this run."
        )
    base = [places[name] for name in classes]
    other = [place for place in range(len(places)) if place not in set(base)]
    novel = whole.only(other, f"{whole.name} (novel)") if len(other) > 1 else None
    own = whole.only(base, whole.name)
    if base != sorted(base):  # shots are drawn class by class, in the order of the run's classes
        own = replace(own, train=tuple(sorted(own.train, key=lambda item: item.label)))
    return own, novel


def _same_shots(subject: LoadedRun, drawn: LabelledFeatures) -> tuple[str, ...]:
    """Returns a note unless the shots drawn now give the loss or accuracy saved with the run."""
    learner, selection = subject.learner, subject.selection
    images = subject.saved.training.get("images")
    told = f"{len(drawn.items)} training images were drawn; the run saw {images}"
    same = images == len(drawn.items)
    if same and selection is not None:
        choice = subject.choice(selection)
        loss = sentence_scorer(learner, choice, drawn).loss([])
        same = abs(loss - selection.loss_without_words) < SAME_LOSS
        told = f"the loss without words is {loss:.4f}; it was {selection.loss_without_words:.4f}"
    elif same and isinstance(then := subject.saved.results.get("train_accuracy"), float):
        log_p = learner.log_probabilities(features_for(learner, drawn))
        now = score(log_p, drawn.labels).accuracy
        same = abs(now - then) < 1.5 / len(drawn.items)
        told = f"the training accuracy is {100 * now:.1f} %; it was {100 * then:.1f} %"
    if same:
        return ()
    return (
        f"These are not the images this prompt was trained on ({told}), so some that count as "
        "held out here may have been trained on.",
    )
