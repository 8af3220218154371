"""Records: one JSON file for each run under OUT/records, written whole and read with checks."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from ipl._version import __version__
from ipl.backbone.backbone import Backbone
from ipl.bench.arms import LINEAR_PROBE, ZERO_SHOT
from ipl.bench.protocols import find_protocol
from ipl.bench.protocols.protocol import Protocol
from ipl.bench.run import Run, training_id
from ipl.saving.run_folder import FORMAT_VERSION
from ipl.support.errors import ConfigError, DataError, brief
from ipl.support.files import check_regular, write_json
from ipl.support.hub import is_on_hub
from ipl.support.plain_values import Share, from_plain
from ipl.training.checkpoint import remove_checkpoints
from ipl.training.history import TrainingHistory
from ipl.words.selection import Selection

FOLDER = "records"
DONE, FAILED = ("done", "failed")


@dataclass(frozen=True)
class RunRecord:
    """What was run, and the accuracies or the error it came to."""

    id: str
    protocol: str
    dataset: str  # that was trained on
    learner: str  # or the arm that has none
    arm: str  # a key of `ARMS`
    words: int | str
    seed: int
    shots: int
    settings: dict[str, Any] = field(repr=False)  # in force, `Run.settings`
    # Its name and precision and, once it was loaded, what tells copies of it apart.
    backbone: dict[str, Any] = field(repr=False)
    # Numbers of classes and images, and hashes of the lists, by test set where there are several.
    data: dict[str, Any] = field(repr=False)
    accuracy: dict[str, Share]  # by test set; empty if the run failed
    error: str | None
    chosen: tuple[str, ...] = ()  # the words in the prompt
    targets: tuple[str, ...] = ()  # that were to be tested beside the dataset
    time: str = ""  # when the run ended
    device: str | None = None  # the name of the GPU, or the kind of device
    seconds: dict[str, float] = field(default_factory=dict, repr=False)  # of `fit` and `test`
    peak_memory: int | None = None  # bytes: of the GPU where there is one, else resident
    profile: dict[str, Any] | None = field(default=None, repr=False)  # with --profile
    # The search; its times are those of when it was done, which may be earlier.
    selection: Selection | None = field(default=None, repr=False)
    history: TrainingHistory | None = field(default=None, repr=False)
    prompt: str | None = None
    train_accuracy: Share | None = None
    words_tried: tuple[dict[str, Any], ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = field(default=(), repr=False)
    versions: dict[str, str] = field(default_factory=dict, repr=False)
    traceback: str | None = field(default=None, repr=False)
    # The keys of its trainings in the cache, where they stay until the record is written.
    checkpoints: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def failed(
        cls, run: Run, error: str, backbone: Backbone | None = None, checked: bool = False
    ) -> RunRecord:
        """The record of a run that has failed, with all that is known before it is done.

        `checked` says whether the hash of the backbone's weights is one that the user gave.
        """
        device, values = None, run.as_values()
        identity = {"name": values.pop("backbone"), "precision": values.pop("precision")}
        if backbone is not None:
            identity["weights_sha256"] = backbone.weights_sha256
            identity["on_hub"] = is_on_hub(backbone.name)  # a folder can have such a name
            identity["architecture"] = architecture_of(backbone)
            identity["weights_checked"] = checked
            gpu = backbone.device.type == "cuda"
            device = torch.cuda.get_device_name(backbone.device) if gpu else backbone.device.type
        return cls(
            **{**values, "targets": run.targets},
            id=run.id,
            arm=run.arm,
            backbone=identity,
            data={},
            accuracy={},
            error=error,
            time=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            device=device,
            versions={
                "ipl": __version__,
                "torch": torch.__version__,
                "transformers": version("transformers"),
                "python": platform.python_version(),
            },
        )

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values that `from_dict` takes."""
        values = asdict(self)
        values["selection"] = self.selection.as_dict() if self.selection else None
        values["history"] = self.history.as_dict() if self.history else None
        return {"format": FORMAT_VERSION, "status": self.status, **values}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RunRecord:
        """The record that plain values say.

        Raises
        ------
        ConfigError
            If a value is missing or of another type.
        """
        record: RunRecord = from_plain(cls, {"checkpoints": [], **values})
        tested = record.rules.test_names(record.dataset)
        # A linear probe knows only the classes that it was trained on.
        for name in tested[: 1 if record.arm == LINEAR_PROBE else None]:
            if record.done and name not in record.accuracy:
                raise ConfigError(f"accuracy of {brief(name)} is missing.")
        return record

    @property
    def status(self) -> str:
        return DONE if self.done else FAILED

    @property
    def done(self) -> bool:
        """Whether the run came to accuracies."""
        return self.error is None

    @property
    def draw(self) -> int:
        """The number of the draw of random words; 0 if there is none."""
        return int(self.settings.get("random_words") or 0)

    @property
    def training(self) -> str:
        """The id of the training, as `Run.training`; prompts are kept under it."""
        names = ("protocol", "dataset", "targets", "learner", "words", "seed", "shots", "settings")
        values = {name: getattr(self, name) for name in names}
        values |= {"backbone": self.backbone["name"], "precision": self.backbone["precision"]}
        return training_id(self.id, self.arm, values)

    @property
    def rules(self) -> Protocol:
        return find_protocol(self.protocol)

    def config(self) -> dict[str, Any]:
        """Every setting that can change the result, except the dataset and the seed."""
        values: dict[str, Any] = {}
        if self.arm != ZERO_SHOT:
            values = {**self.settings, "words": self.words, "shots": self.shots}
        values["backbone"] = self.backbone.get("name")
        values["weights"] = self.backbone.get("weights_sha256")
        values["precision"] = self.backbone.get("precision")
        return values


def architecture_of(backbone: Backbone) -> str:
    """The sizes of a backbone's towers in a line, which copies of it share."""
    vision = getattr(backbone.model.config, "vision_config", None)
    patch, activation = (getattr(vision, name, "?") for name in ("patch_size", "hidden_act"))
    return (
        f"{backbone.family}, text {backbone.text_layers} x {backbone.text_width}, image "
        f"{backbone.image_layers} x {backbone.image_width}, patches of {patch} in "
        f"{backbone.preprocessing.crop}, {activation}, {backbone.feature_dim} features"
    )


def record_path(out: Path, run_id: str) -> Path:
    """Where the record of a run is, or will be."""
    return out / FOLDER / f"{run_id}.json"


def write_record(out: Path, record: RunRecord) -> None:
    """Writes a record whole or not at all, and then removes the checkpoints of its training."""
    values = record.as_dict()
    del values["checkpoints"]
    write_json(record_path(out, record.id), values)
    remove_checkpoints(record.checkpoints)


def read_record(path: Path) -> RunRecord | None:
    """The record in a file, None if there is no file; DataError says how it is damaged."""
    try:
        check_regular(path)
        values = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError):
        raise DataError(f"{path} is not valid JSON.") from None
    try:
        if not isinstance(values, dict) or values.get("format") != FORMAT_VERSION:
            raise ConfigError(f"it is not a run record of format {FORMAT_VERSION}.")
        return RunRecord.from_dict(values)
    except ConfigError as error:
        raise DataError(f"{path} is a damaged run record: {error}") from None


def read_records(
    folders: str | Path | Sequence[str | Path],
) -> tuple[list[RunRecord], list[str]]:
    """Read the runs recorded in bench folders.

    Of a run that was recorded twice the finished record counts, then the later one.

    Parameters
    ----------
    folders : str, Path or sequence of these
        What `ipl bench --out` wrote.

    Returns
    -------
    records : list of RunRecord
        The runs, finished or failed.
    notes : list of str
        A sentence for each record that is damaged and left out.

    Raises
    ------
    DataError
        If a folder does not exist, or none of them has a record.
    """
    paths = [Path(one) for one in ([folders] if isinstance(folders, str | Path) else folders)]
    records: dict[str, RunRecord] = {}
    notes: list[str] = []
    for folder in paths:
        if not os.path.isdir(folder):
            raise DataError(f"There is no folder {folder}.")
        for path in sorted((folder / FOLDER).glob("[!.]*.json")):
            try:
                record = read_record(path)
            except DataError as error:
                notes.append(f"{error} It is left out.")
                continue
            if record is not None:  # else it was removed meanwhile
                other = records.get(record.id, record)
                records[record.id] = max(other, record, key=lambda one: (one.done, one.time))
    if not records:
        names = ", ".join(map(str, paths))
        raise DataError(
            f"All run records in {names} are damaged ({len(notes):,}). The first: {notes[0]}"
            if notes
            else f"There is no run record in {names}; `ipl bench ... --out DIR` writes them to "
            "DIR/records."
        )
    return list(records.values()), notes
