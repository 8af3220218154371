"""What a fit came to."""

from __future__ import annotations

from typing import Any

from rich.console import Group
from rich.text import Text

from ipl.classifier import PromptClassifier
from ipl.reports.words import words_table


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
    if len(results.get("words_tried", ())) > 1:
        tried = ", ".join(
            f"{trial['words']}: {100 * trial['accuracy']:.1f} % (loss {trial['loss']:.4f})"
            for trial in results["words_tried"]
        )
        lines.append(f"Number of words by training accuracy, then loss: {tried}")
    parts: list[Any] = [Text("\n".join(lines)), Text("")]
    if classifier.selection_ is not None:
        parts += [words_table(classifier.selection_), Text("")]
    parts.append(Text.assemble("Prompt: ", (classifier.prompt_, "bold")))
    return Group(*parts)
