"""Saved runs compared."""

from __future__ import annotations

import json
from pathlib import Path


def same_run(one: Path, other: Path) -> bool:
    """Returns whether two runs are the same but for the time that they took."""
    configs = [json.loads((run / "config.json").read_text()) for run in (one, other)]
    for config in configs:
        del config["training"]["history"]["seconds"]
        for step in (config["selection"] or {"steps": ()})["steps"]:
            del step["seconds"]
    tensors = [(run / "prompt.safetensors").read_bytes() for run in (one, other)]
    return bool(configs[0] == configs[1] and tensors[0] == tensors[1])
