"""Evaluation on labelled data: how good a saved prompt is, class by class, and when to trust it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from torch import Tensor

from ipl.backbone.features import FeatureStore
from ipl.backbone.labelled_features import LabelledFeatures, encode_items
from ipl.classifier import PromptClassifier
from ipl.datasets.dataset import UNUSED, Dataset, Item
from ipl.datasets.readers import read_dataset
from ipl.display.formatting import percent, range_of_percent, several
from ipl.display.table import Styled, Table
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
from ipl.support.progress import SILENT, Reporter
from ipl.training.chosen_images import choose_images
from ipl.training.comparison import Comparison, compare_with_baselines

THRESHOLDS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
MACRO = ("precision", "recall", "f1")


@dataclass(frozen=True)
class ImageResult:
    """The prediction for one labelled image."""

    image: str
    label: str
    predicted: str
    probability: float
    correct: bool  # two classes of a published list may have the same name


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A prompt on labelled images.

    Parameters
    ----------
    images_from : str
        Which images these are.
    comparison : Comparison
        The prompt, and its head, beside zero-shot.
    images : LabelledFeatures
        The images.
    log_probabilities : Tensor of shape (images, classes)
        The predictions.
    notes : tuple of str
        Warnings, such as images that were skipped.
    left_out : tuple of str
        The images that were left out, because the prompt was trained on them.
    """

    images_from: str
    comparison: Comparison
    images: LabelledFeatures
    log_probabilities: Tensor
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    def __repr__(self) -> str:
        images = several(self.comparison.total, "image")
        return f"Evaluation(accuracy={self.accuracy:.3f} on {images}, {self.images_from})"

    @property
    def accuracy(self) -> float:
        """The share of images that are classified correctly."""
        return self.comparison.accuracy()

    @cached_property
    def counts(self) -> Tensor:
        """Images by true class (rows) and predicted class (columns)."""
        return confusion(self.log_probabilities, self.images.labels)

    @cached_property
    def classes(self) -> tuple[ClassScore, ...]:
        """Precision, recall and F1 of each class."""
        return class_scores(self.counts, self.comparison.classes)

    @cached_property
    def calibration(self) -> Calibration:
        """How well confidence matches accuracy."""
        return calibration(self.log_probabilities, self.images.labels)

    @cached_property
    def curve(self) -> ThresholdCurve:
        """Coverage against accuracy; its `suggest()` tells none of the classes best."""
        return ThresholdCurve(self.log_probabilities, self.images.labels)

    @cached_property
    def predictions(self) -> tuple[ImageResult, ...]:
        """Every image with its prediction."""
        names, best = self.comparison.classes, self.log_probabilities.max(1)
        found = zip(best.indices.tolist(), best.values.exp().tolist(), strict=True)
        return tuple(
            ImageResult(str(item.path), names[item.label], names[label], value, item.label == label)
            for item, (label, value) in zip(self.images.items, found, strict=True)
        )

    @property
    def confidence(self) -> float:
        """The mean probability of the predicted class."""
        return float(self.log_probabilities.max(1).values.exp().mean())

    def macro(self, name: str) -> float:
        """The mean precision, recall or f1 of the classes that have images."""
        values = [getattr(each, name) for each in self.classes if each.images]
        return float(sum(values) / len(values))

    def as_dict(self) -> dict[str, Any]:
        """All numbers as plain values for JSON, and no predictions of single images."""
        suggested = self.curve.suggest()
        return {
            "images": self.comparison.total,
            "images_from": self.images_from,
            "left_out": list(self.left_out),
            "accuracy": self.accuracy,
            "interval": list(self.comparison.interval()),
            "loss": score(self.log_probabilities, self.images.labels).loss,
            "macro": {name: self.macro(name) for name in MACRO},
            "ece": self.calibration.ece,
            "mean_confidence": self.confidence,
            "comparison": self.comparison.as_dict(),
            "classes": [
                {**asdict(each), **{name: getattr(each, name) for name in MACRO}}
                for each in self.classes
            ],
            "confusion": self.counts.tolist(),
            "calibration": [asdict(each) for each in self.calibration.bins],
            "thresholds": [_point_values(self.curve.at(each)) for each in THRESHOLDS],
            "suggested_threshold": suggested and _point_values(suggested),
            "notes": list(self.notes),
        }


def _point_values(point: ThresholdPoint) -> dict[str, Any]:
    return {**asdict(point), "coverage": point.coverage, "accuracy": point.accuracy}


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
        run without hashes, only in the dataset that it was trained on.
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
    learner, held_out = classifier.learner_, classifier.config.held_out
    data = read_dataset(dataset, held_out, to_test=True)
    columns = classifier.columns(data.class_names, data.display_name).tolist()
    store = store or FeatureStore(learner.backbone)
    chosen = choose_images(classifier.result_, data, held_out, store, everything, reporter)
    if chosen.left_out and not chosen.items:
        raise _nothing_new(data)
    images = encode_items(chosen.items, "test", store, reporter)
    features = learner.features_of(images)
    if not images.items:
        raise DataError(f"{data.display_name} has no readable image to evaluate on.")
    items = tuple(Item(item.path, columns[item.label]) for item in images.items)
    images = replace(images, items=items)
    predictions = classifier.log_probabilities(features)
    comparison = compare_with_baselines(
        *(learner, learner.log_probabilities(features), None, images, classifier.config),
        head=None if classifier.head_ is None else (classifier.head_, predictions),
    )
    notes = (*chosen.notes, *data.notes, *images.notes, *comparison.notes)
    return Evaluation(
        images_from=chosen.images_from,
        comparison=comparison,
        images=images,
        log_probabilities=predictions,
        notes=(*notes, *_note_one_class(comparison)),
        left_out=tuple(str(item.path) for item in chosen.left_out),
    )


def _nothing_new(dataset: Dataset) -> DataError:
    unused = [part for found in dataset.findings if found.kind == UNUSED for part in found.names]
    where = f" (its {unused[0]} images are used with --held-out {unused[0]})" if unused else ""
    return DataError(
        f"All images of {dataset.display_name} were used in training{where}; give other images, or "
        "evaluate on them all the same with --all."
    )


def _note_one_class(comparison: Comparison) -> tuple[str, ...]:
    """A note on what is not measured if all images are of one class."""
    pairs = zip(comparison.classes, comparison.images, strict=True)
    names = [name for name, images in pairs if images]
    if len(names) > 1:
        return ()
    return (
        f"All images are of the class {names[0]!r}; how often other classes are taken for it is "
        "not measured, so its precision and F1 say little.",
    )


# -- how it is shown ----------------------------------------------------------------------------


def score_table(evaluation: Evaluation) -> Table:
    """Precision, recall and F1 of each class, the lowest F1 first, and what all come to."""
    numbers = ["images", "right", "recall", "95 % interval", "precision", "F1"]
    rows = [
        [
            each.name,
            str(each.images),
            str(each.correct),
            percent(each.recall),
            range_of_percent(*wilson_interval(each.correct, each.images), 0),
            percent(each.precision),
            percent(each.f1),
        ]
        for each in sorted(evaluation.classes, key=lambda each: each.f1)
        if each.images
    ]
    caption = "Every class, lowest F1 first"
    table = Table(["class", *numbers], rows, caption=caption, numbers=numbers)
    precision, recall, f1 = (percent(evaluation.macro(name)) for name in MACRO)
    table.notes.append(
        f"Mean of the classes: precision {precision}, recall {recall}, F1 {f1}. Mean confidence "
        f"{percent(evaluation.confidence)}, calibration error (ECE) "
        f"{percent(evaluation.calibration.ece)}."
    )
    return table


def threshold_table(evaluation: Evaluation) -> Table:
    """Coverage against accuracy at several thresholds, the suggested one among them."""
    columns = ("threshold", "kept", "accuracy of these", "rejected if its class is not listed")
    suggested, rows = evaluation.curve.suggest(), list[list[str]]()
    for value in sorted({*THRESHOLDS, *([suggested.threshold] if suggested else [])}):
        point, digits = evaluation.curve.at(value), 2 if value in THRESHOLDS else 3
        shares = (point.coverage, point.accuracy, point.rejected)
        cells = [f"{value:.{digits}f}", *(percent(share) or "-" for share in shares)]
        rows.append(cells if digits == 2 else [Styled(cell, "bold") for cell in cells])
    caption = "If predictions that are less probable than a threshold are not given"
    table = Table(columns, rows, caption=caption, numbers=columns)
    table.notes.append(
        "No threshold for “none of these” can be suggested: that needs three classes or more, and "
        "right predictions."
        if suggested is None
        else f"Suggested threshold for “none of these”: {suggested.threshold:.3f}, which rejects "
        f"{suggested.images - suggested.kept:,} of these {several(suggested.images, 'image')}. It "
        "was chosen on them: expect a little less on others, and more for images unlike any class."
    )
    return table


def class_rows(evaluation: Evaluation) -> Table:
    """The classes with all their numbers, for a CSV file."""
    columns = ("class", "images", "predicted", "correct", *MACRO)
    rows = [
        [
            each.name,
            *(str(n) for n in (each.images, each.predicted, each.correct)),
            *(f"{getattr(each, name):.6f}" for name in MACRO),
        ]
        for each in evaluation.classes
    ]
    return Table(columns, rows, numbers=columns[1:])


def prediction_rows(evaluation: Evaluation) -> Table:
    """Every image with its label and its prediction, for a CSV file."""
    columns = ("image", "label", "predicted", "probability", "correct")
    rows = [
        [each.image, each.label, each.predicted, f"{each.probability:.6f}", str(int(each.correct))]
        for each in evaluation.predictions
    ]
    return Table(columns, rows, numbers=("probability", "correct"))
