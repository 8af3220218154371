"""Evaluation on labelled data: numbers as scikit-learn has them, and which images are used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.zero_shot import zero_shot_accuracy
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.fewshot import sample_shots
from ipl.datasets.images import ImageSource
from ipl.datasets.readers import read_dataset
from ipl.inference.evaluation import (
    Evaluation,
    class_rows,
    evaluate,
    prediction_rows,
    score_table,
    threshold_sentence,
    threshold_table,
)
from ipl.support.errors import DataError
from ipl.training.chosen_images import UNKNOWN
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
    assert (confusion_matrix(truth, guesses, labels=names) == evaluation.counts).all()


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
    assert found.counts[2] == evaluation.counts[2]
    assert found.comparison.images == (0, 0, 4, 0)
    (note,) = found.notes  # nothing about a fit
    assert note.startswith(f"All images are of the class {name!r}")
    assert evaluation.notes == ()


def test_an_unknown_class_is_refused(classifier: PromptClassifier, scenes: Dataset) -> None:
    with pytest.raises(DataError, match="which this prompt does not"):
        evaluate(classifier, scenes)


def test_training_images_are_left_out_wherever_they_are(
    four: Dataset, pocket: Backbone, tmp_path: Path
) -> None:
    """By their bytes: with other names of files, among more files, and in a test part."""
    everything = replace(four, train=four.train + four.test, test=())
    trained = _fit_three_shots(everything, pocket, None, 0)
    shots = {item.path.read_bytes() for item in sample_shots(everything.train, 3, 1)}
    found = evaluate(trained, everything)
    rest = [str(i.path) for i in everything.train if i.path.read_bytes() not in shots]
    assert [each.image for each in found.predictions] == rest
    assert {Path(path).read_bytes() for path in found.left_out} == shots
    assert found.images_from == "without the 12 images that it was trained on"
    assert found.accuracy == trained.result_.held_out_accuracy
    whole = evaluate(trained, everything, everything=True)
    assert (whole.comparison.total, whole.left_out) == (len(everything.train), ())
    assert whole.images_from == "all images, 12 of which it was trained on"
    for item in everything.train:
        copy = tmp_path / "more images" / four.class_names[item.label] / f"of {item.path.name}"
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(item.path.read_bytes())
    copies = read_dataset(tmp_path / "more images")
    rest = [str(i.path) for i in copies.train if i.path.read_bytes() not in shots]
    assert [each.image for each in evaluate(trained, copies).predictions] == rest
    tested = evaluate(trained, replace(copies, train=copies.train[:1], test=copies.train))
    assert [each.image for each in tested.predictions] == rest
    assert tested.images_from == "its test part, without the 12 images that it was trained on"
    kept = tuple(i for i in everything.train if i.path.read_bytes() in shots)[:5]
    new = tuple(i for i in everything.train if i.path.read_bytes() not in shots)
    changed = evaluate(trained, replace(everything, train=(*kept, *new)))
    assert changed.images_from == "without the 5 images that it was trained on"
    assert changed.notes[0].startswith("5 of the 12 training images are in four scenes as they")
    others = evaluate(trained, replace(everything, name="others", train=new))
    assert others.images_from == "all images, none the same as one that it was trained on"


def test_files_that_were_written_anew_are_known_by_their_loss(
    four: Dataset, pocket: Backbone, make_run: MakeRun, tmp_path: Path
) -> None:
    trained = PromptClassifier.from_pretrained(make_run("coop", 2, 2), pocket)
    again = []
    for index, item in enumerate(four.train):
        again.append(Item(tmp_path / f"{index}.bmp", item.label))
        Image.open(item.path).save(again[-1].path)
    found = evaluate(trained, replace(four, name="bitmaps", train=tuple(again), test=()))
    assert found.images_from == "without the 8 images that it was trained on"


def test_images_in_memory_are_known_by_their_pixels(four: Dataset, pocket: Backbone) -> None:
    files = replace(four, test=())
    sources = tuple(
        Item(ImageSource(item.path.name, lambda path=item.path: Image.open(path)), item.label)
        for item in four.train
    )
    in_memory = replace(files, train=sources)
    trained = _fit_three_shots(in_memory, pocket, None, 0)
    found = evaluate(trained, replace(in_memory, train=(*sources, *four.test[:1])))
    assert found.images_from == UNKNOWN  # the hash of a file is not that of pixels
    found = evaluate(trained, replace(in_memory, train=sources[::-1]))
    assert found.images_from == "without the 12 images that it was trained on"


def _fit_three_shots(
    dataset: Dataset, backbone: Backbone, pool: object, words: int
) -> PromptClassifier:
    return PromptClassifier(
        backbone, words=words, shots=3, epochs=2, interval=1, views=0, pool=pool, cache=False
    ).fit(dataset)


def test_with_hashes_of_pixels_a_folder_that_has_grown_since_the_training_is_pointed_out(
    four: Dataset, pocket: Backbone, make_run: MakeRun
) -> None:
    trained = PromptClassifier.from_pretrained(make_run("coop", 2, 2), pocket)
    of_pixels = tuple(tuple(f"p{e}" for e in each) for each in trained.result_.image_hashes)
    trained.result_ = replace(trained.result_, image_hashes=of_pixels)
    same = evaluate(trained, replace(four, test=()))
    assert same.images_from == "without the 8 images that it was trained on"
    assert set(same.left_out) == {str(item.path) for item in sample_shots(four.train, 2, 1)}
    grown = replace(four, train=(*four.test[:1], *four.train, *four.test[1:]), test=())
    others = evaluate(trained, replace(grown, name="others"))
    assert (others.images_from, others.notes) == (UNKNOWN, ())
    found = evaluate(trained, grown)
    assert (found.images_from, found.comparison.total) == (UNKNOWN, len(grown.train))
    assert "used in training" in found.notes[0]


def test_nothing_but_training_images_is_refused(
    classifier: PromptClassifier, four: Dataset
) -> None:
    only_shots = replace(four, test=())
    with pytest.raises(DataError, match="All images of four scenes were used in training"):
        evaluate(classifier, only_shots)
    assert evaluate(classifier, only_shots, everything=True).accuracy == (
        classifier.result_.train_accuracy
    )


def test_tables_have_a_row_for_each_class_image_and_threshold(
    evaluation: Evaluation, four: Dataset
) -> None:
    assert [row[0] for row in class_rows(evaluation).rows] == list(four.class_names)
    assert len(prediction_rows(evaluation).rows) == len(four.test)
    correct = [row[-1] for row in prediction_rows(evaluation).rows]
    assert correct.count("1") / len(correct) == evaluation.accuracy
    assert evaluation.suggested is not None
    shown = [row[0] for row in threshold_table(evaluation).rows]
    assert f"{evaluation.suggested.threshold:.3f}" in shown
    assert shown == sorted(shown)
    assert f"{evaluation.suggested.threshold:.3f}" in threshold_sentence(evaluation)
    values = evaluation.as_dict()
    assert values["thresholds"][0]["coverage"] == 1.0
    assert values["thresholds"][0]["accuracy"] == evaluation.accuracy


def test_a_frame_has_every_image(evaluation: Evaluation) -> None:
    frame = evaluation.to_frame()
    assert list(frame["image"]) == [each.image for each in evaluation.predictions]
    assert frame["correct"].mean() == pytest.approx(evaluation.accuracy)
