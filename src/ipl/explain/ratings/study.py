"""A study: words of several origins that people rate without knowing which is which."""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ipl.support.errors import ConfigError, DataError
from ipl.support.files import is_folder, replace_folder, write_bytes, write_json
from ipl.training.result import FitResult

VERSION = 1
FILE, PICTURES, RATERS = "study.json", "pictures", "raters"
CHOSEN, PLAIN, RANDOM = METHODS = ("chosen", "plain", "random")
_IMAGE_NAME = re.compile(r"[0-9a-f]{8,64}\.jpg")


@dataclass(frozen=True)
class RatingImage:
    """A small image: its file in the study's folder, and its class."""

    file: str
    label: str

    def __post_init__(self) -> None:
        if not _IMAGE_NAME.fullmatch(self.file):
            raise DataError(f"An image is named {self.file!r}.")  # it must not be a path


@dataclass(frozen=True)
class RatingTask:
    """What words are rated for: classes, images of them, and the words behind random names."""

    classes: tuple[str, ...]
    pictures: tuple[RatingImage, ...]  # named as in study.json
    items: Mapping[str, str]  # name -> word

    def name_of(self, word: str) -> str:
        """Returns the name of the item that asks for a word."""
        return next(name for name, other in self.items.items() if other == word)


@dataclass(frozen=True)
class StudiedRun:
    """A run and its lists: its own words, the baseline's nearest words, random words."""

    name: str
    fingerprint: str
    prompt: str
    task: int
    lists: Mapping[str, tuple[str, ...]]  # method -> words
    plain: str  # how the learner without words was made
    frequency: str  # how the frequency of words was measured


@dataclass(frozen=True)
class Study:
    """All that is asked, and the seed of the orders it is asked in."""

    seed: str
    created: str
    tasks: tuple[RatingTask, ...]
    runs: tuple[StudiedRun, ...]

    def __post_init__(self) -> None:
        names = [name for task in self.tasks for name in task.items]
        if len(names) != len(set(names)):
            raise DataError("Two items have the same name.")
        for run in self.runs:
            if run.task not in range(len(self.tasks)) or set(run.lists) != set(METHODS):
                raise DataError(f"The run {run.name!r} has no task or not three lists.")
            missing = {w for words in run.lists.values() for w in words}
            missing -= set(self.tasks[run.task].items.values())
            if missing:
                raise DataError(f"The word {min(missing)!r} is asked by no item.")

    @property
    def items(self) -> frozenset[str]:
        """Returns the names of all items."""
        return frozenset(name for task in self.tasks for name in task.items)


def screens(study: Study, rater: str) -> list[tuple[int, tuple[str, ...]]]:
    """Returns what one rater is asked in order: a task and the items of one list of words.

    Lists and the words in them are shuffled for each rater; a word that was in an earlier list
    of the same task is not asked again.
    """
    stream = random.Random(f"{study.seed}/{rater}")
    lists = [(run.task, words) for run in study.runs for words in run.lists.values()]
    stream.shuffle(lists)
    asked, order = set[str](), list[tuple[int, tuple[str, ...]]]()
    for task, words in lists:
        names = [study.tasks[task].name_of(word) for word in words]
        names = [name for name in dict.fromkeys(names) if name not in asked]
        stream.shuffle(names)
        asked.update(names)
        if names:
            order.append((task, tuple(names)))
    return order


def fingerprint(result: FitResult) -> str:
    """Returns a hash of a run's words and numbers: the same wherever its folder is."""
    header = [
        result.config.learner,
        result.prompt,
        result.classes,
        result.backbone["weights_sha256"],
    ]
    sha = hashlib.sha256(json.dumps(header).encode())
    for name in sorted(result.tensors):
        sha.update(name.encode() + result.tensors[name].contiguous().numpy().tobytes())
    return sha.hexdigest()


def default_study(run: Path) -> Path:
    """Returns RUN-ratings beside the run: a saved run holds nothing but its own files."""
    return run.parent / f"{run.resolve().name}-ratings"


def check_study_target(folder: Path) -> None:
    """Raises ConfigError unless a study can be made at `folder`."""
    if is_folder(folder) and any(folder.iterdir()):
        raise ConfigError(f"{folder} holds other files; choose a new folder with --out.")
    if folder.is_file():
        raise ConfigError(f"{folder} is a file; a study is a folder.")


def write_study(folder: Path, study: Study, images: Mapping[str, bytes]) -> None:
    """Writes a study into a new folder that appears whole or not at all."""
    check_study_target(folder)
    with replace_folder(folder) as temporary:
        for name, data in images.items():
            write_bytes(temporary / PICTURES / name, data)
        (temporary / RATERS).mkdir()
        write_json(temporary / FILE, {"format": "ipl-study", "version": VERSION, **asdict(study)})


def is_study(folder: Path) -> bool:
    """Returns whether a folder is a study."""
    return is_folder(folder) and (folder / FILE).is_file()


def read_study(folder: Path) -> Study:
    """Returns a study, checked; raises DataError with what is wrong."""
    path = folder / FILE
    if not is_study(folder):
        raise DataError(f"{folder} is not a study: {FILE} is missing.")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} is damaged: {error}.") from None
    if not isinstance(value, dict) or value.get("format") != "ipl-study":
        raise DataError(f"{path} does not describe a study.")
    version = value.get("version")
    if version != VERSION:
        raise DataError(f"{path} has version {version!r}; this ipl reads version {VERSION}.")
    try:
        return Study(
            seed=_text(value["seed"]),
            created=_text(value["created"]),
            tasks=tuple(map(_task, value["tasks"])),
            runs=tuple(map(_run, value["runs"])),
        )
    except (LookupError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is damaged: {error!r}.") from None
    except DataError as error:
        raise DataError(f"{path} is damaged: {error}") from None


def _task(value: Any) -> RatingTask:
    return RatingTask(
        classes=_texts(value["classes"]),
        pictures=tuple(RatingImage(_text(p["file"]), _text(p["label"])) for p in value["pictures"]),
        items={_text(name): _text(word) for name, word in value["items"].items()},
    )


def _run(value: Any) -> StudiedRun:
    texts = {k: _text(value[k]) for k in ("name", "fingerprint", "prompt", "plain", "frequency")}
    lists = {_text(method): _texts(words) for method, words in value["lists"].items()}
    return StudiedRun(task=value["task"], lists=lists, **texts)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise TypeError(f"{values!r} is not a list")
    return tuple(map(_text, values))
