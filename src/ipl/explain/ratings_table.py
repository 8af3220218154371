"""What people's ratings came to, in a terminal and as plain values."""

from __future__ import annotations

from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from ipl.display.formatting import listed
from ipl.explain.ratings.results import RatingResults
from ipl.explain.ratings_section import (
    MEANING,
    NAMES,
    agreement_text,
    difference_text,
    mean_text,
    rated_text,
)
from ipl.explain.values import plain_values


def ratings_report(found: RatingResults) -> Group:
    """Returns means per run and list, agreement and differences."""
    if not found.done:
        return Group(Text("No one has rated yet."))
    people = [f"{name} {done} of {found.items}" for name, done in found.done]
    parts: list[Any] = [_table(found), Text(""), Text(f"Words rated: {listed(people)}.")]
    named = [(f"{run.name}: ", run.agreement) for run in found.runs]
    if len(found.runs) > 1:
        named.append(("All runs: ", found.agreement))
    parts += [Text(name + agreement_text(agreement)) for name, agreement in named]
    parts.append(Text(MEANING))
    for run in found.runs:
        parts += [Text(f"{run.name}: {difference_text(one)}") for one in run.differences]
    return Group(*parts)


def _table(found: RatingResults) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("run", "words"):
        table.add_column(column, style="bold" if column == "run" else "")
    for column in ("mean rating", "words rated", "raters", "ratings"):
        table.add_column(column, justify="right")
    groups = [(run.name, run.lists) for run in found.runs]
    if len(found.runs) > 1:
        groups.append(("all runs", found.together))
    for name, lists in groups:
        for one in lists:
            counts = (rated_text(one), str(one.raters), str(one.ratings))
            table.add_row(name, NAMES[one.method], mean_text(one), *counts)
    return table


def ratings_values(found: RatingResults) -> dict[str, Any]:
    """Returns the results as plain values for JSON, with the raters' names."""
    values = plain_values(found)
    values["done"] = [{"rater": name, "items": done} for name, done in found.done]
    return {"scale": [1, 5], **values}
