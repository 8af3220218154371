"""What a fit came to."""

from __future__ import annotations

from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from ipl.classifier import PromptClassifier
from ipl.words.tables import words_table


def fit_report(classifier: PromptClassifier) -> Group:
    """Returns accuracies, words with their gains and the prompt as a line of text."""
    results: dict[str, Any] = classifier.results_
    lines = [
        f"Accuracy on {classifier.training_['images']} training images: "
        f"{100 * results['train_accuracy']:.1f} %"
    ]
    if results["held_out_accuracy"] is None:
        lines.append("Held-out accuracy: not measured, no readable image was left for it")
    else:
        lines.append(
            f"Accuracy on {results['held_out_images']} held-out images: "
            f"{100 * results['held_out_accuracy']:.1f} %"
        )
    parts: list[Any] = [Text("\n".join(lines)), Text("")]
    if len(results.get("words_tried", ())) > 1:
        parts += [_tried(results["words_tried"], len(classifier.words_)), Text("")]
    if classifier.selection_ is not None:
        parts += [words_table(classifier.selection_), Text("")]
        if not classifier.selection_.certified:
            how = f"Approximate ({classifier.selection_.search}): another word may be better."
            parts += [Text(how), Text("")]
    parts.append(Text.assemble("Prompt: ", (classifier.prompt_, "bold")))
    return Group(*parts)


def _tried(trials: list[dict[str, Any]], taken: int) -> Table:
    """Returns a table of the numbers of words that were trained with, the one taken marked."""
    table = Table(box=None, pad_edge=False)
    table.add_column("words", justify="right")
    table.add_column("training accuracy", justify="right")
    table.add_column("loss", justify="right")
    table.add_column("")
    for trial in trials:
        best = trial["words"] == taken
        table.add_row(
            str(trial["words"]),
            f"{100 * trial['accuracy']:.1f} %",
            f"{trial['loss']:.4f}",
            "taken" if best else "",
            style="bold" if best else "",
        )
    return table
