"""The raters of a study and their answers: a file for each, rewritten with every answer."""

from __future__ import annotations

import json
import threading
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ipl.explain.ratings.study import RATERS, Study
from ipl.support.errors import ConfigError, DataError
from ipl.support.files import sha256_text, write_json

SCALE = (1, 2, 3, 4, 5)
MOST_RATERS = 200
LONGEST_NAME = 60


@dataclass(frozen=True)
class Answer:
    """A rating, and when it was given."""

    rating: int
    time: str

    def __post_init__(self) -> None:
        whole = isinstance(self.rating, int) and not isinstance(self.rating, bool)
        if not whole or self.rating not in SCALE:
            raise DataError(f"rating is {str(self.rating)[:40]}; allowed are 1 to 5.")


@dataclass(frozen=True)
class Rater:
    """A person, named as typed, and the last answer to each item."""

    name: str
    answers: Mapping[str, Answer] = field(default_factory=dict)


def clean_name(name: Any) -> str:
    """Returns a name with single blanks; raises ConfigError for what cannot be one."""
    if not isinstance(name, str):
        raise ConfigError("name is missing; give a text.")
    # Any name that people have is allowed, but no invisible characters.
    text = " ".join(unicodedata.normalize("NFC", name).split())
    if not text or not text.isprintable():
        raise ConfigError("name is empty or cannot be displayed; give some letters.")
    if len(text) > LONGEST_NAME:
        raise ConfigError(f"name has {len(text)} characters; at most {LONGEST_NAME} are allowed.")
    return text


def key_of(name: str) -> str:
    """Returns a hash that identifies a rater, whether typed in capitals or not."""
    return sha256_text(unicodedata.normalize("NFKC", name).casefold())[:24]


class Raters:
    """The answers to one study, saved in its folder; several threads may answer at once."""

    def __init__(self, folder: Path, study: Study, most: int = MOST_RATERS) -> None:
        self.folder, self.study, self.most = folder / RATERS, study, most
        self._lock = threading.Lock()
        self._raters = _read_raters(self.folder, study)

    def every(self) -> tuple[Rater, ...]:
        """Returns all raters in the order of their names."""
        return tuple(sorted(self._raters.values(), key=lambda rater: rater.name.casefold()))

    def answers(self, name: str) -> dict[str, int]:
        """Returns what a person answered so far: item -> rating."""
        known = self._raters.get(key_of(name))
        return {item: a.rating for item, a in known.answers.items()} if known else {}

    def check_room(self, name: str) -> None:
        """Raises ConfigError for a new person if the study has as many raters as it may have."""
        if key_of(name) not in self._raters and len(self._raters) >= self.most:
            raise ConfigError(f"{self.most} people have rated already; no more are accepted.")

    def rate(self, name: Any, item: Any, rating: Any) -> int:
        """Saves an answer, replacing an earlier one to the same item; returns how many there are.

        It is on disk when this returns.
        """
        name = clean_name(name)
        if not isinstance(item, str) or item not in self.study.items:
            raise DataError("item is none of this study.")
        answer = Answer(rating, datetime.now(timezone.utc).isoformat(timespec="milliseconds"))
        key = key_of(name)
        with self._lock:
            self.check_room(name)
            known = self._raters.get(key, Rater(name))
            rater = Rater(known.name, {**known.answers, item: answer})
            write_json(self.folder / f"{key}.json", _rater_values(rater))
            self._raters[key] = rater
        return len(rater.answers)


def _rater_values(rater: Rater) -> dict[str, Any]:
    answers = {item: vars(answer) for item, answer in rater.answers.items()}
    return {"format": "ipl-ratings", "version": 1, "rater": rater.name, "answers": answers}


def _read_raters(folder: Path, study: Study) -> dict[str, Rater]:
    raters = {}
    for path in sorted(folder.glob("[!.]*.json")):
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
            answers = {k: Answer(v["rating"], str(v["time"])) for k, v in value["answers"].items()}
            rater = Rater(clean_name(value["rater"]), answers)
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise DataError(f"{path} is damaged: {str(error).rstrip('.')}.") from None
        if not answers.keys() <= study.items:
            raise DataError(f"{path} has answers to items that this study does not ask.")
        raters[key_of(rater.name)] = rater
    return raters
