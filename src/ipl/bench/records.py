"""Records: one JSON file for each run under OUT/records, read with checks."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict

from ipl.bench.arms import LINEAR_PROBE, UNTRAINED, ZERO_SHOT, arm_of
from ipl.bench.protocols.protocol import Protocol
from ipl.bench.protocols.registry import find_protocol
from ipl.bench.run import POOL, settings_in_force
from ipl.config import CHOSEN, EMPTY, GIVEN, PLAIN, RANDOM, settings
from ipl.config_fields import checked_value
from ipl.learners.hyperparameters import Hyperparameters
from ipl.saving.run_folder import FORMAT_VERSION
from ipl.support.errors import ConfigError, DataError, brief
from ipl.support.plain_values import Share, from_plain
from ipl.training.history import TrainingHistory
from ipl.words.selection import Selection

FOLDER = "records"
DONE, FAILED = ("done", "failed")
NOT_RUN = "not run"  # as an error: there is no record
BUNDLED = "bundled"  # the pool of words in the package
LEFT_OUT = "It is left out."


class RecordedPool(TypedDict):
    """The pool of words of a run: the path of its file, if it has one, and a hash."""

    words_file: str | None
    sha256: str
    no_names: bool


class RecordedBackbone(TypedDict, total=False):
    """The backbone of a run; of one that failed early, only the name and the precision."""

    name: str
    on_hub: bool
    weights_sha256: str | None
    precision: str


class RecordedData(TypedDict, total=False):
    """The data of a finished run, by test set where there are several."""

    classes: dict[str, int]
    test_images: dict[str, int]
    missing_images: dict[str, int]
    unreadable_images: dict[str, int]
    split_sha256: str
    target_sha256: dict[str, str]
    test_sha256: str


class Utilisation(TypedDict):
    """How busy the device was, in percent, and the share of samples above 50 %."""

    mean: float
    p95: float
    above_50: float


class RecordedProfile(TypedDict):
    """What `--profile` measured."""

    source: str
    utilisation: Utilisation | None


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
    backbone: RecordedBackbone = field(repr=False)
    data: RecordedData = field(repr=False)
    accuracy: dict[str, Share]
    error: str | None
    chosen: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    time: str = ""
    device: str | None = None
    seconds: dict[str, float] = field(default_factory=dict, repr=False)
    peak_memory: int | None = None
    profile: RecordedProfile | None = field(default=None, repr=False)
    selection: Selection | None = field(default=None, repr=False)
    history: TrainingHistory | None = field(default=None, repr=False)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RunRecord:
        """Returns the record that plain values say.

        Raises
        ------
        ConfigError
            If a value is missing or not allowed, or values contradict each other.
        """
        record: RunRecord = from_plain(cls, values)
        find_protocol(record.protocol)
        for setting in settings():
            if setting.name == "words":
                checked_value(setting, record.words)
        if values.get("status") != record.status:
            raise ConfigError(
                f"status is {brief(values.get('status'))}; with the error "
                f"{brief(record.error)} it must be {record.status}."
            )
        if values.get("arm") != record.arm:
            raise ConfigError(
                f"arm is {brief(values.get('arm'))}, but the other values are those of "
                f"{record.arm}."
            )
        record = replace(record, settings=_checked_settings(record))
        if record.done:
            for name in _tested(record):
                if name not in record.accuracy:
                    raise ConfigError(f"accuracy of {brief(name)} is missing.")
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
            values = {**self.settings, "words": self.words, "shots": self.shots}
        if POOL in values:
            values[POOL] = pool_name(values[POOL])
        values["backbone"] = self.backbone.get("name")
        values["weights"] = self.backbone.get("weights_sha256")
        values["precision"] = self.backbone.get("precision")
        return values


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
    if values.get("format") != FORMAT_VERSION:
        raise DataError(
            f"{path} is not a run record of format {FORMAT_VERSION}: its format is "
            f"{brief(values.get('format'))}."
        )
    try:
        return RunRecord.from_dict(values)
    except ConfigError as error:
        raise DataError(f"{path} is a damaged run record: {error}") from None


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
        if not os.path.isdir(folder):
            raise DataError(
                f"{folder} is a file, not a folder of records."
                if os.path.exists(folder)
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


def pool_name(pool: RecordedPool) -> str:
    """Returns what a pool of words is called: bundled, or the name of its file."""
    name = BUNDLED
    if pool["words_file"]:
        name = f"{Path(pool['words_file']).name} {pool['sha256'][:8]}"
    return f"{name} without names" if pool["no_names"] else name


def _tested(record: RunRecord) -> Sequence[str]:
    """Returns the names of the accuracies that a finished run has."""
    expected = record.rules.test_names(record.dataset)
    # A linear probe knows only the classes that it was trained on.
    return expected[:1] if record.arm == LINEAR_PROBE else expected


def _checked_settings(record: RunRecord) -> dict[str, Any]:
    """Returns the settings that the record's result depends on, each of them checked."""
    names = settings_in_force(record.arm, record.words)
    for name in sorted(names):
        if name not in record.settings:
            raise ConfigError(f"settings.{name} is missing.")
    checked = {name: record.settings[name] for name in record.settings if name in names}
    if POOL in checked:
        checked[POOL] = from_plain(RecordedPool, checked[POOL], f"settings.{POOL}")
    for setting in settings():
        if setting.name in checked:
            checked[setting.name] = checked_value(setting, checked[setting.name])
    if record.arm not in UNTRAINED:
        values = {"interval": 1, **checked}  # which a prompt without words does not have
        numbers = vars(from_plain(Hyperparameters, values, "settings"))
        checked |= {name: value for name, value in numbers.items() if name in names}
    return checked
