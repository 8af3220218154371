"""PromptClassifier inside scikit-learn: parameters, copies, cross-validation and grids."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError as SklearnNotFitted
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

from ipl import Dataset, Pool, PromptClassifier
from ipl.backbone.backbone import Backbone
from ipl.datasets.dataset import Item
from ipl.support.errors import ConfigError, DataError, NotFittedError
from ipl.support.progress import Reporter

POOL = Pool.from_words(("adopt", "blue", "furry", "phone", "pile", "visit"), "test")
FAST: dict[str, Any] = {"words": 0, "views": 0, "epochs": 2, "shots": 2, "lr": 0.02, "pool": POOL}


@pytest.fixture(scope="module")
def pairs(scenes: Dataset) -> tuple[list[Path], list[str]]:
    """Returns images of two classes and the name of each, as scikit-learn takes them."""
    two = scenes.only([0, 4], "two")
    items = two.train + two.test
    return [item.path for item in items], [two.class_names[item.label] for item in items]


def test_init_stores_what_it_is_given_and_fit_changes_none_of_it(
    pairs: tuple[list[Path], list[str]],
) -> None:
    classifier = PromptClassifier("pocket", device="cpu", **FAST)
    before = classifier.get_params()
    assert before["backbone"] == "pocket"
    assert before["epochs"] == 2
    assert before["m"] is None  # the learner's own, looked up by fit
    assert before["pool"] is POOL
    classifier.fit(*pairs)
    after = classifier.get_params()
    assert all(after[name] is before[name] for name in before)
    assert PromptClassifier(**before).get_params() == before


def test_set_params_checks_and_takes_all_or_none() -> None:
    classifier = PromptClassifier(words=3)
    assert classifier.set_params(words=0, epochs=5, interval=10) is classifier
    assert (classifier.words, classifier.epochs) == (0, 5)
    with pytest.raises(ConfigError, match="words is -1"):
        classifier.set_params(words=-1, epochs=50)
    assert (classifier.words, classifier.epochs) == (0, 5)
    with pytest.raises(ConfigError, match=r"no parameter 'epoch'.*'epochs'"):
        classifier.set_params(epoch=3)


def test_a_clone_is_unfitted_and_shares_the_frozen_backbone(
    pocket: Backbone, pairs: tuple[list[Path], list[str]]
) -> None:
    fitted = PromptClassifier(pocket, **FAST).fit(*pairs)
    check_is_fitted(fitted)
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert copy.backbone is pocket
    with pytest.raises(SklearnNotFitted):
        check_is_fitted(copy)
    assert is_classifier(copy)


def test_before_fit_every_question_gets_one_sentence() -> None:
    classifier = PromptClassifier()
    assert not hasattr(classifier, "words_")
    for use in (
        lambda: classifier.predict(["x.png"]),
        lambda: classifier.predict_proba(["x.png"]),
        lambda: classifier.score(["x.png"], ["x"]),
        lambda: classifier.score("folder"),
        lambda: classifier.with_classes(["a", "b"]),
        lambda: classifier.save_pretrained("folder"),
    ):
        with pytest.raises((NotFittedError, DataError)) as caught:
            use()
        assert "fit(data) first" in str(caught.value) or "No such file" in str(caught.value)
    assert issubclass(NotFittedError, ValueError)  # as scikit-learn's own
    assert issubclass(NotFittedError, AttributeError)


@pytest.mark.parametrize("kind", ["paths", "texts", "images", "array"])
def test_lists_of_paths_or_images_teach_the_same(
    kind: str, pocket: Backbone, pairs: tuple[list[Path], list[str]]
) -> None:
    paths, names = pairs
    images: Any = {
        "paths": paths,
        "texts": [str(path) for path in paths],
        "images": [Image.open(path) for path in paths],
        "array": np.array([str(path) for path in paths]),
    }[kind]
    first = PromptClassifier(pocket, **FAST).fit(paths, names)
    second = PromptClassifier(pocket, **FAST).fit(images, np.array(names))
    np.testing.assert_array_equal(first.predict_proba(paths), second.predict_proba(images))
    assert list(second.classes_) == sorted(set(names))
    right = np.mean([p == n for p, n in zip(first.predict(paths), names, strict=True)])
    assert first.score(paths, names) == pytest.approx(right)


def test_numbers_are_labels_and_come_back(
    pocket: Backbone, pairs: tuple[list[Path], list[str]], tmp_path: Path
) -> None:
    paths, names = pairs
    numbers = np.array([10 if name == "beach" else 9 for name in names])
    classifier = PromptClassifier(pocket, **FAST).fit(paths, numbers)
    assert classifier.classes_.tolist() == [9, 10]
    predicted = classifier.predict(paths)
    assert {type(number) for number in predicted} == {int}
    right = np.mean(np.array(predicted) == numbers)
    assert classifier.score(paths, numbers) == pytest.approx(right)
    assert any("numbers" in note for note in classifier.notes_)
    classifier.save_pretrained(tmp_path / "run")
    loaded = PromptClassifier.from_pretrained(tmp_path / "run", pocket)
    assert loaded.classes_ == ["9", "10"]
    assert loaded.score(paths, numbers) == pytest.approx(right)


def test_labels_that_the_classifier_does_not_have_are_named(
    pocket: Backbone, pairs: tuple[list[Path], list[str]]
) -> None:
    paths, names = pairs
    classifier = PromptClassifier(pocket, **FAST).fit(paths, names)
    wrong = ["Beach" if name == "beach" else name for name in names]
    with pytest.raises(DataError, match="y has the class 'Beach', which this classifier does not"):
        classifier.score(paths, wrong)


def test_an_accuracy_that_guessing_would_reach_is_noted(
    pocket: Backbone, pairs: tuple[list[Path], list[str]]
) -> None:
    paths, names = pairs
    classes = tuple(sorted(set(names)))
    items = tuple(Item(p, classes.index(n)) for p, n in zip(paths, names, strict=True))
    swapped = tuple(Item(item.path, 1 - item.label) for item in items)
    classifier = PromptClassifier(pocket, **FAST)
    assert classifier.fit(Dataset("good", classes, items, items)).notes_ == []
    bad = classifier.fit(Dataset("bad", classes, items, swapped))
    assert bad.notes_[-1].startswith("The held-out accuracy, ")
    assert "no better than guessing among 2 classes (50.0 %)" in bad.notes_[-1]


def test_names_come_back_as_they_were_given(
    pocket: Backbone, pairs: tuple[list[Path], list[str]]
) -> None:
    paths, names = pairs
    written = [{"beach": "sandy_beach"}.get(name, name) for name in names]
    classifier = PromptClassifier(pocket, **FAST).fit(paths, written)
    assert list(classifier.classes_) == sorted(set(written))
    assert set(classifier.predict(paths)) <= set(written)
    assert classifier.score(paths, written) > 0


@pytest.mark.parametrize(
    ("images", "names", "says"),
    [
        (["a.png", "b.png"], ["x"], "X has 2 images but y has 1 label;"),
        (["a.png", "b.png"], ["x", 0.5], r"y\[1\] is 0.5; a label must be the class's name or"),
        (["a.png", "b.png"], [True, False], r"y\[0\] is True; a label must be"),
        ([b"a", "b.png"], ["x", "y"], r"X\[0\] is bytes; it must be a path or an image"),
        ("a.png", ["x"], "X is a single str"),
        (["a.png"], "x", "y is a single str"),
        ([], [], "X and y are empty"),
        (["a.png"], ["x"], "only one class"),
    ],
)
def test_pairs_that_cannot_be(images: Any, names: Any, says: str, pocket: Backbone) -> None:
    with pytest.raises(DataError, match=says):
        PromptClassifier(pocket, **FAST).fit(images, names)


def test_images_without_names_are_told(
    pocket: Backbone, pairs: tuple[list[Path], list[str]]
) -> None:
    fitted = PromptClassifier(pocket, **FAST).fit(*pairs)
    for images in (pairs[0], tuple(pairs[0]), np.array([str(path) for path in pairs[0]])):
        for use in (PromptClassifier(pocket, **FAST).fit, fitted.score):
            with pytest.raises(DataError, match="y is missing; with a list of images, give the"):
                use(images)
    again = fitted.with_classes(fitted.classes_)  # an array, after fit(X, y)
    assert again.predict(pairs[0]) == fitted.predict(pairs[0])


def test_cross_validation(pocket: Backbone, pairs: tuple[list[Path], list[str]]) -> None:
    paths, names = pairs
    classifier = PromptClassifier(pocket, **FAST)
    folds = StratifiedKFold(2)
    scores = cross_val_score(classifier, paths, names, cv=folds, error_score="raise")
    by_hand = []
    for train, test in folds.split(paths, names):
        part = clone(classifier).fit([paths[i] for i in train], [names[i] for i in train])
        by_hand.append(part.score([paths[i] for i in test], [names[i] for i in test]))
    assert list(scores) == pytest.approx(by_hand)
    for scoring in ("f1_macro", "neg_log_loss", "roc_auc"):
        found = cross_val_score(
            classifier, paths, names, cv=2, scoring=scoring, error_score="raise"
        )
        assert np.isfinite(found).all()


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
    assert search.predict(paths) == best.predict(paths)


def test_the_last_step_of_a_pipeline(pocket: Backbone, pairs: tuple[list[Path], list[str]]) -> None:
    paths, names = pairs
    flow = make_pipeline(FunctionTransformer(list), PromptClassifier(pocket, **FAST))
    flow.set_params(promptclassifier__epochs=1).fit(paths, names)
    assert flow.named_steps["promptclassifier"].epochs == 1
    assert len(flow.predict(paths[:3])) == 3


def test_probabilities_as_a_frame(pocket: Backbone, pairs: tuple[list[Path], list[str]]) -> None:
    paths, names = pairs
    classifier = PromptClassifier(pocket, **FAST).fit(paths, names)
    frame = classifier.predict_frame(paths)
    assert list(frame.index) == [str(path) for path in paths]
    assert list(frame.columns) == list(classifier.classes_)
    np.testing.assert_array_equal(frame.to_numpy(), classifier.predict_proba(paths))
    assert list(frame.idxmax(axis=1)) == classifier.predict(paths)
    with Image.open(paths[0]) as image:
        assert list(classifier.predict_frame([image]).index) == ["images[0]"]


def test_other_processes_get_a_copy(pairs: tuple[list[Path], list[str]]) -> None:
    classifier = PromptClassifier(device="cpu", reporter=Reporter(quiet=True), **FAST)
    copy = pickle.loads(pickle.dumps(classifier))  # what joblib does with n_jobs; our own bytes
    assert copy.reporter.quiet
    assert copy.fit(*pairs).predict(pairs[0]) == classifier.fit(*pairs).predict(pairs[0])
