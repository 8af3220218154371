"""All that a report tells of a run, computed once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ipl.analysis.chance import Chance, against_chance
from ipl.analysis.effects import WordEffect, word_effects
from ipl.analysis.made import Made, how_made
from ipl.analysis.metrics import Score, log_probabilities, score
from ipl.analysis.outcomes import Outcomes, outcomes
from ipl.analysis.plain import TRAIN, Plain, read_plain, train_plain
from ipl.analysis.stability import RESAMPLES, Stability, resample
from ipl.analysis.subject import Pictures, Subject, look_at, open_run
from ipl.analysis.vectors import Vectors, describe
from ipl.analysis.words import WordFacts, word_facts
from ipl.backbone import Backbone
from ipl.errors import ConfigError, DataError
from ipl.files import is_there
from ipl.progress import SILENT, Reporter
from ipl.saving import find_run, read_run

IMAGES = 2000  # held-out pictures that a report looks at


@dataclass(frozen=True)
class Settings:
    """What a report is asked for."""

    resamples: int = RESAMPLES
    images: int = IMAGES
    plain: str | None = None  # "train", or the folder of a run without words
    strict: bool = False

    def __post_init__(self) -> None:
        if self.resamples < 0:
            raise ConfigError(f"resamples is {self.resamples}; it must be 0 or more.")
        if self.images < 1:
            raise ConfigError(f"images is {self.images}; it must be 1 or more.")


@dataclass(frozen=True)
class Missing:
    """A part that a report cannot have, and why."""

    part: str
    why: str


@dataclass(frozen=True)
class Analysis:
    """Everything a report tells; what is None is named in `missing`."""

    subject: Subject
    words: tuple[WordFacts, ...]
    test: Score | None
    effects: tuple[WordEffect, ...] | None
    chance: Chance | None
    stability: Stability | None
    vectors: Vectors
    plain_vectors: Vectors | None
    plain: Plain | None
    outcomes: Outcomes | None
    made: Made
    missing: tuple[Missing, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """Returns what a reader must know before believing it."""
        return (*self.subject.notes, *(self.pictures.notes if self.pictures else ()))

    @property
    def pictures(self) -> Pictures | None:
        """Returns the pictures it was computed on."""
        return self.subject.pictures


def analyse(
    run: Path,
    data: Path | None = None,
    settings: Settings | None = None,
    backbone: str | Backbone | None = None,
    device: str = "auto",
    words_file: Path | None = None,
    cache: bool = True,
    reporter: Reporter = SILENT,
) -> Analysis:
    """Returns what can be told of a saved run; without its data, what the run itself carries."""
    settings = settings or Settings()
    # RUN comes first, and all that is given is looked for before anything is loaded.
    read_run(find_run(run))
    if data is not None and not is_there(data):
        raise DataError(f"No such file or folder: {data}.")
    if settings.plain == TRAIN and data is None:
        raise ConfigError("plain is 'train'; that needs the run's pictures: give --data.")
    subject = open_run(run, backbone, device, words_file, cache, reporter)
    plain = None
    if settings.plain not in (None, TRAIN):
        plain = read_plain(subject, Path(settings.plain))  # before anything long is done
    if data is not None:
        subject = replace(
            subject,
            pictures=look_at(subject, data, settings.images, settings.strict, reporter),
        )
    if settings.plain == TRAIN and subject.pictures is not None and subject.words:
        plain = train_plain(subject, subject.pictures.shots, reporter)
    parts = _on_pictures(subject, settings, plain, reporter)
    vectors = describe(subject.learner, subject.saved.training, subject.candidates)
    beside = None if plain is None else describe(plain.learner, plain.training, subject.candidates)
    return Analysis(
        subject=subject,
        words=word_facts(subject.selection) if subject.selection else (),
        vectors=vectors,
        plain_vectors=beside,
        plain=plain,
        made=how_made(subject, _path(data), _path(words_file)),
        missing=_missing(subject, settings, plain),
        **parts,
    )


def _path(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _on_pictures(
    subject: Subject, settings: Settings, plain: Plain | None, reporter: Reporter
) -> dict[str, Any]:
    """Returns the parts that need pictures, None each without them."""
    parts: dict[str, Any] = dict.fromkeys(("test", "effects", "chance", "stability", "outcomes"))
    pictures, selection, pool = subject.pictures, subject.selection, subject.pool
    if pictures is None:
        return parts
    log_p = log_probabilities(subject.learner, pictures.features)
    parts["test"] = score(log_p, pictures.test.labels)
    parts["outcomes"] = outcomes(subject, pictures, log_p, plain, settings.strict, reporter)
    if not subject.words:
        return parts
    parts["effects"] = word_effects(subject, pictures, log_p, reporter)
    if selection is not None and pool is not None:
        parts["chance"] = against_chance(subject, pictures, selection, pool, reporter)
        if settings.resamples:
            parts["stability"] = resample(
                subject, pictures, selection, settings.resamples, reporter
            )
    return parts


def _missing(subject: Subject, settings: Settings, plain: Plain | None) -> tuple[Missing, ...]:
    found = []
    if subject.pictures is None:
        found.append(
            Missing(
                "what each word does, random words, stability, confusion, calibration, accuracy",
                "They need pictures, and a saved run names its data but does not say where it is: "
                "give --data.",
            )
        )
    if not subject.words:
        found.append(Missing("everything about words", "This prompt has none."))
    elif subject.pool is None:
        found.append(
            Missing(
                "the median word, random words, stability",
                "The run chose from a list of words that is not the bundled one: give "
                "--words-file.",
            )
        )
    elif subject.pictures is not None and not settings.resamples:
        found.append(Missing("stability", "No resamples were asked for."))
    if subject.words and plain is None:
        found.append(
            Missing(
                "the learner without words beside this one",
                "It was not asked for: --plain train, or --plain RUN with a run without words.",
            )
        )
    return tuple(found)
