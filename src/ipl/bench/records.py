"""Records: one JSON file for each run, whole or not there, under OUT/records."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from ipl._version import __version__
from ipl.backbone.backbone import Backbone
from ipl.bench.run import Run
from ipl.support.errors import DataError, IplError
from ipl.support.files import is_folder, write_json

FORMAT = 1
FOLDER = "records"
DONE, FAILED = STATUS = ("done", "failed")
NEEDED = ("id", "status", "protocol", "dataset", "learner", "words", "seed", "accuracy")


@dataclass(frozen=True)
class Records:
    """The records of a folder in the order of their names, and what could not be read of it."""

    found: tuple[dict[str, Any], ...]
    notes: tuple[str, ...] = ()

    def of(self, status: str) -> tuple[dict[str, Any], ...]:
        """Returns the records that are done, or that failed."""
        return tuple(record for record in self.found if record["status"] == status)


def record_path(out: Path, run_id: str) -> Path:
    """Returns where a run's record is, or will be."""
    return out / FOLDER / f"{run_id}.json"


def write_record(out: Path, record: Mapping[str, Any]) -> None:
    """Writes a record whole or not at all."""
    write_json(record_path(out, record["id"]), record)


def read_record(path: Path) -> dict[str, Any] | None:
    """Returns a record, None if there is none; raises DataError if it is damaged."""
    try:
        values = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"The record {path} cannot be read: {error}.") from None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise DataError(f"{path} is no record of format {FORMAT}.")
    lost = [name for name in NEEDED if name not in values]
    if lost or values["status"] not in STATUS:
        raise DataError(f"The record {path} is damaged: {(lost or ['status'])[0]} is missing.")
    return values


def read_records(out: Path) -> Records:
    """Returns all records below a folder; a damaged one costs a note, not the others."""
    if not is_folder(out / FOLDER):
        raise DataError(f"{out} holds no records; `ipl bench ... --out {out}` writes them.")
    found, notes = [], []
    for path in sorted((out / FOLDER).glob("[!.]*.json")):
        try:
            if (record := read_record(path)) is not None:
                found.append(record)
        except DataError as error:
            notes.append(str(error))
    return Records(tuple(found), tuple(notes))


def blank(run: Run, backbone: Backbone | None = None) -> dict[str, Any]:
    """Returns a record with all that is known before a run: it has failed, unless more is said."""
    record: dict[str, Any] = {
        "format": FORMAT,
        "id": run.id,
        "status": FAILED,
        "error": None,
        "protocol": run.protocol,
        "dataset": run.dataset,
        "targets": list(run.targets),
        "learner": run.learner,
        "words": run.words,
        "seed": run.seed,
        "shots": run.shots,
        "settings": dict(run.settings),
        "backbone": {"name": run.backbone, "weights_sha256": None, "precision": run.precision},
        "data": None,
        "chosen": [],
        "prompt": None,
        "accuracy": {},
        "history": None,
        "selection": None,
        "seconds": None,
        "peak_memory": None,
        "profile": None,
        "notes": [],
        "versions": {
            "ipl": __version__,
            "torch": torch.__version__,
            "transformers": version("transformers"),
            "python": platform.python_version(),
        },
        "device": None,
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    if backbone is not None:
        record["backbone"]["weights_sha256"] = backbone.weights_sha256
        gpu = backbone.device.type == "cuda"
        record["device"] = (
            torch.cuda.get_device_name(backbone.device) if gpu else backbone.device.type
        )
    return record


def failure(run: Run, error: str) -> dict[str, Any]:
    """Returns the record of a run that came to nothing, where nothing else is known of it."""
    return {**blank(run), "error": error}


def one_sentence(error: BaseException) -> str:
    """Returns what went wrong, in a line."""
    lines = str(error).strip().splitlines() or [""]
    if isinstance(error, IplError):
        return " ".join(line.strip() for line in lines)
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        what = "Out of memory"
    else:
        what = type(error).__name__
    return f"{what}: {lines[0]}" if lines[0] else f"{what}."
