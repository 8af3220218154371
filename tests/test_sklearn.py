"""PromptClassifier inside scikit-learn: parameters, copies, cross-validation and grids."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score

from ipl import Dataset, Pool, PromptClassifier
from ipl.backbone.backbone import Backbone
from ipl.datasets.dataset import Item
from ipl.support.errors import DataError
from ipl.support.progress import Reporter

POOL = Pool.from_words(("adopt", "blue", "furry", "phone", "pile", "visit"), "test")
FAST: dict[str, Any] = {"words": 0, "views": 0, "epochs": 2, "shots": 2, "lr": 0.02, "pool": POOL}


@pytest.fixture(scope="module")
def pairs(scenes: Dataset) -> tuple[list[Path], list[str]]:
    """Returns images of two classes and the name of each, as scikit-learn takes them."""
    two = scenes.only([0, 4], "two")
    items = two.train + two.test
    return [item.path for item in items], [two.class_names[item.label] for item in items]


def test_a_clone_is_unfitted_and_shares_the_frozen_backbone(
    pocket: Backbone, pairs: tuple[list[Path], list[str]]
) -> None:
    classifier = PromptClassifier(pocket, **FAST)
    before = classifier.get_params()
    assert before["m"] is None  # the learner's own, looked up by fit
    assert before["pool"] is POOL
    classifier.fit(*pairs)
    assert all(value is before[name] for name, value in classifier.get_params().items())
    copy = clone(classifier)
    assert copy.get_params() == before
    assert copy.backbone is pocket


def test_before_fit_every_question_gets_one_sentence() -> None:
    classifier = PromptClassifier()
    assert not hasattr(classifier, "words_")
    for use in (
        lambda: classifier.predict(["x.png"]),
        lambda: classifier.score(["x.png"], ["x"]),
        lambda: classifier.with_classes(["a", "b"]),
        lambda: classifier.save_pretrained("folder"),
    ):
        with pytest.raises(NotFittedError):
            use()


@pytest.mark.parametrize("kind", ["images", "array"])
def test_lists_of_paths_or_images_teach_the_same(
    kind: str, pocket: Backbone, pairs: tuple[list[Path], list[str]]
) -> None:
    paths, names = pairs
    images: Any = {
        "images": [Image.open(path) for path in paths],
        "array": np.array([str(path) for path in paths]),
    }[kind]
    first = PromptClassifier(pocket, **FAST).fit(paths, names)
    second = PromptClassifier(pocket, **FAST).fit(images, np.array(names))
    np.testing.assert_array_equal(first.predict_proba(paths), second.predict_proba(images))
    assert list(second.classes_) == sorted(set(names))
    right = np.mean([p == n for p, n in zip(first.predict(paths), names, strict=True)])
    assert first.score(paths, names) == pytest.approx(right)
    with pytest.raises(DataError, match="'Beach', which this prompt does not classify"):
        first.score(paths[:1], ["Beach"])
    # Names come back as they were given.
    written = [name.replace("beach", "sandy_beach") for name in names]
    third = PromptClassifier(pocket, **FAST).fit(paths, written)
    assert list(third.classes_) == sorted(set(written))
    assert set(third.predict(paths)) <= set(written)
    assert third.score(paths, written) > 0


def test_numbers_are_labels_and_come_back(
    pocket: Backbone, pairs: tuple[list[Path], list[str]], tmp_path: Path
) -> None:
    paths, names = pairs
    numbers = np.array([10 if name == "beach" else 9 for name in names])
    classifier = PromptClassifier(pocket, **FAST).fit(paths, numbers)
    assert classifier.classes_.tolist() == [9, 10]
    predicted = classifier.predict(paths)
    assert predicted.dtype.kind == "i"
    right = np.mean(predicted == numbers)
    assert classifier.score(paths, numbers) == pytest.approx(right)
    assert any("numbers" in note for note in classifier.notes_)
    classifier.save_pretrained(tmp_path / "run")
    loaded = PromptClassifier.from_pretrained(tmp_path / "run", pocket)
    assert loaded.classes_ == ["9", "10"]
    assert loaded.score(paths, numbers) == pytest.approx(right)


def test_an_accuracy_that_guessing_would_reach_is_noted(pocket: Backbone, scenes: Dataset) -> None:
    two = scenes.only([0, 4], "two")
    swapped = tuple(Item(item.path, 1 - item.label) for item in two.train)
    classifier = PromptClassifier(pocket, **FAST)
    assert classifier.fit(replace(two, test=two.train)).notes_ == []
    bad = classifier.fit(replace(two, test=swapped))
    assert bad.notes_[-1].startswith("The held-out accuracy, ")


@pytest.mark.parametrize(
    ("images", "names", "says"),
    [
        (["a.png", "b.png"], ["x"], "X has 2 images but y has 1 label"),
        (["a.png", "b.png"], ["x", 0.5], r"y\[1\] is 0.5"),
        (["a.png", "b.png"], [True, False], r"y\[0\] is True"),
        ([b"a", "b.png"], ["x", "y"], r"X\[0\] is bytes"),
        ("a.png", ["x"], "X is a single str"),
        (["a.png"], "x", "y is a single str"),
        ([], [], "X and y are empty"),
        (["a.png"], ["x"], "one class"),
    ],
)
def test_pairs_that_cannot_be(images: Any, names: Any, says: str, pocket: Backbone) -> None:
    with pytest.raises(DataError, match=says):
        PromptClassifier(pocket, **FAST).fit(images, names)


def test_images_without_names_are_told(
    pocket: Backbone, pairs: tuple[list[Path], list[str]]
) -> None:
    fitted = PromptClassifier(pocket, **FAST).fit(*pairs)
    for use in (PromptClassifier(pocket, **FAST).fit, fitted.score):
        with pytest.raises(DataError, match="y is missing"):
            use(pairs[0])
    again = fitted.with_classes(fitted.classes_)  # an array, after fit(X, y)
    assert list(again.predict(pairs[0])) == list(fitted.predict(pairs[0]))


def test_cross_validation(
    pocket: Backbone, pairs: tuple[list[Path], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    paths, names = pairs
    classifier = PromptClassifier(pocket, **FAST)
    folds = StratifiedKFold(2)
    scores = cross_val_score(classifier, paths, names, cv=folds, error_score="raise")
    by_hand = []
    for train, test in folds.split(paths, names):
        part = clone(classifier).fit([paths[i] for i in train], [names[i] for i in train])
        by_hand.append(part.score([paths[i] for i in test], [names[i] for i in test]))
    assert list(scores) == pytest.approx(by_hand)
    # a score of probabilities
    how = {"cv": 2, "scoring": "neg_log_loss", "error_score": "raise"}
    assert np.isfinite(cross_val_score(classifier, paths, names, **how)).all()
    # A warning comes once, not for every fold.
    told = PromptClassifier(pocket, reporter=Reporter(quiet=True), **FAST)
    cross_val_score(told, paths, [len(name) for name in names], cv=2)
    assert capsys.readouterr().err.count("numbers") == 1


def test_a_grid_of_parameters(pocket: Backbone, pairs: tuple[list[Path], list[str]]) -> None:
    paths, names = pairs
    search = GridSearchCV(
        PromptClassifier(pocket, **FAST), {"words": [0, 1], "interval": [1]}, cv=2,
        error_score="raise",
    )  # fmt: skip
    search.fit(paths, names)
    assert [p["words"] for p in search.cv_results_["params"]] == [0, 1]
    best = search.best_estimator_
    assert len(best.words_) == search.best_params_["words"]
    assert list(search.predict(paths)) == list(best.predict(paths))


def test_other_processes_get_a_copy(pairs: tuple[list[Path], list[str]]) -> None:
    classifier = PromptClassifier(device="cpu", reporter=Reporter(quiet=True), **FAST)
    copy = pickle.loads(pickle.dumps(classifier))  # what joblib does with n_jobs; our own bytes
    assert copy.reporter.quiet
    assert list(copy.fit(*pairs).predict(pairs[0])) == list(
        classifier.fit(*pairs).predict(pairs[0])
    )
