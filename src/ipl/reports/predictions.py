"""Predictions as a table for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text


def predictions_table(predictions: Sequence[dict[str, Any]]) -> Table:
    """Returns a table with a row per image and its classes with probabilities, best first."""
    table = Table(box=None, pad_edge=False)
    table.add_column("image", overflow="fold")
    table.add_column("classes, most probable first")
    for prediction in predictions:
        ranked = [f"{c['name']} {100 * c['probability']:.1f} %" for c in prediction["classes"]]
        table.add_row(Text(prediction["image"]), Text(", ".join(ranked)))
    return table
