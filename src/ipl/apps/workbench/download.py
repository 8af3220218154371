"""The saved form of a prompt in one file to download."""

from __future__ import annotations

import re
import tempfile
import zipfile
from pathlib import Path

from ipl.classifier import PromptClassifier
from ipl.support.files import replace_file


def run_name(classifier: PromptClassifier) -> str:
    """Returns a name for a run: data, learner, words and seed."""
    training = classifier.training_
    parts = [str(training.get("data", "prompt")), classifier.learner, f"{len(classifier.words_)}w"]
    if "seed" in training:
        parts.append(f"seed{training['seed']}")
    return re.sub(r"[^A-Za-z0-9._-]", "-", "-".join(parts))[-100:]


def pack(classifier: PromptClassifier, folder: Path) -> Path:
    """Returns a zip file of the folder that `save_pretrained` writes, made below `folder`."""
    name = run_name(classifier)
    target = folder / f"{name}.zip"
    with tempfile.TemporaryDirectory(dir=folder) as work:
        run = Path(work) / name
        classifier.save_pretrained(run)
        with (
            replace_file(target) as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed,
        ):
            for path in sorted(run.iterdir()):
                packed.write(path, f"{name}/{path.name}")
    return target
