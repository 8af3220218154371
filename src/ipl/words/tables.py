"""The chosen words and what each brought."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from ipl.words.selection import Selection


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


def selection_report(selection: Selection) -> Group:
    """Returns the words with their gains, what was proved, and how returns diminished."""
    lines = [_how(selection)]
    lines.append(f"gain = utility - {selection.lambda_:g} * redundancy")
    curve = selection.diminishing_returns()
    # Of words that were picked out to be scored, a share would say nothing about the pool.
    if curve["pairs"] and selection.search == "exhaustive":
        lines.append(
            f"A word's gain rose from one step to the next in {100 * curve['share']:.1f} % of "
            f"{curve['pairs']:,} cases; with a submodular objective it never would."
        )
    if selection.recall is not None:
        held = [step.word for step in selection.steps if step.recalled]
        lines.append(
            f"The shortlist held the true winner at {len(held)} of {len(selection.steps)} steps"
            + (f" ({', '.join(held)})." if held else ".")
        )
    if not selection.steps:
        return Group(Text("No words were asked for."))
    return Group(words_table(selection), Text(""), Text("\n".join(lines)))


def _how(selection: Selection) -> str:
    scored = ", ".join(f"{step.scored:,}" for step in selection.steps)
    seconds = sum(step.seconds for step in selection.steps)
    what = f"the loss of {scored} of {selection.pool_size:,} words was computed, {seconds:.1f} s"
    if not selection.certified:
        return f"Approximate ({selection.search}): {what}. Another word may be better."
    return f"Proved ({selection.search}): no other word has a higher gain at its step; {what}."
