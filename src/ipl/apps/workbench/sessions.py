"""What each browser has (images, a fit, a prompt) and what all share. Knows nothing of the page."""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
import time
import zipfile
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from PIL import Image

from ipl.apps.image_decoding import decode_image
from ipl.apps.limits import Limits, Refusal
from ipl.apps.workbench.fit_thread import FitQueue, FitThread, WorkbenchSettings
from ipl.apps.workbench.image_classes import (
    ImageClasses,
    Uploads,
    check_class_name,
    join_messages,
    read_upload,
)
from ipl.apps.workbench.word_gain import GainInRun, GainScorer, clean_word
from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.labelled_features import draw_shots
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset
from ipl.datasets.images import ImageSource, thumbnail
from ipl.datasets.readers import read_dataset
from ipl.datasets.scenes import scenes_dataset
from ipl.support.cache import Cache, cache_folder
from ipl.support.errors import ConfigError, DataError
from ipl.support.files import replace_file
from ipl.words.objective import Objective
from ipl.words.pool import Pool
from ipl.words.selection import Selection
from ipl.words.template import Template

SCENES = ("volcano", "lake", "castle", "windmill")  # an example that is quick to learn
MAX_FITS = 2  # at a time; each takes all processors it can get, and up to 2 GiB
MAX_SESSIONS = 50
UPLOAD_BYTES = 20 * 1024 * 1024  # of one image
FIT_SECONDS = 10.0  # that a cancelled fit has to end before its images are removed
SHUTDOWN_SECONDS = 1.5  # that all fits together have to end when the workbench does


@dataclass(frozen=True)
class RankedImage:
    """An image and the probability of each class, the most probable first."""

    name: str
    thumbnail: str | None  # a data URI
    classes: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class PromptOrigin:
    """The images that a prompt was learnt from on this page, and the warnings of its fit."""

    image_classes: ImageClasses
    warnings: tuple[str, ...]


class Session:
    """One browser at the workbench. Its methods may be called from any thread."""

    def __init__(self, workbench: Workbench, folder: Path) -> None:
        self.workbench, self.folder = workbench, folder
        self.image_classes: ImageClasses = workbench.image_classes
        self.classifier: PromptClassifier | None = workbench.classifier
        self.fit: FitThread | None = None
        self.origin: PromptOrigin | None = None  # None: the prompt was not learnt on this page
        self.received: set[Path] = set()  # files that the browser uploaded, in the inbox
        self.received_bytes = 0  # of its uploads so far
        self.uploads = Uploads(folder / "images", workbench.limits)
        self._last_image: tuple[str, str | None, Image.Image] | None = None
        self._scorer: tuple[object, GainScorer] | None = None
        self._thumbnails: dict[Path | ImageSource, str | None] = {}
        self._lock = threading.RLock()

    # -- images -------------------------------------------------------------------------------

    def uploaded(self, paths: Iterable[str]) -> list[Path]:
        """Returns the files at these paths; raises DataError if one was not uploaded here."""
        files = [Path(path) for path in paths]
        for file in files:
            if file not in self.received:
                raise DataError(
                    f"{file.name[:60]!r} was not uploaded from this page; drop it again."
                )
        return files

    def add_class(self, name: str | None, files: Sequence[Path]) -> tuple[str, ...]:
        """Adds images of a class; returns a sentence on each file that was left out."""
        with self._lock:
            class_name = check_class_name(name)
            self.image_classes.with_class(class_name, ())  # a bad name is reported first
            if not files:
                raise DataError(f"There are no images of {class_name!r} yet; drop some.")
            present = [each.train for each in self.image_classes.classes if each.name == class_name]
            paths, messages = self.uploads.add(files, *present)
            if not paths:
                raise DataError(
                    f"There is nothing to add to {class_name!r}: {join_messages(messages)}"
                )
            self._set_images(self.image_classes.with_class(class_name, paths))
            return messages

    def remove_class(self, name: str | None) -> None:
        """Removes a class and its images."""
        with self._lock:
            if not name:
                raise DataError("No class is selected; select the one to remove.")
            self._set_images(self.image_classes.without_class(name))

    def use_folder(self, path: str | None) -> None:
        """Replaces all images by those of a folder or a list on this machine."""
        if not self.workbench.browse:
            raise ConfigError("Folders can be named from the workbench's own machine only.")
        if not (path or "").strip():
            raise DataError("No folder is given; type its path.")
        self._use_dataset(read_dataset(Path((path or "").strip()).expanduser()))

    def use_scenes(self) -> None:
        """Replaces all images by some of the drawn scenes."""
        self._use_dataset(scenes_dataset(cache_folder() / "scenes", classes=SCENES))

    def _use_dataset(self, dataset: Dataset) -> None:
        with self._lock:
            self._set_images(ImageClasses.from_dataset(dataset))

    def _set_images(self, image_classes: ImageClasses) -> None:
        self.image_classes = image_classes
        if self.fit is not None and self.fit.state == "failed":
            self.fit = None  # its error was about other images

    def thumbnail(self, path: Path | ImageSource) -> str | None:
        """Returns a small copy of an image as a data URI; None if it cannot be opened."""
        if path not in self._thumbnails:
            self._thumbnails[path] = thumbnail(path)
        return self._thumbnails[path]

    # -- learning -------------------------------------------------------------------------------

    @property
    def learning(self) -> bool:
        """Returns whether a fit is waiting or running."""
        return self.fit is not None and not self.fit.ended

    def learn(self, settings: WorkbenchSettings) -> FitThread:
        """Starts a fit and returns it; a session has one at a time."""
        with self._lock:
            if self.learning:
                raise ConfigError("A prompt is being learnt; cancel that first.")
            image_classes, workbench = self.image_classes, self.workbench
            dataset = image_classes.dataset()
            classifier = PromptClassifier(
                workbench.backbone,
                settings.learner,
                settings.words,
                shots=settings.shots,
                epochs=settings.epochs,
                seed=settings.seed,
                pool=workbench.pool,
            )

            def on_done(trained: PromptClassifier) -> None:
                with self._lock:
                    assert self.fit is not None
                    self.classifier = trained
                    warnings = tuple(self.fit.watcher.warnings)
                    self.origin = PromptOrigin(image_classes, warnings)

            self.fit = FitThread(classifier, dataset, workbench.queue, on_done, settings.compare)
            return self.fit

    @property
    def images_changed(self) -> bool:
        """Returns whether the prompt was learnt from other images than the current ones."""
        if self.classifier is None or not self.image_classes.classes:
            return self.origin is not None
        if self.origin is not None:
            return self.image_classes != self.origin.image_classes
        return self.classifier.result_.trained_classes != self.image_classes.names

    def cancel(self) -> None:
        """Cancels the current fit, if there is one."""
        if self.fit is not None:
            self.fit.cancel()

    @property
    def selection(self) -> Selection | None:
        """Returns the words of the current fit, else those of the prompt."""
        if self.fit is not None and self.learning:
            return self.fit.watcher.progress.selection
        return self.classifier.selection_ if self.classifier is not None else None

    def score_word(self, text: str | None, shots: int, seed: int) -> GainInRun:
        """Returns the gain of a typed word on the current images, at each step of the search."""
        word = clean_word(text, self.workbench.backbone, self.workbench.candidates)
        selection = self.selection
        words = selection.words if selection is not None else ()
        scorer = self._gain_scorer(selection, shots, seed)
        same_images = (
            selection is None or not words or scorer.matches_search(selection.loss_without_words)
        )
        return GainInRun(scorer.score(word, words), scorer.objective.lambda_, same_images)

    def _gain_scorer(self, selection: Selection | None, shots: int, seed: int) -> GainScorer:
        objective, template = Objective(), Template()
        if selection is not None:
            objective = Objective(selection.lambda_, selection.preset, selection.word_embedding)
            template = Template(selection.template)
        with self._lock:
            key = (self.image_classes, shots, seed, objective, template)
            if self._scorer is None or self._scorer[0] != key:
                dataset, backbone = self.image_classes.dataset(), self.workbench.backbone
                images, _ = draw_shots(dataset, shots, seed, FeatureStore(backbone, Cache()))
                names = dataset.class_names
                self._scorer = key, GainScorer(backbone, names, images, objective, template)
            return self._scorer[1]

    # -- using ----------------------------------------------------------------------------------

    def classify(self, file: Path) -> RankedImage:
        """Returns the probabilities of an image."""
        self._prompt()
        self._last_image = None
        limits = self.workbench.limits
        data = read_upload(file, limits)
        try:
            image = decode_image(data, limits.max_pixels, self.workbench.backbone.preprocessing)
        except Refusal as refusal:
            raise DataError(refusal.sentence.replace("image", file.name, 1)) from None
        self._last_image = file.name, thumbnail(file), image
        ranked = self.ranked()
        assert ranked is not None
        return ranked

    def ranked(self) -> RankedImage | None:
        """Returns the probabilities of the last image, if there was one."""
        last_image, classifier = self._last_image, self.classifier
        if last_image is None or classifier is None:
            return None
        name, small, image = last_image
        probabilities = classifier.predict_proba([image])[0]
        pairs = zip(map(str, classifier.classes_), map(float, probabilities), strict=True)
        return RankedImage(name, small, tuple(sorted(pairs, key=lambda pair: -pair[1])))

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the classes that the prompt distinguishes."""
        return tuple(map(str, self.classifier.classes_)) if self.classifier is not None else ()

    def add_name(self, name: str | None) -> None:
        """Adds a class to those that the prompt distinguishes; it needs no images."""
        with self._lock:
            limit = self.workbench.limits.max_classes
            if len(self.names) >= limit:
                raise DataError(f"There are {limit} classes already; no more are allowed here.")
            self.classifier = self._prompt().with_classes([*self.names, check_class_name(name)])

    def remove_name(self, name: str | None) -> None:
        """Removes a class from those that the prompt distinguishes."""
        with self._lock:
            if not name:
                raise DataError("No class is selected; select the one to leave out.")
            if name not in self.names:
                raise DataError(f"The prompt has no class {name!r}.")
            others = [other for other in self.names if other != name]
            self.classifier = self._prompt().with_classes(others)

    def download(self) -> Path:
        """Returns a zip file of the folder that `save_pretrained` writes."""
        folder = self.folder / "download"
        folder.mkdir(parents=True, exist_ok=True)
        return zip_run(self._prompt(), folder)

    def _prompt(self) -> PromptClassifier:
        if self.classifier is None:
            raise ConfigError("There is no prompt yet; learn one first.")
        return self.classifier

    def close(self, seconds: float = FIT_SECONDS) -> None:
        """Ends the fit and removes the uploaded images."""
        if self.fit is not None:
            self.fit.cancel()
            self.fit.join(seconds)
        shutil.rmtree(self.folder, ignore_errors=True)


class Workbench:
    """What all browsers share, and their sessions, each under a key that only its browser knows."""

    def __init__(
        self,
        backbone: Backbone,
        classifier: PromptClassifier | None = None,
        image_classes: ImageClasses | None = None,
        browse: bool = True,
        pool: Pool | None = None,
        limits: Limits | None = None,
        run_name: str = "",
    ) -> None:
        """Takes what every session starts with; `browse` lets it name folders of this machine.

        `run_name` is the name under which the classifier was saved.
        """
        self.run_name = run_name
        self.backbone, self.classifier, self.browse = backbone, classifier, browse
        self.image_classes = image_classes or ImageClasses()
        self.pool = pool
        self.limits = limits or Limits(max_bytes=UPLOAD_BYTES)
        self.queue = FitQueue(MAX_FITS)
        self._folder = tempfile.TemporaryDirectory(prefix="ipl-ui-")
        self.inbox = Path(self._folder.name) / "inbox"  # where files from browsers arrive
        self.inbox.mkdir()
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._count = 0
        self._lock = threading.Lock()

    @cached_property
    def candidates(self) -> Pool:
        """Returns the words that a search chooses from."""
        return (self.pool or Pool.bundled()).for_tokenizer(self.backbone.tokenizer)

    def open(self, key: str) -> Session:
        """Returns a new session; beyond MAX_SESSIONS the one unused for longest is closed."""
        with self._lock:
            self._count += 1
            session = Session(self, Path(self._folder.name) / f"session-{self._count}")
            outdated = [self._sessions.pop(key)] if key in self._sessions else []
            if len(self._sessions) >= MAX_SESSIONS:
                outdated.append(self._sessions.popitem(last=False)[1])
            self._sessions[key] = session
        for other in outdated:
            self._close(other)
        return session

    def session(self, key: str) -> Session:
        """Returns the session of a browser."""
        with self._lock:
            if key not in self._sessions:
                raise DataError("This session has expired; reload the page to start again.")
            self._sessions.move_to_end(key)
            return self._sessions[key]

    def close(self, key: str) -> None:
        """Ends a session: its fit stops, its images are removed."""
        with self._lock:
            session = self._sessions.pop(key, None)
        if session is not None:
            self._close(session)

    def end(self) -> None:
        """Ends all sessions, without waiting long for fits that do not stop."""
        with self._lock:
            sessions = list(self._sessions.values())
            self._sessions.clear()
        for session in sessions:
            session.cancel()
        deadline = time.monotonic() + SHUTDOWN_SECONDS
        for session in sessions:
            session.close(max(0.0, deadline - time.monotonic()))
        self._folder.cleanup()

    def receive(self, key: str, files: Iterable[Path]) -> None:
        """Notes that a browser uploaded these files; without a session they are removed."""
        with self._lock:
            if key in self._sessions:
                self._sessions[key].received.update(files)
            else:
                self._remove(files)

    def _close(self, session: Session) -> None:
        session.close()
        with self._lock:
            self._remove(session.received)

    def _remove(self, files: Iterable[Path]) -> None:
        """Removes uploaded files, except those that another browser uploaded too."""
        others = [session.received for session in self._sessions.values()]
        for file in set(files).difference(*others):
            if file.is_relative_to(self.inbox):
                with suppress(OSError):
                    file.unlink()


def zip_run(classifier: PromptClassifier, folder: Path) -> Path:
    """Returns a zip file, written into `folder`, of the folder that `save_pretrained` writes."""
    name = zip_name(classifier)
    target = folder / f"{name}.zip"
    with tempfile.TemporaryDirectory(dir=folder) as work:
        run = Path(work) / name
        classifier.save_pretrained(run)
        with (
            replace_file(target) as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            for path in sorted(run.iterdir()):
                archive.write(path, f"{name}/{path.name}")
    return target


def zip_name(classifier: PromptClassifier) -> str:
    """Returns a file name for a run: data, learner, words and seed."""
    result = classifier.result_
    words, seed = f"{len(result.words)}w", f"seed{result.config.seed}"
    parts = [result.data, result.config.learner, words, seed]
    return re.sub(r"[^A-Za-z0-9._-]", "-", "-".join(parts))[-100:]
