"""Result records read back from a folder; a damaged one is named and left out."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ipl.bench.plan import BASE_TO_NOVEL, PLANNED, ZERO_SHOT
from ipl.bench.records import DONE, FOLDER, FORMAT, STATUS
from ipl.support.errors import DataError
from ipl.support.files import is_folder

BUNDLED = "bundled"
NOT_RUN = "not run"  # as an error: there is no record
# How a run was carried out, not what was run.
MACHINERY = frozenset({"memory", "device", "cache", "strict"})
# What a prompt without words does not depend on.
ABOUT_WORDS = frozenset(
    {"interval", "lambda_", "preset", "word_embedding", "template"}
    | {"search", "shortlist", "pool", "placeholder"}
)
KINDS = {str: "text", int: "a whole number", dict: "an object"}


@dataclass(frozen=True)
class RunRecord:
    """One record: what was run, and the accuracies (from 0 to 1) or the error it came to."""

    id: str
    protocol: str
    dataset: str
    learner: str
    words: int | str
    seed: int
    shots: int
    settings: dict[str, Any] = field(repr=False)
    backbone: dict[str, Any] = field(repr=False)
    data: dict[str, Any] = field(repr=False)
    accuracy: dict[str, float]
    error: str | None
    chosen: tuple[str, ...] = ()  # words
    targets: tuple[str, ...] = ()  # datasets that were to be tested beside the source
    time: str = ""

    @property
    def done(self) -> bool:
        """Returns whether the run came to accuracies."""
        return self.error is None

    @property
    def with_words(self) -> bool:
        """Returns whether the prompt has words."""
        return self.words != 0

    def config(self) -> dict[str, Any]:
        """Returns every setting that can change the result, but dataset and seed."""
        settings: dict[str, Any] = {}
        if self.learner != ZERO_SHOT:
            ignored = MACHINERY if self.with_words else MACHINERY | ABOUT_WORDS
            settings = {k: v for k, v in self.settings.items() if k not in ignored}
            settings |= {"words": self.words, "shots": self.shots}
        if "pool" in settings:
            settings["pool"] = pool_name(settings["pool"])
        settings["backbone"] = self.backbone.get("name")
        settings["weights"] = self.backbone.get("weights_sha256")
        settings["precision"] = self.backbone.get("precision")
        return settings


def pool_name(pool: Any) -> str:
    """Returns what a pool of words is called: bundled, without names, or an own list's file."""
    if not isinstance(pool, dict):
        return str(pool)
    name = BUNDLED
    if pool.get("words_file"):
        name = f"{Path(str(pool['words_file'])).name} {str(pool.get('sha256'))[:8]}"
    return f"{name} without names" if pool.get("no_names") else name


def read_results(folders: Sequence[str | Path]) -> tuple[list[RunRecord], list[str]]:
    """Returns the runs recorded in bench folders, and a sentence for each that is left out.

    Of a run that is there twice the finished one counts, then the later one.
    """
    found: dict[str, RunRecord] = {}
    notes: list[str] = []
    for folder in map(Path, folders):
        if not is_folder(folder):
            raise DataError(f"There is no folder {folder}.")
        for path in sorted((folder / FOLDER).glob("[!.]*.json")):
            try:
                run = read_result(path)
            except DataError as error:
                notes.append(f"{error} It is left out.")
                continue
            other = found.get(run.id)
            if other is None or (run.done, run.time) > (other.done, other.time):
                found[run.id] = run
            if other is not None and other != run:
                notes.append(
                    f"The run {run.id} was recorded more than once, with different results; the "
                    "latest that finished counts."
                )
    if not found:
        named = ", ".join(str(folder) for folder in folders)
        left_out = f" ({len(notes)} damaged)" if notes else ""
        raise DataError(
            f"There is no run record in {named}{left_out}; `ipl bench ... --out DIR` writes them "
            "to DIR/records."
        )
    return list(found.values()), notes


def read_result(path: Path) -> RunRecord:
    """Returns the run recorded in a file; DataError says what is wrong with it."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    except ValueError:
        raise DataError(f"{path} is no JSON.") from None
    if not isinstance(value, dict):
        raise DataError(f"{path} is no run record: it holds no JSON object.")
    if value.get("format") != FORMAT:
        found = value.get("format")
        raise DataError(f"{path} is no run record of format {FORMAT}: its format is {found!r}.")
    try:
        return _run(value)
    except (KeyError, TypeError, ValueError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise DataError(f"{path} is a damaged run record: {what}.") from None


def _run(value: dict[str, Any]) -> RunRecord:
    """Returns the run that a record's values say; KeyError, TypeError or ValueError if none."""
    if value["protocol"] not in PLANNED:
        raise ValueError(f"protocol is {value['protocol']!r}; known are {', '.join(PLANNED)}")
    if value["status"] not in STATUS:
        raise ValueError(f"status is {value['status']!r}; it must be {' or '.join(STATUS)}")
    done = value["status"] == DONE
    for name in ("id", "dataset", "learner"):
        _check(name, value[name], str)
    for name in ("seed", "shots"):
        _check(name, value[name], int)
    _check("words", value["words"], int, str)
    accuracy = value["accuracy"] if done else {}
    _check("accuracy", accuracy, dict)
    for name, number in accuracy.items():
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise ValueError(f"accuracy of {name} is {number!r}; it must be a number")
        if not (math.isfinite(number) and 0 <= number <= 1):
            raise ValueError(f"accuracy of {name} is {number!r}; it must be from 0 to 1")
    if done:
        needed = ["base", "novel"] if value["protocol"] == BASE_TO_NOVEL else [value["dataset"]]
        missing = [name for name in needed if name not in accuracy]
        if missing:
            raise ValueError(f"accuracy of {missing[0]} is missing")
    parts = {name: value.get(name) or {} for name in ("settings", "backbone", "data")}
    for name, part in parts.items():
        _check(name, part, dict)
    lists = {name: value.get(name) or [] for name in ("chosen", "targets")}
    for name, texts in lists.items():
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{name} is {texts!r}; it must be a list of texts")
    return RunRecord(
        id=value["id"],
        protocol=value["protocol"],
        dataset=value["dataset"],
        learner=value["learner"],
        words=0 if value["learner"] == ZERO_SHOT else value["words"],
        seed=value["seed"],
        shots=value["shots"],
        accuracy={name: float(number) for name, number in accuracy.items()},
        error=None if done else str(value.get("error") or "no reason was recorded"),
        chosen=tuple(lists["chosen"]),
        targets=tuple(lists["targets"]),
        time=str(value.get("time", "")),
        **parts,
    )


def _check(name: str, value: Any, *kinds: type) -> None:
    if isinstance(value, bool) or not isinstance(value, kinds):
        allowed = " or ".join(KINDS[kind] for kind in kinds)
        raise ValueError(f"{name} is {value!r}; it must be {allowed}")
