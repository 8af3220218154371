"""The chosen words and what each brought."""

from __future__ import annotations

from rich.table import Table

from ipl.selection import Selection


def words_table(selection: Selection) -> Table:
    """Returns a table of the words in order with gain, utility, redundancy and loss."""
    table = Table(box=None, pad_edge=False)
    table.add_column("word", style="bold")
    for column in ("gain", "utility", "redundancy", "loss after"):
        table.add_column(column, justify="right")
    table.add_column("next best")
    table.add_row("(none)", "", "", "", f"{selection.loss_without_words:.4f}", "")
    for step in selection.steps:
        table.add_row(
            step.word,
            f"{step.gain:+.4f}",
            f"{step.utility:+.4f}",
            f"{step.redundancy:.4f}",
            f"{step.loss:.4f}",
            ", ".join(ranked.word for ranked in step.runners_up[:3]),
        )
    return table
