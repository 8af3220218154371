"""`ipl learners`: list the prompt learners with their published hyperparameters and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import typer

from ipl.cli.output import console, print_json
from ipl.cli.shared_options import BACKBONE, DEVICE, JSON
from ipl.display.table import Styled, Table

if TYPE_CHECKING:
    from ipl.backbone.backbone import Backbone

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
    from ipl.backbone.model_files import read_sizes
    from ipl.learners.hyperparameters import PROTOCOLS
    from ipl.learners.published import PublishedSpec
    from ipl.learners.registry import known_learners, learner_spec

    sizes = read_sizes(backbone)
    rows: list[dict[str, Any]] = []
    for name in known_learners():
        spec = learner_spec(name)
        if spec.prompts_images and sizes is None and not len(_load(backbone, device).image_layers):
            continue  # this backbone takes no image prompts
        for k in (0, words) if words else (0,):
            published = spec.hyperparameters(k)
            layout = spec.layout_for(k, published.m)
            if sizes is not None and issubclass(spec, PublishedSpec):
                parameters = spec.count_parameters(layout, published.depth, sizes)
            else:
                parameters = _built_parameters(name, k, backbone, device)
            rows.append(
                {
                    "learner": name,
                    "words": k,
                    "prompt": layout.readable(),
                    "parameters": parameters,
                    "image_prompts": spec.prompts_images,
                    "recipes": {p: vars(spec.hyperparameters(k, p)) for p in PROTOCOLS},
                }
            )
    if as_json:
        print_json({"backbone": backbone, "learners": rows})
    else:
        console().print(learners_table(rows).to_terminal())


def _built_parameters(name: str, words: int, backbone: str, device: str) -> int:
    """Returns the number of parameters of a learner that has to be built to be counted."""
    from ipl.learners.registry import learner_class

    kind = learner_class(name)
    hyperparameters = kind.hyperparameters(words)
    clip = _load(backbone, device)
    learner = kind.from_hyperparameters(clip, ["cat", "dog"], words, hyperparameters)
    return sum(parameter.numel() for parameter in learner.parameters())


@cache
def _load(backbone: str, device: str) -> Backbone:
    from ipl.backbone.loading import load_backbone

    return load_backbone(backbone, device)


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
