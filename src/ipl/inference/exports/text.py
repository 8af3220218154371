"""`--to text`: the words and the readable prompt as plain text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ipl.classifier import PromptClassifier
from ipl.inference.exports.common import metadata
from ipl.support.files import write_text
from ipl.words.template import Template


def export_text(classifier: PromptClassifier, path: Path | None) -> dict[str, Any]:
    """Write the prompt as plain text to `path`, if there is one; returns the text as well."""
    text, selection = plain_text(classifier), classifier.selection_
    if path is not None:
        write_text(path, text)
    gains = [step.gain for step in selection.steps] if selection else []
    return {"text": text, "gains": gains, **metadata(classifier)}


def plain_text(classifier: PromptClassifier) -> str:
    """The prompt, its words with their gains, and a sentence for any other CLIP."""
    lines = [classifier.prompt_, ""]
    selection = classifier.selection_
    if selection is not None and selection.steps:
        width = max(len(step.word) for step in selection.steps)
        lines += [f"{step.word:<{width}}  {step.gain:+.4f}" for step in selection.steps]
        lines += ["", f"gain: utility - {selection.lambda_:g} * redundancy, on the training images"]
        sentence = Template(selection.template).full("{cls}", selection.words)
        lines += [f"without the vectors [V], the words alone: {sentence}", ""]
    else:
        lines += [classifier.result_.words_from, ""]
    lines.append(f"classes: {', '.join(map(str, classifier.classes_))}")
    backbone = classifier.learner_.backbone
    lines.append(f"backbone: {backbone.name}, weights SHA-256 {backbone.weights_sha256}")
    return "\n".join(lines) + "\n"
