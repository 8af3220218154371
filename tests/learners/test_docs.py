"""The learner that docs/learners.md shows runs as it stands there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from ipl import PromptClassifier
from ipl.backbone.backbone import Backbone
from ipl.datasets.dataset import Dataset
from ipl.learners import registry
from ipl.learners.registry import learner_class
from ipl.support.errors import SavedRunError

DOCS = Path(__file__).parents[2] / "docs" / "learners.md"


@pytest.fixture
def smooth() -> Iterator[str]:
    (example,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert len(example.splitlines()) <= 45
    values: dict[str, Any] = {"__name__": "docs"}
    exec(example, values)  # the text of our own file
    yield "smooth"
    registry._LEARNERS.pop("smooth", None)


@pytest.mark.parametrize("words", [0, 2])
def test_the_sixth_learner_fits_saves_and_loads(
    smooth: str, words: int, pocket: Backbone, scenes: Dataset, tmp_path: Path
) -> None:
    base = scenes.only([0, 1, 2], "three")
    settings: dict[str, Any] = {"epochs": 6, "interval": 2, "shots": 2, "views": 0, "lr": 0.02}
    classifier = PromptClassifier(pocket, smooth, words, **settings).fit(base)
    assert learner_class("smooth").__name__ == "Smooth"
    assert len(classifier.words_) == words
    losses = [epoch.loss for epoch in classifier.result_.history.epochs]
    assert losses[-1] < losses[0]
    classifier.save_pretrained(tmp_path / "run")
    again = PromptClassifier.from_pretrained(tmp_path / "run", pocket)
    paths = [item.path for item in base.test[:3]]
    assert torch.equal(
        torch.from_numpy(again.predict_proba(paths)),
        torch.from_numpy(classifier.predict_proba(paths)),
    )
    del registry._LEARNERS["smooth"]
    with pytest.raises(SavedRunError, match="the learner 'smooth', which is not known here"):
        PromptClassifier.from_pretrained(tmp_path / "run", pocket)
