"""Learners by name: the five, a user's own, and those of installed packages."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from ipl import PromptClassifier
from ipl.backbone.backbone import Backbone
from ipl.datasets.dataset import Dataset
from ipl.learners import registry
from ipl.learners.coop import CoOp
from ipl.learners.learner import Learner
from ipl.learners.registry import known_learners, learner_class, register
from ipl.support.errors import ConfigError, SavedRunError
from ipl.words.pool import Pool

FIVE = ("cocoop", "coop", "kgcoop", "maple", "promptsrc")


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A registry that a test may add to, with no plugin loaded yet."""
    monkeypatch.setattr(registry, "_LEARNERS", dict(registry._LEARNERS))
    registry._load_plugins.cache_clear()
    yield
    registry._load_plugins.cache_clear()


def test_the_five_are_known() -> None:
    assert set(FIVE) <= set(known_learners())
    assert list(known_learners()) == sorted(known_learners())
    for name in FIVE:
        assert learner_class(name).name == name
    with pytest.raises(ConfigError, match="No learner is called 'coopp'. Did you mean 'coop'"):
        learner_class("coopp")


@pytest.mark.usefixtures("own_registry")
def test_a_users_own_learner() -> None:
    mine = type("Mine", (CoOp,), {"name": "mine"})
    assert register(mine) is mine
    assert register(mine) is mine  # once more does no harm
    assert learner_class("mine") is mine
    with pytest.raises(ConfigError, match='Nameless has no name.*such as name = "nameless"'):
        register(type("Nameless", (CoOp,), {}))
    with pytest.raises(ConfigError, match="'bare' lacks hyperparameters and layout_for"):
        register(type("Bare", (Learner,), {"name": "bare"}))
    # Even a class that is called the same, of another module, does not take another's place.
    for called in ("Other", "CoOp"):
        with pytest.raises(ConfigError, match="'coop' is already registered"):
            register(type(called, (CoOp,), {"name": "coop", "__module__": "somewhere.else"}))
    assert learner_class("coop") is CoOp


@pytest.mark.usefixtures("own_registry")
def test_installed_packages_bring_learners(monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that is broken, or takes another's name, warns once and does not disable the rest."""
    good = type("Good", (CoOp,), {"name": "good", "__module__": "ipl_plugin"})
    thief = type("Thief", (CoOp,), {"name": "coop", "__module__": "ipl_plugin"})
    plugin = ModuleType("ipl_plugin")
    vars(plugin).update(Good=good, Thief=thief)
    monkeypatch.setitem(sys.modules, "ipl_plugin", plugin)
    points = [
        EntryPoint("missing", "no_such_module_of_anyone:Learner", "ipl.learners"),
        EntryPoint("thief", "ipl_plugin:Thief", "ipl.learners"),
        EntryPoint("good", "ipl_plugin:Good", "ipl.learners"),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda *, group: points)
    with pytest.warns(UserWarning, match="cannot be loaded") as caught:
        assert learner_class("good") is good
    assert [str(warning.message).split("'")[1] for warning in caught] == ["missing", "thief"]
    assert {"good", *FIVE} <= set(known_learners())
    assert learner_class("coop") is CoOp


# -- the learner that docs/learners.md shows -------------------------------------------------------

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
    smooth: str, words: int, pocket: Backbone, scenes: Dataset, pool: Pool, tmp_path: Path
) -> None:
    base = scenes.only([0, 1, 2], "three")
    settings: dict[str, Any] = {"epochs": 6, "interval": 2, "shots": 2, "views": 0, "lr": 0.02}
    classifier = PromptClassifier(pocket, smooth, words, pool=pool, **settings).fit(base)
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
    with pytest.raises(SavedRunError, match="the learner 'smooth', which is not installed"):
        PromptClassifier.from_pretrained(tmp_path / "run", pocket)
