"""What one browser has: its images, its fit, its classifier. Nothing here knows the page."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from ipl.apps.limits import Refusal
from ipl.apps.serve.decode import read_image
from ipl.apps.workbench.download import pack
from ipl.apps.workbench.fit_thread import FitThread
from ipl.apps.workbench.image_classes import ImageClasses, Uploads, class_name, named, read_upload
from ipl.apps.workbench.settings import WorkbenchSettings
from ipl.apps.workbench.word_gain import GainInRun, GainScorer, clean_word
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.shots import draw_shots
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset
from ipl.datasets.images import ImageSource, thumbnail
from ipl.datasets.readers import read_dataset
from ipl.datasets.scenes import scenes_dataset
from ipl.support.cache import Cache, cache_folder
from ipl.support.errors import ConfigError, DataError
from ipl.words.objective import Objective
from ipl.words.selection import Selection
from ipl.words.template import Template

if TYPE_CHECKING:
    from ipl.apps.workbench.workbench import Workbench

SCENES = ("volcano", "lake", "castle", "windmill")  # to begin with: a few, quick to learn
SECONDS_TO_END = 10.0  # that a cancelled fit has before its images go


@dataclass(frozen=True)
class Ranked:
    """An image and how probable each class is, the most probable first."""

    name: str
    thumb: str | None  # a data URI
    classes: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class SessionPrompt:
    """What a prompt was learnt from on this page, and what was noted on the way."""

    image_classes: ImageClasses
    notes: tuple[str, ...]


class Session:
    """One browser at the workbench. Its methods may be called from any thread."""

    def __init__(self, bench: Workbench, folder: Path) -> None:
        self.bench, self.folder = bench, folder
        self.image_classes: ImageClasses = bench.image_classes
        self.classifier: PromptClassifier | None = bench.classifier
        self.fit: FitThread | None = None
        self.learnt: SessionPrompt | None = (
            None  # what the prompt here was learnt from, if it was here
        )
        self.handed_over: set[Path] = set()  # files that the browser sent
        self.uploads = Uploads(folder / "images", bench.limits)
        self._looked_at: tuple[str, str | None, Image.Image] | None = None
        self._weigher: tuple[object, GainScorer] | None = None
        self._thumbs: dict[Path | ImageSource, str | None] = {}
        self._lock = threading.RLock()

    # -- images -------------------------------------------------------------------------------

    def add_class(self, name: str | None, files: Sequence[Path]) -> tuple[str, ...]:
        """Takes images of a class; returns a sentence on each file that is left out."""
        with self._lock:
            self.handed_over.update(files)
            wanted = class_name(name)
            self.image_classes.with_class(wanted, ())  # a name that cannot be is said first
            if not files:
                raise DataError(f"There are no images of {wanted!r} yet; drop some.")
            there = [one.train for one in self.image_classes.classes if one.name == wanted]
            kept, refused = self.uploads.take(files, *there)
            if not kept:
                raise DataError(f"There is nothing to add to {wanted!r}: {named(refused)}")
            self._change(self.image_classes.with_class(wanted, kept))
            return refused

    def remove_class(self, name: str | None) -> None:
        """Forgets the images of a class."""
        with self._lock:
            if not name:
                raise DataError("No class is chosen yet; choose the one to take away.")
            self._change(self.image_classes.without(name))

    def use_folder(self, path: str | None) -> None:
        """Takes the images of a folder or a list on this machine, in place of all others."""
        if not self.bench.browse:
            raise ConfigError("Folders can be named from the workbench's own machine only.")
        if not (path or "").strip():
            raise DataError("There is no folder yet; type its path.")
        dataset = read_dataset(Path((path or "").strip()).expanduser())
        self._take(dataset)

    def use_scenes(self) -> None:
        """Takes some of the drawn scenes, in place of all other images."""
        self._take(scenes_dataset(cache_folder() / "scenes", redraw=False, classes=SCENES))

    def _take(self, dataset: Dataset) -> None:
        with self._lock:
            self._change(ImageClasses.of(dataset))

    def _change(self, image_classes: ImageClasses) -> None:
        self.image_classes = image_classes
        if self.fit is not None and self.fit.state == "failed":
            self.fit = None  # what was wrong with other images

    def thumb(self, path: Path | ImageSource) -> str | None:
        """Returns a small copy of an image as a data URI; None if it cannot be opened."""
        if path not in self._thumbs:
            self._thumbs[path] = thumbnail(path)
        return self._thumbs[path]

    # -- learning -------------------------------------------------------------------------------

    @property
    def learning(self) -> bool:
        """Returns whether a fit is under way."""
        return self.fit is not None and not self.fit.ended

    def learn(self, settings: WorkbenchSettings) -> FitThread:
        """Returns a fit that has been started; there is one at a time."""
        with self._lock:
            if self.learning:
                raise ConfigError("A prompt is being learnt; cancel that first.")
            dataset, bench = self.image_classes.dataset(), self.bench
            classifier = PromptClassifier(
                bench.backbone,
                settings.learner,
                settings.words,
                shots=settings.shots,
                epochs=settings.epochs,
                interval=settings.interval,
                seed=settings.seed,
                views=bench.views,
                pool=bench.pool,
            )
            image_classes = self.image_classes

            def done(made: PromptClassifier) -> None:
                with self._lock:
                    assert self.fit is not None
                    self.classifier = made
                    self.learnt = SessionPrompt(image_classes, tuple(self.fit.watcher.warnings))

            self.fit = FitThread(classifier, dataset, bench.turns, done)
            return self.fit

    @property
    def from_others(self) -> bool:
        """Returns whether the prompt was learnt from other images than those here now."""
        if self.classifier is None or not self.image_classes.classes:
            return self.learnt is not None
        if self.learnt is not None:
            return self.image_classes != self.learnt.image_classes
        trained = self.classifier.training_.get("classes")
        return trained is not None and tuple(map(str, trained)) != self.image_classes.names

    def cancel(self) -> None:
        """Stops the fit under way, if there is one."""
        if self.fit is not None:
            self.fit.cancel()

    @property
    def selection(self) -> Selection | None:
        """Returns the words of the fit under way, else those of the prompt there is."""
        if self.fit is not None and self.learning:
            return self.fit.watcher.progress.selection
        return self.classifier.selection_ if self.classifier is not None else None

    def weigh(self, word: str | None, shots: int, seed: int) -> GainInRun:
        """Returns what a typed word brings on the images here, at each step of the search."""
        typed = clean_word(word, self.bench.backbone, self.bench.candidates)
        selection = self.selection
        words = selection.words if selection is not None else ()
        weigher = self._weigher_of(selection, shots, seed)
        same = selection is None or not words or weigher.saw(selection.loss_without_words)
        return GainInRun(weigher.weigh(typed, words), weigher.objective.lambda_, same)

    def _weigher_of(self, selection: Selection | None, shots: int, seed: int) -> GainScorer:
        objective, template = Objective(), Template()
        if selection is not None:
            objective = Objective(selection.lambda_, selection.preset, selection.word_embedding)
            template = Template(selection.template)
        with self._lock:
            key = (self.image_classes, shots, seed, objective, template)
            if self._weigher is None or self._weigher[0] != key:
                dataset, backbone = self.image_classes.dataset(), self.bench.backbone
                store = FeatureStore(backbone, Cache())
                seen, _ = draw_shots(dataset, shots, seed, store)
                names = dataset.class_names
                self._weigher = key, GainScorer(backbone, names, seen, objective, template)
            return self._weigher[1]

    # -- using ----------------------------------------------------------------------------------

    def classify(self, file: Path) -> Ranked:
        """Returns what the prompt sees in an image."""
        self.handed_over.add(file)
        self._prompt()
        self._looked_at = None
        limits = self.bench.limits
        data = read_upload(file, limits)
        try:
            image = read_image(data, limits.max_pixels, self.bench.backbone.preprocessing)
        except Refusal as refusal:
            raise DataError(refusal.sentence.replace("image", file.name, 1)) from None
        self._looked_at = file.name, thumbnail(file), image
        ranked = self.ranked()
        assert ranked is not None
        return ranked

    def ranked(self) -> Ranked | None:
        """Returns what the prompt sees in the last image, if there was one."""
        looked_at = self._looked_at
        if looked_at is None or self.classifier is None:
            return None
        name, thumb, image = looked_at
        classifier = self.classifier
        shares = classifier.predict_proba([image])[0]
        pairs = zip(map(str, classifier.classes_), map(float, shares), strict=True)
        return Ranked(name, thumb, tuple(sorted(pairs, key=lambda pair: -pair[1])))

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the classes that the prompt tells apart."""
        return tuple(map(str, self.classifier.classes_)) if self.classifier is not None else ()

    def add_name(self, name: str | None) -> None:
        """Lets the prompt tell one more class apart, which it need not have seen."""
        with self._lock:
            most = self.bench.limits.max_classes
            if len(self.names) >= most:
                raise DataError(f"There are {most} classes, which is the most allowed here.")
            self.classifier = self._prompt().with_classes([*self.names, class_name(name)])

    def remove_name(self, name: str | None) -> None:
        """Takes a class out of those that the prompt tells apart."""
        with self._lock:
            if not name:
                raise DataError("No class is chosen yet; choose the one to leave out.")
            if name not in self.names:
                raise DataError(f"The prompt has no class {name!r} to remove.")
            left = [other for other in self.names if other != name]
            self.classifier = self._prompt().with_classes(left)

    def download(self) -> Path:
        """Returns a file with the saved form of the prompt."""
        folder = self.folder / "download"
        folder.mkdir(parents=True, exist_ok=True)
        return pack(self._prompt(), folder)

    def _prompt(self) -> PromptClassifier:
        if self.classifier is None:
            raise ConfigError("There is no prompt yet; learn one first.")
        return self.classifier

    def close(self, seconds: float = SECONDS_TO_END) -> None:
        """Ends the fit and removes the images that were dropped."""
        if self.fit is not None:
            self.fit.cancel()
            self.fit.join(seconds)
        shutil.rmtree(self.folder, ignore_errors=True)
