"""The learners and their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table


def learners_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Returns a table of learners, one row each without and with words."""
    table = Table(box=None, pad_edge=False)
    table.add_column("learner", style="bold")
    for column in ("words", "parameters", "T", "t", "batch", "lr", "m", "depth"):
        table.add_column(column, justify="right")
    table.add_column("across datasets")
    table.add_column("prompt", no_wrap=True)
    for row in rows:
        recipe, across = row["recipes"].values()
        changed = [key for key in ("epochs", "lr", "depth") if recipe[key] != across[key]]
        names = {"epochs": "T", "lr": "lr", "depth": "depth"}
        table.add_row(
            row["learner"],
            str(row["words"]),
            f"{row['parameters']:,}",
            *(str(recipe[key]) for key in ("epochs", "interval", "batch", "lr", "m", "depth")),
            ", ".join(f"{names[key]} {across[key]}" for key in changed) or "the same",
            row["prompt"].replace("*_*", "*word*"),
        )
    return table
