"""From images to words in one call."""

from __future__ import annotations

import pytest

from ipl.backbone.backbone import Backbone
from ipl.backbone.siglip import SiglipBackbone
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset
from ipl.select import select_words
from ipl.support.errors import ConfigError
from ipl.words.pool import Pool
from ipl.words.selection import Selection

POOL = Pool.from_words(Pool.bundled().words[::150], "test")
FEW = Pool.from_words(POOL.words[::2], "test")


@pytest.fixture(scope="module")
def drawn(scenes: Dataset) -> Dataset:
    """Returns the first four classes of the drawn scenes."""
    return scenes.only(range(4), "drawn")


def without_times(selection: Selection) -> dict[str, object]:
    values = selection.as_dict()
    for step in values["steps"]:
        del step["seconds"]
    return values


# -- select_words ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"lambda_": 0.7, "preset": "reference", "word_embedding": "token", "seed": 3, "shots": 2},
        {"search": "exhaustive", "template": "a {cls}, showcasing: {words}."},
        {"precision": "bf16"},
    ],
    ids=["default", "reference", "exhaustive", "bf16"],
)
def test_the_words_are_those_of_a_fit(
    drawn: Dataset, pocket: Backbone, settings: dict[str, object]
) -> None:
    shared = {"pool": POOL, "device": "cpu", "cache": False, **settings}
    if "precision" not in settings:
        shared["backbone"] = pocket
    found = select_words(drawn, 2, **shared)  # type: ignore[arg-type]
    fitted = PromptClassifier(words=2, epochs=2, interval=1, views=0, **shared).fit(drawn)  # type: ignore[arg-type]
    assert list(found.words) == fitted.words_
    assert fitted.selection_ is not None
    assert without_times(found) == without_times(fitted.selection_)


def test_settings_are_checked_before_anything_is_computed(
    drawn: Dataset, pocket: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Backbone, "encode_image", None)
    for settings, says in [
        ({"words": len(FEW) + 1}, f"words is {len(FEW) + 1}; the pool has {len(FEW)}"),
        ({"words": -1}, "words is -1"),
        ({"words": "auto"}, "words is 'auto'"),
    ]:
        with pytest.raises(ConfigError, match=says):
            select_words(drawn, **{"backbone": pocket, "pool": FEW, **settings})  # type: ignore[arg-type]


def test_select_words_on_siglip(drawn: Dataset, siglip: SiglipBackbone) -> None:
    few = Pool.from_words(FEW.words[:12], "test")
    found = select_words(drawn, 1, backbone=siglip, pool=few, shots=1, search="exact")
    every = select_words(drawn, 1, backbone=siglip, pool=few, shots=1, search="exhaustive")
    assert found.words == every.words
    assert found.steps[0].gain == pytest.approx(every.steps[0].gain, abs=1e-9)
