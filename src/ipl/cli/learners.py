"""`ipl learners`: list the prompt learners with their published hyperparameters and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from ipl.backbone.loading import load_backbone
from ipl.cli.output import console, print_json
from ipl.cli.shared_options import BACKBONE, DEVICE, JSON
from ipl.display.table import Styled, Table
from ipl.learners.hyperparameters import PROTOCOLS
from ipl.learners.registry import known_learners, learner_class

COLUMNS = {  # by setting
    "epochs": "T",
    "interval": "t",
    "batch": "batch",
    "lr": "lr",
    "m": "m",
    "depth": "depth",
}


def learners(
    backbone: str = BACKBONE,
    words: int = typer.Option(3, help="Words in the prompt, for the column with words."),
    device: str = DEVICE,
    as_json: bool = JSON,
) -> None:
    """List the prompt learners with their published hyperparameters and parameter counts."""
    clip = load_backbone(backbone, device)
    rows: list[dict[str, Any]] = []
    for name in known_learners():
        kind = learner_class(name)
        if kind.prompts_images and not len(clip.image_layers):
            continue  # this backbone takes no image prompts
        for k in (0, words) if words else (0,):
            built = kind.from_hyperparameters(clip, ["cat", "dog"], k, kind.hyperparameters(k))
            rows.append(
                {
                    "learner": name,
                    "words": k,
                    "prompt": built.layout.readable(),
                    "parameters": sum(parameter.numel() for parameter in built.parameters()),
                    "image_prompts": kind.prompts_images,
                    "recipes": {p: vars(kind.hyperparameters(k, p)) for p in PROTOCOLS},
                }
            )
    if as_json:
        print_json({"backbone": backbone, "learners": rows})
    else:
        console().print(learners_table(rows).to_terminal())


def learners_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Returns a table of the learners, each with a row without words and one with words."""
    numbers = ["words", "parameters", *COLUMNS.values()]
    cells = []
    for row in rows:
        hyperparameters, across = row["recipes"].values()
        changes = [
            f"{COLUMNS[key]} {across[key]}"
            for key in ("epochs", "lr", "depth")
            if hyperparameters[key] != across[key]
        ]
        cells.append(
            [
                Styled(row["learner"], "bold"),
                str(row["words"]),
                f"{row['parameters']:,}",
                *(str(hyperparameters[key]) for key in COLUMNS),
                ", ".join(changes) or "the same",
                row["prompt"].replace("*_*", "*word*"),
            ]
        )
    columns = ["learner", *numbers, "across datasets", "prompt"]
    return Table(columns, cells, numbers=numbers, unwrapped=["prompt"])
