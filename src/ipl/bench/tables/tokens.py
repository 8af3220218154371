"""The tokens nearest to the vectors of prompts without words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from ipl.backbone.backbone import Backbone
from ipl.backbone.loading import load_backbone
from ipl.bench import paper_numbers as paper
from ipl.bench.records import RunRecord
from ipl.config import PLAIN

PROMPTS = "prompts"  # in a bench's folder: what `ipl bench --save-prompts` keeps
TENSORS = "prompt.safetensors"


def token_rows(folder: Path, runs: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """Rows of a table of words: the tokens nearest to the vectors of learners without words.

    There are none unless `ipl bench --save-prompts` has kept such prompts.
    """
    backbones: dict[str, Backbone] = {}
    rows: list[dict[str, Any]] = []
    for run in runs:
        path = folder / PROMPTS / run.id / TENSORS
        if run.arm == PLAIN and path.is_file():
            name = str(run.backbone["name"])
            backbones[name] = backbones.get(name) or load_backbone(name, "cpu")
            nearest = backbones[name].nearest_tokens(load_file(path)["soft"])
            tokens = [first for (first,) in nearest]
            row = {"dataset": run.dataset, "learners": run.learner, "seed": run.seed}
            rows.append({**row, "backbone": name, "words": " ".join(tokens), "rating": None})
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        if known := paper.rated_words(dataset, "coop"):
            words, rating = known
            row = {"dataset": dataset, "backbone": paper.BACKBONE, "learners": "paper"}
            rows.append({**row, "words": words, "rating": rating})
    return [{**row, "nearest": True} for row in rows]
