"""Learners by name: the five, a user's own, and those of installed packages."""

from __future__ import annotations

import re
import sys
import warnings
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
def own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, type[Learner]]]:
    """Yields a registry that a test may add to, with no plugin loaded yet."""
    names = dict(registry._LEARNERS)
    monkeypatch.setattr(registry, "_LEARNERS", names)
    registry._load_plugins.cache_clear()
    yield names
    registry._load_plugins.cache_clear()


def install(monkeypatch: pytest.MonkeyPatch, module: str, **contents: object) -> list[EntryPoint]:
    """Returns entry points of a module made of these contents, as an installed package has."""
    made = ModuleType(module)
    vars(made).update(contents)
    monkeypatch.setitem(sys.modules, module, made)
    return [EntryPoint(name, f"{module}:{name}", "ipl.learners") for name in contents]


def announce(monkeypatch: pytest.MonkeyPatch, *points: EntryPoint) -> list[str]:
    asked: list[str] = []

    def entry_points(*, group: str) -> list[EntryPoint]:
        asked.append(group)
        return list(points)

    monkeypatch.setattr(registry, "entry_points", entry_points)
    return asked


def test_the_five_are_known() -> None:
    assert set(FIVE) <= set(known_learners())
    assert list(known_learners()) == sorted(known_learners())
    for name in FIVE:
        assert learner_class(name).name == name
    with pytest.raises(ConfigError, match="No learner is called 'coopp'. Did you mean 'coop'"):
        learner_class("coopp")


def test_a_learner_without_a_name_or_a_method(own_registry: dict[str, type[Learner]]) -> None:
    with pytest.raises(ConfigError, match='Nameless has no name.*such as name = "nameless"'):
        register(type("Nameless", (CoOp,), {}))
    with pytest.raises(ConfigError, match="Nameless has no name of its own"):
        register(type("Nameless", (Learner,), {}))
    with pytest.raises(ConfigError, match="'bare' lacks hyperparameters and layout_for"):
        register(type("Bare", (Learner,), {"name": "bare"}))
    assert "bare" not in known_learners()


def test_a_users_own_learner(own_registry: dict[str, type[Learner]]) -> None:
    class Mine(CoOp):
        name = "mine"

    assert register(Mine) is Mine
    assert learner_class("mine") is Mine
    assert "mine" in known_learners()
    assert register(Mine) is Mine  # once more does no harm


@pytest.mark.parametrize("called", ["Other", "CoOp"])
def test_a_name_is_given_once(own_registry: dict[str, type[Learner]], called: str) -> None:
    """Even a class that is called the same, of another module, does not take another's place."""
    with pytest.raises(ConfigError, match="'coop' is already registered"):
        register(type(called, (CoOp,), {"name": "coop", "__module__": "somewhere.else"}))
    assert learner_class("coop") is CoOp


def test_an_installed_package_brings_a_learner(
    own_registry: dict[str, type[Learner]], monkeypatch: pytest.MonkeyPatch
) -> None:
    plugged = type("Plugged", (CoOp,), {"name": "plugged"})
    asked = announce(monkeypatch, *install(monkeypatch, "ipl_plugin", Plugged=plugged))
    assert learner_class("coop") is CoOp
    assert asked == []  # what is known needs no plugins
    assert learner_class("plugged") is plugged
    assert "plugged" in known_learners()
    assert asked == ["ipl.learners"]  # asked once


def test_a_broken_package_warns_and_the_others_work(
    own_registry: dict[str, type[Learner]], monkeypatch: pytest.MonkeyPatch
) -> None:
    good = type("Good", (CoOp,), {"name": "good"})
    thief = type("Thief", (CoOp,), {"name": "coop"})
    announce(
        monkeypatch,
        EntryPoint("missing", "no_such_module_of_anyone:Learner", "ipl.learners"),
        *install(monkeypatch, "ipl_half", Nothing="not a learner", Thief=thief),
        EntryPoint("gone", "ipl_half:Gone", "ipl.learners"),
        *install(monkeypatch, "ipl_good", Good=good),
    )
    with pytest.warns(UserWarning, match="cannot be loaded") as caught:
        names = known_learners()
    said = [str(warning.message) for warning in caught]
    assert len(said) == 4
    for name, line in zip(("missing", "Nothing", "Thief", "gone"), said, strict=True):
        assert line.startswith(f"The learner {name!r} cannot be loaded: ")
    assert {"good", *FIVE} <= set(names)
    assert learner_class("good") is good
    assert learner_class("coop") is CoOp
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        known_learners()  # says it once


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
