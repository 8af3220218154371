"""The images of one browser: classes that can be added and taken away, from several sources."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ipl.apps.limits import Limits, Refusal
from ipl.apps.serve.decode import check_header
from ipl.datasets.dataset import Dataset, Item, check_class_names, clean_class_name
from ipl.datasets.images import FORMATS, ImageSource
from ipl.support.errors import DataError
from ipl.support.files import write_bytes

MOST_IMAGES = 2000  # that one browser may hand over
MOST_BYTES = 500_000_000
NAMED = 3  # files that a message names
MIB = 1 << 20
NO_PICTURE = "is damaged or no image."
KNOWN = f"Images are files of {', '.join(FORMATS[:-1])} or {FORMATS[-1]}."


@dataclass(frozen=True)
class ClassImages:
    """One class with its images."""

    name: str
    train: tuple[Path | ImageSource, ...]
    test: tuple[Path | ImageSource, ...] = ()


@dataclass(frozen=True)
class ImageClasses:
    """Classes in order, as a person put them together."""

    name: str = "images"
    classes: tuple[ClassImages, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, dataset: Dataset) -> ImageClasses:
        """Returns the images of a dataset."""
        parts: list[tuple[list[Path | ImageSource], list[Path | ImageSource]]]
        parts = [([], []) for _ in dataset.class_names]
        for number, items in enumerate((dataset.train, dataset.test)):
            for item in items:
                parts[item.label][number].append(item.path)
        classes = [
            ClassImages(name, tuple(train), tuple(test))
            for name, (train, test) in zip(dataset.class_names, parts, strict=True)
        ]
        return cls(dataset.name, tuple(classes), dataset.notes)

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the names of the classes."""
        return tuple(one.name for one in self.classes)

    @property
    def count(self) -> int:
        """Returns the number of images."""
        return sum(len(one.train) + len(one.test) for one in self.classes)

    def with_class(self, name: str, paths: Sequence[Path]) -> ImageClasses:
        """Returns these and a class more; images of a class that is there go to the others."""
        name = class_name(name)
        if name in self.names:
            grown = [
                replace(one, train=(*one.train, *paths)) if one.name == name else one
                for one in self.classes
            ]
            return replace(self, classes=tuple(grown))
        check_class_names([*self.names, name])
        return replace(self, classes=(*self.classes, ClassImages(name, tuple(paths))))

    def without(self, name: str) -> ImageClasses:
        """Returns these without a class."""
        if name not in self.names:
            raise DataError(f"There is no class {name!r} to remove.")
        left = tuple(one for one in self.classes if one.name != name)
        return replace(self, classes=left) if left else ImageClasses()

    def dataset(self) -> Dataset:
        """Returns them as a dataset; raises DataError if they are none yet."""
        if len(self.classes) < 2:
            has = f"only the class {self.names[0]!r}" if self.classes else "none yet"
            raise DataError(f"Images of two classes or more are needed; there is {has}.")
        train, test = list[Item](), list[Item]()
        for label, one in enumerate(self.classes):
            train += [Item(path, label) for path in one.train]
            test += [Item(path, label) for path in one.test]
        return Dataset(self.name, self.names, tuple(train), tuple(test), self.notes)


def class_name(raw: str | None) -> str:
    """Returns a class name as a prompt says it; raises DataError if it cannot be one."""
    name = clean_class_name(raw or "")
    if not name:
        raise DataError("The class has no name yet; type one.")
    most = Limits().max_text
    if len(name) > most:
        raise DataError(f"The class name has {len(name)} letters; at most {most} are allowed.")
    check_class_names([name])
    return name


class Uploads:
    """Images that came through a browser, in a folder of their own."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self.folder, self.limits = folder, limits
        self.count = self.bytes = 0
        self._content: dict[Path | ImageSource, str] = {}  # hashes of what was taken

    def take(
        self, files: Sequence[Path], there: Sequence[Path | ImageSource] = ()
    ) -> tuple[tuple[Path, ...], tuple[str, ...]]:
        """Returns copies of the files that are images, and a sentence on what is left out.

        An image that is among those `there`, or comes twice, is left out.
        """
        kept, refused, again = [], [], 0
        seen = {self._content[path] for path in there if path in self._content}
        for file in files:
            try:
                data = read_upload(file, self.limits)
            except DataError as error:
                refused.append(str(error))
                continue
            content = hashlib.sha256(data).hexdigest()
            if content in seen:
                again += 1
                continue
            seen.add(content)
            if self.count >= MOST_IMAGES or self.bytes + len(data) > MOST_BYTES:
                raise DataError(
                    f"No more than {MOST_IMAGES:,} images and {MOST_BYTES // 10**6} MB can be "
                    "dropped here; point at a folder, or use `ipl fit`."
                )
            self.count, self.bytes = self.count + 1, self.bytes + len(data)
            safe = re.sub(r"[^A-Za-z0-9._-]", "_", file.name)[-60:]
            path = self.folder / f"{self.count:04d}" / safe
            write_bytes(path, data)
            kept.append(path)
            self._content[path] = content
        if again:
            is_there = "1 image is" if again == 1 else f"{again} images are"
            refused.insert(0, f"{is_there} in this class already, and counted once.")
        return tuple(kept), tuple(refused)

    def as_sent(self, text: str) -> str:
        """Returns a text with the names that files were sent under, not where they lie here."""
        return re.sub(rf"{re.escape(str(self.folder))}/\d{{4}}/", "", text)


def read_upload(file: Path, limits: Limits) -> bytes:
    """Returns the bytes of an image; raises DataError for what is none or is too large."""
    size = 0
    with suppress(OSError):
        size = file.stat().st_size
    if size > limits.max_bytes:
        most = f"{limits.max_bytes / MIB:.3g}"
        raise DataError(f"{file.name} has {size / MIB:.1f} MB; at most {most} are allowed.")
    try:
        data = file.read_bytes()
        check_header(data, limits.max_pixels)
    except OSError:
        raise DataError(f"{file.name} is no longer there; drop it again.") from None
    except Refusal as refusal:
        if refusal.status == 415:
            raise DataError(f"{file.name} {NO_PICTURE}") from None
        raise DataError(refusal.sentence.replace("image", file.name, 1)) from None
    return data


def named(sentences: Sequence[str]) -> str:
    """Returns the first few of many sentences, how many more there are, and what is allowed."""
    more = len(sentences) - NAMED
    told = list(sentences[:NAMED]) + ([f"And {more} more."] if more > 0 else [])
    if any(sentence.endswith(NO_PICTURE) for sentence in sentences):
        told.append(KNOWN)
    return " ".join(told)
