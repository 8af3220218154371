"""What every export refuses: a learner that it cannot hold, and a folder that is not empty."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ipl import PromptClassifier
from ipl.inference.exports.classifier import export_classifier
from ipl.inference.exports.transformers import export_transformers
from ipl.support.errors import ConfigError, IplError

Fitted = Callable[..., PromptClassifier]


@pytest.mark.parametrize(
    ("learner", "reason"),
    [
        ("cocoop", "its prompts shift with every image"),
        ("maple", "its prompts also enter the image tower"),
    ],
)
def test_what_is_no_matrix_is_refused_with_the_reason(
    learner: str, reason: str, fitted: Fitted, tmp_path: Path
) -> None:
    for export in (export_classifier, export_transformers):
        with pytest.raises(ConfigError, match=f"{learner} cannot be exported.*{reason}"):
            export(fitted(learner, 0), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_an_export_never_replaces_anything(fitted: Fitted, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    for export in (export_classifier, export_transformers):
        with pytest.raises(IplError, match="already exists; choose a new folder"):
            export(fitted("coop", 2), tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "mine"
