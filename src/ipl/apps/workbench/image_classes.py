"""The images of one browser: classes that are added and removed, from several sources."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ipl.apps.image_decoding import allowed_formats, check_image_header
from ipl.apps.limits import Limits, Refusal
from ipl.datasets.dataset import Dataset, Finding, Item, check_class_names, clean_class_name
from ipl.datasets.images import ImageSource
from ipl.support.errors import DataError
from ipl.support.files import write_bytes

MAX_IMAGES = 2000  # that one browser may upload
MAX_BYTES = 500_000_000
MAX_MESSAGES = 3  # about single files, in one message
MIB = 1 << 20


@dataclass(frozen=True)
class ImageClass:
    """One class with its images."""

    name: str
    train: tuple[Path | ImageSource, ...]
    test: tuple[Path | ImageSource, ...] = ()


@dataclass(frozen=True)
class ImageClasses:
    """Classes with their images, in the order in which they were added."""

    name: str = "images"
    classes: tuple[ImageClass, ...] = ()
    findings: tuple[Finding, ...] = ()

    @classmethod
    def from_dataset(cls, dataset: Dataset) -> ImageClasses:
        """Returns the classes of a dataset."""
        parts: list[tuple[list[Path | ImageSource], list[Path | ImageSource]]]
        parts = [([], []) for _ in dataset.class_names]
        for number, items in enumerate((dataset.train, dataset.test)):
            for item in items:
                parts[item.label][number].append(item.path)
        classes = [
            ImageClass(name, tuple(train), tuple(test))
            for name, (train, test) in zip(dataset.class_names, parts, strict=True)
        ]
        return cls(dataset.name, tuple(classes), dataset.findings)

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the names of the classes."""
        return tuple(each.name for each in self.classes)

    @property
    def count(self) -> int:
        """Returns the number of images."""
        return sum(len(each.train) + len(each.test) for each in self.classes)

    def with_class(self, name: str, paths: Sequence[Path]) -> ImageClasses:
        """Returns these classes and one more; images of an existing class are added to it."""
        name = check_class_name(name)
        if name in self.names:
            classes = [
                replace(each, train=(*each.train, *paths)) if each.name == name else each
                for each in self.classes
            ]
            return replace(self, classes=tuple(classes))
        check_class_names([*self.names, name])
        return replace(self, classes=(*self.classes, ImageClass(name, tuple(paths))))

    def without_class(self, name: str) -> ImageClasses:
        """Returns the other classes."""
        if name not in self.names:
            raise DataError(f"There is no class {name!r}.")
        others = tuple(each for each in self.classes if each.name != name)
        return replace(self, classes=others) if others else ImageClasses()

    def dataset(self) -> Dataset:
        """Returns the classes as a dataset; raises DataError if there are fewer than two."""
        if len(self.classes) < 2:
            state = f"there is only the class {self.names[0]!r}" if self.classes else "add some"
            raise DataError(f"Images of at least two classes are needed; {state}.")
        train, test = list[Item](), list[Item]()
        for label, each in enumerate(self.classes):
            train += [Item(path, label) for path in each.train]
            test += [Item(path, label) for path in each.test]
        return Dataset(self.name, self.names, tuple(train), tuple(test), self.findings)


def check_class_name(text: str | None) -> str:
    """Returns a typed class name as a prompt writes it; raises DataError if it is not allowed."""
    name = clean_class_name(text or "")
    if not name:
        raise DataError("The class has no name yet; type one.")
    limit = Limits().max_text
    if len(name) > limit:
        raise DataError(f"The class name has {len(name)} characters; at most {limit} are allowed.")
    check_class_names([name])
    return name


class Uploads:
    """Images that a browser uploaded, in a folder of their own."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self.folder, self.limits = folder, limits
        self.count = self.bytes = 0
        self._hashes: dict[Path | ImageSource, str] = {}  # of the contents

    def add(
        self, files: Sequence[Path], present: Sequence[Path | ImageSource] = ()
    ) -> tuple[tuple[Path, ...], tuple[str, ...]]:
        """Returns copies of the files that are images, and a sentence on each that was left out.

        An image that comes twice, or has the content of one in `present`, is left out.
        """
        paths, messages, duplicates = [], [], 0
        known = {self._hashes[path] for path in present if path in self._hashes}
        for file in files:
            try:
                data = read_upload(file, self.limits)
            except DataError as error:
                messages.append(str(error))
                continue
            digest = hashlib.sha256(data).hexdigest()
            if digest in known:
                duplicates += 1
                continue
            known.add(digest)
            if self.count >= MAX_IMAGES or self.bytes + len(data) > MAX_BYTES:
                raise DataError(
                    f"At most {MAX_IMAGES:,} images and {MAX_BYTES // 10**6} MB can be uploaded "
                    "here; name a folder instead, or use `ipl fit`."
                )
            self.count, self.bytes = self.count + 1, self.bytes + len(data)
            safe_name = re.sub(r"[^A-Za-z0-9._-]", "_", file.name)[-60:]
            path = self.folder / f"{self.count:04d}" / safe_name
            write_bytes(path, data, sync=False)  # removed when the tab is closed
            paths.append(path)
            self._hashes[path] = digest
        if duplicates:
            count = "1 image is" if duplicates == 1 else f"{duplicates} images are"
            messages.insert(0, f"{count} already in this class.")
        return tuple(paths), tuple(messages)

    def with_sent_names(self, text: str) -> str:
        """Returns a text with the names that files were sent under instead of their paths."""
        return re.sub(rf"{re.escape(str(self.folder))}/\d{{4}}/", "", text)


def read_upload(file: Path, limits: Limits) -> bytes:
    """Returns the bytes of an image; raises DataError if it is not an image or too large."""
    limit = limits.max_bytes
    try:
        if not file.is_file():  # a device or a pipe might never end
            raise DataError(f"{file.name} no longer exists; drop it again.")
        with file.open("rb") as stream:
            data = stream.read(limit + 1)
        if len(data) > limit:
            size = file.stat().st_size / MIB
            raise DataError(
                f"{file.name} has {size:.1f} MB; at most {limit / MIB:.3g} MB are allowed."
            )
        check_image_header(data, limits.max_pixels)
    except OSError:
        raise DataError(f"{file.name} no longer exists; drop it again.") from None
    except Refusal as refusal:
        sentence = refusal.sentence.replace("image", file.name, 1)
        raise DataError(sentence.replace(f"; {allowed_formats()}", "")) from None
    return data


def join_messages(messages: Sequence[str]) -> str:
    """Returns the first few messages, how many more there are, and which formats are allowed."""
    more = len(messages) - MAX_MESSAGES
    sentences = list(messages[:MAX_MESSAGES]) + ([f"And {more} more."] if more > 0 else [])
    if any(message.endswith(": not an image.") for message in messages):
        sentences.append(f"A{allowed_formats()[1:]}.")
    return " ".join(sentences)
