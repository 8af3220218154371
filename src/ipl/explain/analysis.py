"""All that a report tells of a run, computed once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ipl.backbone.backbone import Backbone
from ipl.explain.baseline import TRAIN, Baseline, read_baseline, train_baseline
from ipl.explain.chosen_words import WordFacts, word_facts
from ipl.explain.loaded_run import LoadedRun, RunImages, load_run, read_run_images
from ipl.explain.outcomes import Outcomes, outcomes
from ipl.explain.provenance import Provenance, provenance_of
from ipl.explain.random_words import Chance, against_chance
from ipl.explain.stability import RESAMPLES, Stability, resample_words
from ipl.explain.vectors import Vectors, describe_vectors
from ipl.explain.word_effects import WordEffect, word_effects
from ipl.metrics import Score, score
from ipl.saving.format import read_run
from ipl.saving.sharing import find_run
from ipl.support.errors import ConfigError, DataError
from ipl.support.files import path_exists
from ipl.support.progress import SILENT, Reporter

IMAGES = 2000  # held-out images that a report looks at


@dataclass(frozen=True)
class ReportSettings:
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

    subject: LoadedRun
    words: tuple[WordFacts, ...]
    test: Score | None
    effects: tuple[WordEffect, ...] | None
    chance: Chance | None
    stability: Stability | None
    vectors: Vectors
    plain_vectors: Vectors | None
    plain: Baseline | None
    outcomes: Outcomes | None
    made: Provenance
    missing: tuple[Missing, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """Returns what a reader must know before believing it."""
        return (*self.subject.notes, *(self.run_images.notes if self.run_images else ()))

    @property
    def run_images(self) -> RunImages | None:
        """Returns the images it was computed on."""
        return self.subject.run_images


def analyse_run(
    run: Path,
    data: Path | None = None,
    settings: ReportSettings | None = None,
    backbone: str | Backbone | None = None,
    device: str = "auto",
    words_file: Path | None = None,
    cache: bool = True,
    reporter: Reporter = SILENT,
) -> Analysis:
    """Returns what can be told of a saved run; without its data, what the run itself carries."""
    settings = settings or ReportSettings()
    # RUN comes first, and all that is given is looked for before anything is loaded.
    read_run(find_run(run))
    if data is not None and not path_exists(data):
        raise DataError(f"No such file or folder: {data}.")
    if settings.plain == TRAIN and data is None:
        raise ConfigError("plain is 'train'; that needs the run's images: give --data.")
    subject = load_run(run, backbone, device, words_file, cache, reporter)
    plain = None
    if settings.plain not in (None, TRAIN):
        plain = read_baseline(subject, Path(settings.plain))  # before anything long is done
    if data is not None:
        subject = replace(
            subject,
            run_images=read_run_images(subject, data, settings.images, settings.strict, reporter),
        )
    if settings.plain == TRAIN and subject.run_images is not None and subject.words:
        plain = train_baseline(subject, subject.run_images.shots, reporter)
    parts = _on_images(subject, settings, plain, reporter)
    vectors = describe_vectors(subject.learner, subject.saved.training, subject.candidates)
    beside = (
        None
        if plain is None
        else describe_vectors(plain.learner, plain.training, subject.candidates)
    )
    return Analysis(
        subject=subject,
        words=word_facts(subject.selection) if subject.selection else (),
        vectors=vectors,
        plain_vectors=beside,
        plain=plain,
        made=provenance_of(subject, _path(data), _path(words_file)),
        missing=_missing(subject, settings, plain),
        **parts,
    )


def _path(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _on_images(
    subject: LoadedRun, settings: ReportSettings, plain: Baseline | None, reporter: Reporter
) -> dict[str, Any]:
    """Returns the parts that need images, None each without them."""
    parts: dict[str, Any] = dict.fromkeys(("test", "effects", "chance", "stability", "outcomes"))
    run_images, selection, pool = subject.run_images, subject.selection, subject.pool
    if run_images is None:
        return parts
    log_p = subject.learner.log_probabilities(run_images.features)
    parts["test"] = score(log_p, run_images.test.labels)
    parts["outcomes"] = outcomes(subject, run_images, log_p, plain, settings.strict, reporter)
    if not subject.words:
        return parts
    parts["effects"] = word_effects(subject, run_images, log_p, reporter)
    if selection is not None and pool is not None:
        parts["chance"] = against_chance(subject, run_images, selection, pool, reporter)
        if settings.resamples:
            parts["stability"] = resample_words(
                subject, run_images, selection, settings.resamples, reporter
            )
    return parts


def _missing(
    subject: LoadedRun, settings: ReportSettings, plain: Baseline | None
) -> tuple[Missing, ...]:
    found = []
    if subject.run_images is None:
        found.append(
            Missing(
                "what each word does, random words, stability, confusion, calibration, accuracy",
                "They need images, and a saved run names its data but does not say where it is: "
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
    elif subject.run_images is not None and not settings.resamples:
        found.append(Missing("stability", "No resamples were asked for."))
    if subject.words and plain is None:
        found.append(
            Missing(
                "the learner without words beside this one",
                "It was not asked for: --plain train, or --plain RUN with a run without words.",
            )
        )
    return tuple(found)
