"""Evaluation on labelled data: how good a saved prompt is, class by class, and when to trust it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, fields, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ipl.backbone.encode_images import BATCH, encode_files
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.labelled_features import (
    LabelledFeatures,
    encode_items,
    note_unreadable,
)
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import UNUSED, Dataset, Item, quote_classes
from ipl.datasets.hugging_face import LabelledStream, read_stream
from ipl.datasets.readers import read_dataset
from ipl.display.formatting import first_few, percent, range_of_percent, several
from ipl.display.table import Styled, Table
from ipl.learners.learner import Learner
from ipl.metrics import (
    Calibration,
    ClassScore,
    ThresholdCurve,
    ThresholdPoint,
    calibration,
    class_scores,
    confusion,
    score,
    wilson_interval,
)
from ipl.support.errors import DataError
from ipl.support.extras import make_frame
from ipl.support.progress import SILENT, Reporter
from ipl.training.chosen_images import ChosenImages, choose_images
from ipl.training.comparison import Comparison, compare_with_baselines
from ipl.training.fit import features_for

if TYPE_CHECKING:
    import pandas

THRESHOLDS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


@dataclass(frozen=True)
class ImageResult:
    """The prediction for one labelled image."""

    image: str
    label: str
    predicted: str
    probability: float
    correct: bool  # two classes of a published list may have the same name


@dataclass(frozen=True)
class Evaluation:
    """A prompt on labelled images.

    Parameters
    ----------
    images_from : str
        Which images these are.
    comparison : Comparison
        The prompt beside zero-shot.
    loss : float
        The mean cross-entropy.
    classes : tuple of ClassScore
        Precision, recall and F1 of each class.
    counts : tuple of tuples of int
        Images by true class (rows) and predicted class (columns).
    calibration : Calibration
        How well confidence matches accuracy.
    confidence : float
        The mean probability of the predicted class.
    curve : tuple of ThresholdPoint
        Coverage against accuracy, at thresholds from 0 to 0.99.
    suggested : ThresholdPoint or None
        The threshold that best tells images of the classes from images of none of them.
    predictions : tuple of ImageResult
        Every image with its prediction.
    notes : tuple of str
        Warnings, such as images that were skipped.
    left_out : tuple of str, default=()
        The images that were left out, because the prompt was trained on them.
    """

    images_from: str
    comparison: Comparison
    loss: float
    classes: tuple[ClassScore, ...]
    counts: tuple[tuple[int, ...], ...]
    calibration: Calibration
    confidence: float
    curve: tuple[ThresholdPoint, ...]
    suggested: ThresholdPoint | None
    predictions: tuple[ImageResult, ...]
    notes: tuple[str, ...]
    left_out: tuple[str, ...] = ()

    def __repr__(self) -> str:
        images = several(self.comparison.total, "image")
        return f"Evaluation(accuracy={self.accuracy:.3f} on {images}, {self.images_from})"

    @property
    def accuracy(self) -> float:
        """Returns the share of images that are classified correctly."""
        return self.comparison.accuracy()

    @property
    def interval(self) -> tuple[float, float]:
        """Returns the 95 % interval of the accuracy."""
        return self.comparison.interval()

    def macro(self, name: str) -> float:
        """Returns the mean precision, recall or f1 of the classes that have images."""
        values = [getattr(each, name) for each in self.classes if each.images]
        return float(sum(values) / len(values))

    def to_frame(self) -> pandas.DataFrame:
        """Returns every image with its label and its prediction as a frame of pandas."""
        rows = [astuple(each) for each in self.predictions]
        return make_frame(rows, [entry.name for entry in fields(ImageResult)])

    def as_dict(self) -> dict[str, Any]:
        """Returns all numbers as plain values for JSON, and no predictions of single images."""
        low, high = self.interval
        return {
            "images": self.comparison.total,
            "images_from": self.images_from,
            "left_out": list(self.left_out),
            "accuracy": self.accuracy,
            "interval": [low, high],
            "loss": self.loss,
            "macro": {name: self.macro(name) for name in ("precision", "recall", "f1")},
            "ece": self.calibration.ece,
            "mean_confidence": self.confidence,
            "comparison": self.comparison.as_dict(),
            "classes": [
                {**asdict(each), "precision": each.precision, "recall": each.recall, "f1": each.f1}
                for each in self.classes
            ],
            "confusion": [list(row) for row in self.counts],
            "calibration": [asdict(each) for each in self.calibration.bins],
            "thresholds": [_point_values(point) for point in self.curve],
            "suggested_threshold": self.suggested and _point_values(self.suggested),
            "notes": list(self.notes),
        }


def evaluate(
    classifier: PromptClassifier,
    dataset: Any,
    everything: bool = False,
    store: FeatureStore | None = None,
    reporter: Reporter = SILENT,
) -> Evaluation:
    """Classify labelled images and compare the predictions with their labels.

    Parameters
    ----------
    classifier : PromptClassifier
        A fitted classifier.
    dataset : Dataset, or what `read_dataset` takes
        The images; their classes must be classes of the classifier, one or more of them; all
        classes of the classifier compete. Its test part is used or, if it has none, all its images,
        less those that the classifier was trained on. These are recognised by their hashes; of a
        run without hashes, only in the dataset that it was trained on. Of a streaming dataset of
        Hugging Face all images are used, and only a batch of them is held at a time.
    everything : bool
        Whether all images are used, those of the training included.
    store : FeatureStore, optional
        Keeps the features of images. Default: nothing is kept.
    reporter : Reporter
        Gets the progress.

    Returns
    -------
    Evaluation
        The results.

    Raises
    ------
    DataError
        If the data has an unknown class, or no image that can be used.
    """
    learner, names = classifier.learner_, tuple(map(str, classifier.classes_))
    strict, held_out = classifier.config.strict, classifier.config.held_out
    stream = None if isinstance(dataset, Dataset) else read_stream(dataset, held_out)
    data = stream or read_dataset(dataset, strict, held_out, to_test=True)
    columns = _columns(data, names)
    notes: tuple[str, ...] = ()
    if isinstance(data, LabelledStream):
        images, features = _encode_stream(learner, data, strict, reporter)
        chosen = ChosenImages(images.items, "all images of a stream")
    else:
        store = store or FeatureStore(learner.backbone)
        chosen = choose_images(
            classifier.result_, learner, data, held_out, store, everything, reporter
        )
        if chosen.left_out and not chosen.items:
            raise _nothing_new(data)
        images = encode_items(chosen.items, "test", store, strict, reporter)
        features = features_for(learner, images)
        notes = (*chosen.notes, *data.test_notes)
    if not images.items:
        raise DataError(f"{data.display_name} has no readable image to evaluate on.")
    items = tuple(Item(item.path, columns[item.label]) for item in images.items)
    images = replace(images, items=items)
    labels, predictions = images.labels, learner.log_probabilities(features)
    comparison = compare_with_baselines(learner, predictions, None, images, classifier.config)
    counts, curve = confusion(predictions, labels), ThresholdCurve(predictions, labels)
    return Evaluation(
        images_from=chosen.images_from,
        comparison=comparison,
        loss=score(predictions, labels).loss,
        classes=class_scores(counts, names),
        counts=tuple(map(tuple, counts.tolist())),
        calibration=calibration(predictions, labels),
        confidence=float(predictions.max(1).values.exp().mean()),
        curve=tuple(map(curve.at, THRESHOLDS)),
        suggested=curve.suggest(),
        predictions=_image_results(items, predictions, names),
        notes=(*notes, *images.notes, *comparison.notes, *_note_one_class(comparison)),
        left_out=tuple(str(item.path) for item in chosen.left_out),
    )


def _nothing_new(dataset: Dataset) -> DataError:
    unused = [part for found in dataset.findings if found.kind == UNUSED for part in found.names]
    where = f" (its {unused[0]} images are used with --held-out {unused[0]})" if unused else ""
    return DataError(
        f"All images of {dataset.display_name} were used in training{where}; give other images, or "
        "evaluate on them all the same with --all."
    )


def _encode_stream(
    learner: Learner, stream: LabelledStream, strict: bool, reporter: Reporter
) -> tuple[LabelledFeatures, Tensor]:
    """Returns frozen features of a stream's images, and the learner's own, batch by batch."""
    backbone, remaining = learner.backbone, iter(stream)
    items, unreadable = list[Item](), list[str]()
    frozen, own = [backbone.no_features()], [backbone.no_features()]
    with reporter.task("Encoding images", None) as advance:
        while batch := list(islice(remaining, BATCH)):
            sources = [item.path for item in batch]
            images = encode_files(backbone, sources)
            frozen.append(images.features)
            own.append(
                learner.encode_images(sources).features
                if learner.prompts_images
                else images.features
            )
            unreadable += images.unreadable
            for index in images.indices:  # by its name alone: the image itself is let go
                items.append(Item(Path(str(batch[index].path)), batch[index].label))
            advance(len(batch))
    notes = note_unreadable(unreadable, "test", strict)
    return LabelledFeatures(tuple(items), torch.cat(frozen), notes), torch.cat(own)


def _columns(dataset: Dataset | LabelledStream, names: tuple[str, ...]) -> list[int]:
    """Returns the classifier's index of each class of the data."""
    if dataset.class_names == names:  # a published list may have a name twice
        return list(range(len(names)))
    if unknown := [name for name in dataset.class_names if name not in names]:
        raise DataError(
            f"{dataset.display_name} has {quote_classes(unknown)}, which this prompt does not "
            f"classify: it chooses from {first_few(names)}; --classes gives others."
        )
    return [names.index(name) for name in dataset.class_names]


def _note_one_class(comparison: Comparison) -> tuple[str, ...]:
    """Returns a note on what is not measured if all images are of one class."""
    pairs = zip(comparison.classes, comparison.images, strict=True)
    names = [name for name, images in pairs if images]
    if len(names) > 1:
        return ()
    return (
        f"All images are of the class {names[0]!r}, so the accuracy is the share of them that is "
        "recognised. How often other classes are taken for it is not measured, so its precision "
        "and F1 say little.",
    )


def _image_results(
    items: Sequence[Item], predictions: Tensor, names: tuple[str, ...]
) -> tuple[ImageResult, ...]:
    best = predictions.max(1)
    rows = zip(items, best.indices.tolist(), best.values.exp().tolist(), strict=True)
    return tuple(
        ImageResult(
            str(item.path),
            names[item.label],
            names[predicted],
            probability,
            item.label == predicted,
        )
        for item, predicted, probability in rows
    )


def _point_values(point: ThresholdPoint) -> dict[str, Any]:
    return {**asdict(point), "coverage": point.coverage, "accuracy": point.accuracy}


# -- how it is shown ----------------------------------------------------------------------------


def summary_table(evaluation: Evaluation) -> Table:
    """Returns a table of what all classes come to, beside the accuracy."""
    names = ("precision", "recall", "F1")
    rows = [[f"macro {name}", percent(evaluation.macro(name.lower()))] for name in names]
    rows += [
        ["mean confidence", percent(evaluation.confidence)],
        ["calibration error (ECE)", percent(evaluation.calibration.ece)],
    ]
    return Table(("", "value"), rows, numbers=("value",))


def score_table(evaluation: Evaluation) -> Table:
    """Returns a table of precision, recall and F1 of each class, the lowest F1 first."""
    numbers = ["images", "right", "recall", "95 % interval", "precision", "F1"]
    rows = []
    for each in sorted(evaluation.classes, key=lambda each: each.f1):
        if not each.images:
            continue
        interval = wilson_interval(each.correct, each.images)
        rows.append(
            [
                each.name,
                str(each.images),
                str(each.correct),
                percent(each.recall),
                range_of_percent(*interval, 0),
                percent(each.precision),
                percent(each.f1),
            ]
        )
    return Table(["class", *numbers], rows, caption="Every class, lowest F1 first", numbers=numbers)


def threshold_table(evaluation: Evaluation) -> Table:
    """Returns coverage against accuracy at several thresholds, the suggested one among them."""
    columns = ("threshold", "kept", "accuracy of these", "rejected if its class is not listed")
    suggested = evaluation.suggested
    points = sorted(
        (*evaluation.curve, *([suggested] if suggested else [])), key=lambda p: p.threshold
    )
    rows: list[list[str]] = []
    for point in points:
        cells = [
            f"{point.threshold:.3f}" if point is suggested else f"{point.threshold:.2f}",
            percent(point.coverage),
            percent(point.accuracy) or "-",
            percent(point.rejected) or "-",
        ]
        rows.append([Styled(cell, "bold") for cell in cells] if point is suggested else cells)
    caption = "If predictions that are less probable than a threshold are not given"
    return Table(columns, rows, caption=caption, numbers=columns)


def threshold_sentence(evaluation: Evaluation) -> str:
    """Returns the suggested threshold and what it does."""
    point = evaluation.suggested
    if point is None:
        return (
            "No threshold for “none of these” can be suggested: that needs three classes or more, "
            "and right predictions."
        )
    return (
        f"Suggested threshold for “none of these”: {point.threshold:.3f}. It keeps "
        f"{percent(point.coverage)} of the predictions ({percent(point.accuracy)} of them right) "
        f"and rejects {percent(point.rejected)} of the images once their class is taken off the "
        "list. It was chosen on these images: expect a little less on others, and more for images "
        "unlike any class."
    )


def class_rows(evaluation: Evaluation) -> Table:
    """Returns the classes with all their numbers, for a CSV file."""
    columns = ("class", "images", "predicted", "correct", "precision", "recall", "f1")
    rows = [
        [
            each.name,
            *(str(n) for n in (each.images, each.predicted, each.correct)),
            *(f"{value:.6f}" for value in (each.precision, each.recall, each.f1)),
        ]
        for each in evaluation.classes
    ]
    return Table(columns, rows, numbers=columns[1:])


def prediction_rows(evaluation: Evaluation) -> Table:
    """Returns every image with its label and its prediction, for a CSV file."""
    columns = ("image", "label", "predicted", "probability", "correct")
    rows = [
        [each.image, each.label, each.predicted, f"{each.probability:.6f}", str(int(each.correct))]
        for each in evaluation.predictions
    ]
    return Table(columns, rows, numbers=("probability", "correct"))
