"""Records: one JSON file for each run under OUT/records, read with checks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ipl.bench.arms import LINEAR_PROBE, UNTRAINED, WORDS_ONLY, ZERO_SHOT, arm_of
from ipl.bench.protocols.protocol import Protocol
from ipl.bench.protocols.registry import PROTOCOLS, find_protocol
from ipl.bench.run import (
    POOL,
    RECORDED_IN_0_1_0,
    added_settings,
    settings_about_search,
    settings_about_words,
)
from ipl.config import AUTO, CHOSEN, EMPTY, GIVEN, PAPER, PLAIN, RANDOM, settings
from ipl.saving.schema import (
    COUNT,
    FLAG,
    HISTORY,
    NUMBER,
    SELECTION,
    SETTINGS,
    SHARE,
    TEXT,
    Entries,
    Kind,
    OrNull,
    Shape,
    faults,
)
from ipl.support.errors import DataError, brief
from ipl.support.files import is_folder, path_exists
from ipl.training.history import TrainingHistory
from ipl.words.selection import Selection

FORMAT = 1
FOLDER = "records"
DONE, FAILED = STATUS = ("done", "failed")
NOT_RUN = "not run"  # as an error: there is no record
BUNDLED = "bundled"  # the pool of words in the package
LEFT_OUT = "It is left out."

COUNTS = Entries(COUNT)
# A setting of a later version may be anything, as long as it can be compared and shown.
ANY_SETTING = Kind(
    "a text, a number, true, false, null or an object of these",
    lambda value: all(
        each is None or FLAG.fits(each) or NUMBER.fits(each) or TEXT.fits(each)
        for each in (value.values() if isinstance(value, dict) else [value])
    ),
)
RECORD: Shape = {
    "id": Kind("a text of up to 400 characters", lambda v: TEXT.fits(v) and len(v) <= 400),
    "protocol": Kind(f"one of {', '.join(PROTOCOLS)}", lambda v: v in list(PROTOCOLS)),
    "status": Kind(" or ".join(STATUS), lambda value: value in STATUS),
    "dataset": TEXT,
    "learner": TEXT,
    "words": SETTINGS["words"],
    "seed": COUNT,
    "shots": COUNT,
    "settings?": OrNull(
        {
            **{f"{name}?": OrNull(kind) for name, kind in SETTINGS.items()},
            f"{POOL}?": {"words_file?": OrNull(TEXT), "sha256?": OrNull(TEXT)},
            "templates?": Entries(TEXT),
        }
    ),
    "backbone?": OrNull(
        {
            "name?": OrNull(TEXT),
            "on_hub?": OrNull(FLAG),
            "weights_sha256?": OrNull(TEXT),
            "precision?": OrNull(TEXT),
        }
    ),
    "data?": OrNull(
        {
            f"{name}?": OrNull(COUNTS)
            for name in ("classes", "test_images", "unreadable_images", "missing_images")
        }
    ),
    "error?": OrNull(TEXT),
    "chosen?": OrNull([TEXT]),
    "targets?": OrNull([TEXT]),
    "versions?": OrNull(Entries(OrNull(TEXT))),
    "time?": TEXT,
    "device?": OrNull(TEXT),
    "seconds?": OrNull(Entries(NUMBER)),
    "peak_memory?": OrNull(COUNT),
    "profile?": OrNull(
        {
            "source?": OrNull(TEXT),
            "utilisation?": OrNull({"mean": NUMBER, "p95": NUMBER, "above_50": NUMBER}),
        }
    ),
    "selection?": OrNull(SELECTION),
    "history?": OrNull(HISTORY),
}


@dataclass(frozen=True)
class RunRecord:
    """One record, checked: what was run, and the accuracies or the error it came to.

    Parameters
    ----------
    id : str
        The id of the run.
    protocol, dataset, learner, words, seed, shots
        What was run; the words of zero-shot are 0.
    settings : dict
        The settings in force, `Run.settings`.
    backbone : dict
        Its name, whether that is a name on the hub, its precision and the hash of its weights.
    data : dict
        Numbers of classes and images, and hashes of the lists.
    accuracy : dict
        Accuracies from 0 to 1 by test set; empty if the run failed.
    error : str or None
        Why the run failed; None if it is done.
    chosen : tuple of str
        The words in the prompt.
    targets : tuple of str
        The datasets that were to be tested beside the one that was trained on.
    time : str
        When the run ended.
    device : str or None
        The name of the GPU, or the kind of device.
    seconds : dict
        How long `fit` and `test` took; empty if the run failed.
    peak_memory : int or None
        Bytes: of the GPU where there is one, else resident.
    profile : dict or None
        What `--profile` measured, `UsageMonitor.profile`.
    selection : Selection or None
        The search for the words; its times are those of when it was done, which may be earlier.
    history : TrainingHistory or None
        The epochs of the training.
    """

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
    chosen: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    time: str = ""
    device: str | None = None
    seconds: dict[str, float] = field(default_factory=dict, repr=False)
    peak_memory: int | None = None
    profile: dict[str, Any] | None = field(default=None, repr=False)
    selection: Selection | None = field(default=None, repr=False)
    history: TrainingHistory | None = field(default=None, repr=False)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RunRecord:
        """Returns the record that plain values say.

        Raises
        ------
        ValueError
            If a value is missing or not allowed.
        """
        for fault in faults(values, RECORD):
            raise ValueError(fault.rstrip("."))
        for fault in faults(values.get("settings") or {}, Entries(ANY_SETTING), "settings"):
            raise ValueError(fault.rstrip("."))
        done = values["status"] == DONE
        selection, history = values.get("selection"), values.get("history")
        record = cls(
            id=values["id"],
            protocol=values["protocol"],
            dataset=values["dataset"],
            learner=values["learner"],
            words=_words(values),
            seed=values["seed"],
            shots=values["shots"],
            settings=values.get("settings") or {},
            backbone=values.get("backbone") or {},
            data=values.get("data") or {},
            accuracy=_accuracy(values) if done else {},
            error=None if done else str(values.get("error") or "no reason was recorded"),
            chosen=tuple(values.get("chosen") or ()),
            targets=tuple(values.get("targets") or ()),
            time=values.get("time") or "",
            device=values.get("device"),
            seconds=values.get("seconds") or {},
            peak_memory=values.get("peak_memory"),
            profile=values.get("profile"),
            selection=None if selection is None else Selection.from_dict(selection),
            history=None if history is None else TrainingHistory.from_dict(history),
        )
        _check_arm(record, values.get("arm"))
        return record

    @property
    def status(self) -> str:
        """Returns done or failed."""
        return DONE if self.done else FAILED

    @property
    def done(self) -> bool:
        """Returns whether the run came to accuracies."""
        return self.error is None

    @property
    def arm(self) -> str:
        """Returns the arm, a key of `ARMS`."""
        slots = {"empty_slots": EMPTY, "random_words": RANDOM, "words_given": GIVEN}
        filled = [arm for name, arm in slots.items() if self.settings.get(name)]
        return arm_of(self.learner, filled[0] if filled else CHOSEN if self.words else PLAIN)

    def same_results(self, other: RunRecord) -> bool:
        """Returns whether another record says the same, whatever it cost and when it was made."""
        mine, others = (
            (each.error, each.accuracy, each.chosen, each.settings) for each in (self, other)
        )
        return mine == others

    @property
    def draw(self) -> int:
        """Returns the number of the draw of random words; 0 if there is none."""
        return int(self.settings.get("random_words") or 0)

    @property
    def with_words(self) -> bool:
        """Returns whether the prompt has words, or slots for them."""
        return self.words != 0

    @property
    def rules(self) -> Protocol:
        """Returns the protocol."""
        return find_protocol(self.protocol)

    def config(self) -> dict[str, Any]:
        """Returns every setting that can change the result, except the dataset and the seed."""
        values: dict[str, Any] = {}
        if self.arm != ZERO_SHOT:
            ignored = {setting.name for setting in settings() if not setting.changes_result}
            ignored |= self._settings_of_others()
            added = {} if self.arm in UNTRAINED else added_settings()
            values = {**added, **self.settings}
            values = {name: value for name, value in values.items() if name not in ignored}
            values |= {"words": self.words, "shots": self.shots}
        if POOL in values:
            values[POOL] = pool_name(values[POOL])
        values["backbone"] = self.backbone.get("name")
        values["weights"] = self.backbone.get("weights_sha256")
        values["precision"] = self.backbone.get("precision")
        return values

    def _settings_of_others(self) -> frozenset[str]:
        """Returns the settings that make no difference to the arm."""
        if not self.with_words:
            return settings_about_words()
        if self.arm == GIVEN or (self.arm == EMPTY and self.words != AUTO):
            return settings_about_search()
        return frozenset()

    def missing_settings(self) -> list[str]:
        """Returns the settings that every record of the arm has, and that this one lacks."""
        if self.arm in (ZERO_SHOT, LINEAR_PROBE):
            return []
        names = set(RECORDED_IN_0_1_0) - self._settings_of_others()
        if self.arm == WORDS_ONLY:
            names &= settings_about_search()
        return sorted(names - self.settings.keys())


def record_path(out: Path, run_id: str) -> Path:
    """Returns where the record of a run is, or will be."""
    return out / FOLDER / f"{run_id}.json"


def read_record(path: Path) -> RunRecord | None:
    """Returns the record in a file, None if there is no file.

    Raises
    ------
    DataError
        If the file cannot be read, or is damaged; the message says how.
    """
    try:
        values = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError):
        raise DataError(f"{path} is not valid JSON.") from None
    if not isinstance(values, dict):
        raise DataError(f"{path} is not a run record: it contains no JSON object.")
    if values.get("format") != FORMAT:
        raise DataError(
            f"{path} is not a run record of format {FORMAT}: its format is "
            f"{brief(values.get('format'))}."
        )
    try:
        return RunRecord.from_dict(values)
    except ValueError as error:
        raise DataError(f"{path} is a damaged run record: {error}.") from None


def read_records(
    folders: str | Path | Sequence[str | Path],
) -> tuple[list[RunRecord], list[str]]:
    """Read the runs recorded in bench folders.

    Of a run that was recorded twice the finished record counts, then the later one, then the one
    in the first folder; a sentence says which if the results differ.

    Parameters
    ----------
    folders : str, Path or sequence of these
        What `ipl bench --out` wrote.

    Returns
    -------
    records : list of RunRecord
        The runs, finished or failed.
    notes : list of str
        A sentence for each record that is damaged and left out, and for each run with two results.

    Raises
    ------
    DataError
        If a folder does not exist, or none of them has a record.
    """
    folders = [folders] if isinstance(folders, str | Path) else folders
    records: dict[str, RunRecord] = {}
    sources: dict[str, Path] = {}  # where each is from
    notes: list[str] = []
    for folder in map(Path, folders):
        if not is_folder(folder):
            raise DataError(
                f"{folder} is a file, not a folder of records."
                if path_exists(folder)
                else f"There is no folder {folder}."
            )
        for path in sorted((folder / FOLDER).glob("[!.]*.json")):
            try:
                record = read_record(path)
            except DataError as error:
                notes.append(f"{error} {LEFT_OUT}")
                continue
            if record is None:  # removed meanwhile
                continue
            other = records.get(record.id)
            if other is None or (record.done, record.time) > (other.done, other.time):
                records[record.id] = record
                sources[record.id] = path
            if other is not None and not other.same_results(record):
                notes.append(
                    f"The run {record.id} was recorded more than once, with different results; "
                    f"{sources[record.id]} counts."
                )
    if not records:
        names = ", ".join(str(folder) for folder in folders)
        if notes:
            raise DataError(
                f"All run records in {names} are damaged ({len(notes):,}). The first: "
                f"{notes[0].removesuffix(LEFT_OUT).rstrip()}"
            )
        raise DataError(
            f"There is no run record in {names}; `ipl bench ... --out DIR` writes them to "
            "DIR/records."
        )
    return list(records.values()), notes


def count_damaged(notes: Sequence[str]) -> int:
    """Returns how many notes of `read_records` are about a record that is left out."""
    return sum(note.endswith(LEFT_OUT) for note in notes)


def pool_name(pool: Any) -> str:
    """Returns what a pool of words is called: bundled, or the name of its file."""
    if not isinstance(pool, dict):
        return str(pool)
    name = BUNDLED
    if pool.get("words_file"):
        name = f"{Path(str(pool['words_file'])).name} {str(pool.get('sha256'))[:8]}"
    return f"{name} without names" if pool.get("no_names") else name


def _accuracy(values: Mapping[str, Any]) -> dict[str, float]:
    """Returns the accuracies of a finished run; raises ValueError if one is wrong or missing."""
    for fault in faults(values, {"accuracy": Entries(SHARE)}):
        raise ValueError(fault.rstrip("."))
    expected = PROTOCOLS[values["protocol"]].test_names(values["dataset"])
    if values["learner"] == LINEAR_PROBE:  # knows only the classes that it was trained on
        expected = expected[:1]
    for name in expected:
        if name not in values["accuracy"]:
            raise ValueError(f"accuracy of {brief(name)} is missing")
    return {name: float(number) for name, number in values["accuracy"].items()}


def _check_arm(record: RunRecord, arm: Any) -> None:
    """Raises ValueError if a record names another arm than it is of, or lacks settings of its arm.

    Version 0.1.0 did not record the arm.
    """
    if arm not in (None, record.arm):
        raise ValueError(f"arm is {brief(arm)}, but the other values are those of {record.arm}")
    if missing := record.missing_settings():
        raise ValueError(f"settings.{missing[0]} is missing")


def _words(values: Mapping[str, Any]) -> int | str:
    """Returns the number of words that a record names; in version 0.1, auto was the paper's."""
    words: int | str = 0 if values["learner"] == ZERO_SHOT else values["words"]
    version_of_record = str((values.get("versions") or {}).get("ipl"))
    return PAPER if words == AUTO and version_of_record.startswith("0.1.") else words
