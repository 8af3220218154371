"""PromptClassifier and the number of its words, and what its fits leave in the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ipl import Dataset, Pool, PromptClassifier, select_words
from ipl.backbone.backbone import Backbone
from ipl.backbone.clip import ClipBackbone
from ipl.datasets.dataset import Item
from ipl.support.cache import Cache, cache_folder
from ipl.support.errors import ConfigError
from ipl.words.modes import Search
from ipl.words.scorer import CandidateScorer

POOL = Pool.from_words(("adopt", "blue", "furry", "phone", "pile", "social", "title"), "test")
FAST: dict[str, Any] = {
    "views": 0,
    "epochs": 4,
    "interval": 1,
    "shots": 3,
    "pool": POOL,
    "lr": 0.02,
}


@pytest.fixture(scope="module", autouse=True)
def _small_products(one_thread: None) -> None:
    """Runs these tests on one thread."""


@pytest.fixture(scope="module")
def base(scenes: Dataset) -> Dataset:
    """Returns the first four classes of the drawn scenes."""
    return scenes.only(range(4), "four scenes")


@pytest.fixture(scope="module")
def auto(pocket: Backbone, base: Dataset) -> PromptClassifier:
    return PromptClassifier(pocket, words="auto", cache=False, **FAST).fit(base)


def _tried(classifier: PromptClassifier) -> list[dict[str, Any]]:
    tried: list[dict[str, Any]] = classifier.results_["words_tried"]
    return tried


def test_auto_is_the_best_of_the_fits_with_each_number(
    auto: PromptClassifier, pocket: Backbone, base: Dataset
) -> None:
    """Each trial is a whole fit, as if that number had been asked for."""
    tried = _tried(auto)
    assert [trial["words"] for trial in tried] == [1, 2, 3, 4]  # as many as the epochs allow
    fits = [PromptClassifier(pocket, words=k, cache=False, **FAST).fit(base) for k in (1, 2, 3, 4)]
    assert [_tried(fitted) for fitted in fits] == [[trial] for trial in tried]
    for trial, fitted in zip(tried, fits, strict=True):
        assert trial["accuracy"] == fitted.results_["train_accuracy"]
    best = min(tried, key=lambda t: (-t["accuracy"], t["loss"], t["words"]))["words"]
    taken = fits[best - 1]
    assert auto.words_ == taken.words_
    assert auto.prompt_ == taken.prompt_
    assert torch.equal(auto._fitted().soft, taken._fitted().soft)
    assert auto.selection_ is not None
    assert list(auto.selection_.words) == auto.words_
    held_out = ("train_accuracy", "held_out_accuracy", "held_out_images")
    assert all(auto.results_[name] == taken.results_[name] for name in held_out)


def test_auto_never_looks_at_held_out_images(
    auto: PromptClassifier, pocket: Backbone, base: Dataset
) -> None:
    """With other held-out labels, or none, the same words and vectors are taken."""
    wrong = tuple(Item(item.path, (item.label + 1) % 4) for item in base.test)
    for test in (wrong, base.test[:1]):
        data = Dataset("other", base.class_names, base.train, test)
        other = PromptClassifier(pocket, words="auto", cache=False, **FAST).fit(data)
        assert _tried(other) == _tried(auto)
        assert torch.equal(other._fitted().soft, auto._fitted().soft)
        assert other.results_["held_out_accuracy"] != auto.results_["held_out_accuracy"]


def test_auto_saved_and_loaded_again(
    auto: PromptClassifier, pocket: Backbone, base: Dataset, tmp_path: Path
) -> None:
    auto.save_pretrained(tmp_path / "run")
    loaded = PromptClassifier.from_pretrained(tmp_path / "run", pocket)
    assert loaded.words_ == auto.words_
    assert loaded.selection_ == auto.selection_
    assert _tried(loaded) == _tried(auto)
    assert loaded.config() == auto.config()
    paths = [item.path for item in base.test[:4]]
    np.testing.assert_array_equal(loaded.predict_proba(paths), auto.predict_proba(paths))


def test_the_words_are_those_of_select_words(
    auto: PromptClassifier, pocket: Backbone, base: Dataset
) -> None:
    found = select_words(base, 4, backbone=pocket, shots=3, pool=POOL, cache=False)
    assert list(found.words[: len(auto.words_)]) == auto.words_


def test_auto_with_a_pool_of_two(pocket: Backbone, base: Dataset) -> None:
    small = Pool.from_words(("blue", "furry"), "test")
    fitted = PromptClassifier(pocket, words="auto", **{**FAST, "pool": small}).fit(base)
    assert [trial["words"] for trial in _tried(fitted)] == [1, 2]
    assert any("no more than 2 can be tried" in note for note in fitted.notes_)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"words": "three"}, "words is 'three'; allowed are"),
        ({"words": "auto", "epochs": 5, "interval": 10}, r"t = 10.*T = 5"),
        ({"search": "foo"}, "search is 'foo'"),
        ({"memory": 0.0}, "memory is 0"),
        ({"memory": float("nan")}, "memory is nan"),
    ],
)
def test_bad_settings_fail_before_any_work(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        PromptClassifier("no/backbone", **settings)


# -- the cache ------------------------------------------------------------------------------------


def _must_not_run(*_: Any, **__: Any) -> None:
    raise AssertionError("computed anew")


def test_another_fit_has_its_words_from_the_cache(
    pocket: Backbone, base: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the learner's settings nor fewer words are another question to the search."""
    first = PromptClassifier(pocket, words=3, **FAST).fit(base)
    with monkeypatch.context() as patch:
        for name in ("features", "loss", "score"):
            patch.setattr(CandidateScorer, name, _must_not_run)
        patch.setattr(ClipBackbone, "encode_image", _must_not_run)
        for settings in ({"epochs": 9, "m": 3}, {"lr": 0.1, "batch": 5}, {"words": 2}):
            again = PromptClassifier(pocket, **{"words": 3, **FAST, **settings}).fit(base)
            assert again.words_ == first.words_[: again.words]
            assert again.selection_ == first.selection_.first(int(again.words))
        with pytest.raises(AssertionError, match="computed anew"):
            PromptClassifier(pocket, words=3, lambda_=0.7, **FAST).fit(base)  # another question
    longer = PromptClassifier(pocket, words=4, **FAST).fit(base)
    assert longer.words_[:3] == first.words_
    (entry,) = Cache().entries("selections")
    assert entry.facts["words"] == longer.words_


def test_cache_false_writes_nothing_and_reads_nothing(
    pocket: Backbone, base: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = PromptClassifier(pocket, words=1, cache=False, **FAST).fit(base)
    assert not cache_folder().exists()
    kept = PromptClassifier(pocket, words=1, **FAST).fit(base)
    assert kept.words_ == fitted.words_
    torch.testing.assert_close(kept._fitted().soft, fitted._fitted().soft, atol=1e-5, rtol=0)
    assert [count for count, _ in Cache().usage().values()] == [12 + 16, 1, 1, 0]
    monkeypatch.setattr(CandidateScorer, "features", _must_not_run)
    with pytest.raises(AssertionError, match="computed anew"):
        PromptClassifier(pocket, words=1, cache=False, **FAST).fit(base)


@pytest.mark.parametrize("search", ["exhaustive", "lazy", Search("screen", 20)])
def test_other_searches(search: str | Search, pocket: Backbone, base: Dataset) -> None:
    fitted = PromptClassifier(pocket, words=1, search=search, memory=0.5, **FAST).fit(base)
    assert fitted.selection_ is not None
    assert fitted.selection_.search == (search if isinstance(search, str) else "screen")
    assert fitted.selection_.certified == (search == "exhaustive")
