"""Evaluation on labelled data: numbers as scikit-learn has them, and which images are used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from ipl.backbone.backbone import Backbone
from ipl.backbone.features import FeatureStore
from ipl.backbone.zero_shot import zero_shot_accuracy
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset
from ipl.inference.evaluation import (
    Evaluation,
    class_rows,
    evaluate,
    prediction_rows,
    score_table,
    threshold_table,
)
from ipl.support.errors import DataError
from ipl.training.comparison import ZERO_SHOT

MakeRun = Callable[..., Path]


@pytest.fixture(scope="module")
def classifier(make_run: MakeRun, pocket: Backbone) -> PromptClassifier:
    """Returns a prompt of four classes, trained on all training images of the scenes."""
    return PromptClassifier.from_pretrained(make_run("coop", 2), pocket)


@pytest.fixture(scope="module")
def four(scenes: Dataset) -> Dataset:
    """Returns the scenes of these four classes."""
    return scenes.only(range(4), "four scenes")


@pytest.fixture(scope="module")
def evaluation(classifier: PromptClassifier, four: Dataset) -> Evaluation:
    return evaluate(classifier, four)


def test_scores_are_those_of_scikit_learn(evaluation: Evaluation, four: Dataset) -> None:
    truth = [each.label for each in evaluation.predictions]
    guesses = [each.predicted for each in evaluation.predictions]
    names = list(four.class_names)
    assert [four.class_names[item.label] for item in four.test] == truth
    options = {"labels": names, "zero_division": 0.0}
    precision, recall, f1, images = precision_recall_fscore_support(truth, guesses, **options)
    for index, each in enumerate(evaluation.classes):
        assert (each.name, each.images) == (names[index], images[index])
        assert each.precision == pytest.approx(precision[index])
        assert each.recall == pytest.approx(recall[index])
        assert each.f1 == pytest.approx(f1[index])
    macro = precision_recall_fscore_support(truth, guesses, average="macro", **options)
    assert [evaluation.macro(name) for name in ("precision", "recall", "f1")] == pytest.approx(
        macro[:3]
    )
    assert (confusion_matrix(truth, guesses, labels=names) == evaluation.counts.numpy()).all()


def test_accuracy_is_that_of_score_and_stands_beside_zero_shot(
    evaluation: Evaluation, classifier: PromptClassifier, four: Dataset, pocket: Backbone
) -> None:
    assert evaluation.accuracy == classifier.score(four)
    zero_shot = evaluation.comparison.of(ZERO_SHOT)
    assert zero_shot is not None
    accuracy = evaluation.comparison.accuracy(zero_shot)
    assert accuracy == zero_shot_accuracy(four, FeatureStore(pocket))
    assert evaluation.images_from == "its test part"
    probabilities = classifier.predict_proba([item.path for item in four.test])
    assert evaluation.confidence == pytest.approx(float(probabilities.max(1).mean()), abs=1e-5)


def test_fewer_classes_of_data_still_compete_with_all_classes(
    classifier: PromptClassifier, scenes: Dataset, evaluation: Evaluation
) -> None:
    few = scenes.only([3, 1], "two scenes")  # in another order than the run's
    found = evaluate(classifier, few)
    assert [each.images for each in found.classes] == [0, 4, 0, 4]
    whole = {each.image: each.predicted for each in evaluation.predictions}
    assert all(whole[each.image] == each.predicted for each in found.predictions)
    with_images = [each for each in found.classes if each.images]
    assert found.macro("recall") == sum(each.recall for each in with_images) / 2
    assert {row[0] for row in score_table(found).rows} == set(few.class_names)


def test_images_of_one_class_compete_with_all_classes(
    classifier: PromptClassifier, four: Dataset, evaluation: Evaluation, tmp_path: Path
) -> None:
    name = four.class_names[2]
    (tmp_path / name).mkdir()
    for item in four.test:
        if item.label == 2:
            (tmp_path / name / item.path.name).write_bytes(item.path.read_bytes())
    found = evaluate(classifier, tmp_path)
    assert found.accuracy == evaluation.classes[2].recall
    assert found.counts[2].tolist() == evaluation.counts[2].tolist()
    assert found.comparison.images == (0, 0, 4, 0)
    *notes, one_class = found.notes
    assert tuple(notes) == evaluation.notes
    assert f"All images are of the class {name!r}" in one_class


def test_an_unknown_class_is_refused(classifier: PromptClassifier, scenes: Dataset) -> None:
    with pytest.raises(DataError, match="which this prompt does not"):
        evaluate(classifier, scenes)


def test_training_images_are_left_out_unless_all_are_asked_for(
    classifier: PromptClassifier, four: Dataset, evaluation: Evaluation
) -> None:
    everything = replace(four, train=four.train + four.test, test=())
    found = evaluate(classifier, everything)
    assert found.predictions == evaluation.predictions
    assert found.left_out == tuple(str(item.path) for item in four.train)
    assert found.images_from == f"without the {len(four.train)} images that it was trained on"
    whole = evaluate(classifier, everything, everything=True)
    assert (whole.comparison.total, whole.left_out) == (len(everything.train), ())


def test_nothing_but_training_images_is_refused(
    classifier: PromptClassifier, four: Dataset
) -> None:
    only_shots = replace(four, test=())
    with pytest.raises(DataError, match="All images of four scenes were used in training"):
        evaluate(classifier, only_shots)
    comparison = evaluate(classifier, only_shots, everything=True).comparison
    assert comparison.accuracy(comparison.prompt) == classifier.result_.train_accuracy


def test_tables_have_a_row_for_each_class_image_and_threshold(
    evaluation: Evaluation, four: Dataset
) -> None:
    assert [row[0] for row in class_rows(evaluation).rows] == list(four.class_names)
    assert len(prediction_rows(evaluation).rows) == len(four.test)
    correct = [row[-1] for row in prediction_rows(evaluation).rows]
    assert correct.count("1") / len(correct) == evaluation.accuracy
    suggested = evaluation.curve.suggest()
    assert suggested is not None
    shown = threshold_table(evaluation)
    thresholds = [row[0] for row in shown.rows]
    assert f"{suggested.threshold:.3f}" in thresholds
    assert thresholds == sorted(thresholds)
    values = evaluation.as_dict()
    assert values["thresholds"][0]["coverage"] == 1.0
    assert values["thresholds"][0]["accuracy"] == evaluation.accuracy
