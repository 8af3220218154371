"""Writing records: each whole or not at all, with all that is known of a run that failed."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from ipl._version import __version__
from ipl.backbone.backbone import Backbone
from ipl.bench.records import FAILED, record_path
from ipl.bench.run import Run
from ipl.saving.run_folder import FORMAT_VERSION
from ipl.support.errors import IplError
from ipl.support.files import write_json
from ipl.support.hub import is_on_hub
from ipl.training.checkpoint import remove_checkpoints

CHECKPOINTS = "checkpoints"  # keys in the cache that go with a record until it is written


def write_record(out: Path, record: Mapping[str, Any]) -> None:
    """Writes a record whole or not at all, and then removes the checkpoints of its training."""
    values = {name: value for name, value in record.items() if name != CHECKPOINTS}
    write_json(record_path(out, record["id"]), values)
    remove_checkpoints(record.get(CHECKPOINTS, ()))


def blank(run: Run, backbone: Backbone | None = None) -> dict[str, Any]:
    """Returns the record of a run that has failed, with all that is known before it is done."""
    record: dict[str, Any] = {
        "format": FORMAT_VERSION,
        "id": run.id,
        "status": FAILED,
        "error": None,
        "protocol": run.protocol,
        "dataset": run.dataset,
        "targets": list(run.targets),
        "learner": run.learner,
        "arm": run.arm,
        "words": run.words,
        "seed": run.seed,
        "shots": run.shots,
        "settings": dict(run.settings),
        "backbone": {"name": run.backbone, "weights_sha256": None, "precision": run.precision},
        "data": {},
        "chosen": [],
        "prompt": None,
        "accuracy": {},
        "history": None,
        "selection": None,
        "seconds": {},
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
        record["backbone"]["on_hub"] = is_on_hub(backbone.name)  # a folder can have such a name
        gpu = backbone.device.type == "cuda"
        record["device"] = (
            torch.cuda.get_device_name(backbone.device) if gpu else backbone.device.type
        )
    return record


def failure(run: Run, error: str) -> dict[str, Any]:
    """Returns the record of a run that failed, where nothing else is known of it."""
    return {**blank(run), "error": error}


def one_sentence(error: BaseException) -> str:
    """Returns what went wrong, in a line."""
    lines = str(error).strip().splitlines() or [""]
    if isinstance(error, IplError):
        return " ".join(line.strip() for line in lines)
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        kind = "Out of memory"
    else:
        kind = type(error).__name__
    return f"{kind}: {lines[0]}" if lines[0] else f"{kind}."
