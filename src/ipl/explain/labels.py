"""Images to check: likely label errors, and held-out images that repeat a training image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ipl.backbone.labelled_features import LabelledFeatures
from ipl.backbone.linear_probe import draw_folds, fit_linear_probe
from ipl.datasets.dataset import Item
from ipl.datasets.images import short_name
from ipl.display.document import Block, Gallery, Paragraph, Section
from ipl.display.formatting import percent, several
from ipl.display.table import Table
from ipl.explain.inputs import ReportData
from ipl.explain.mistakes import WrongImage, thumb, wrong_images
from ipl.training.comparison import DUPLICATE, near_duplicates

LABEL_ERRORS, DUPLICATES = 20, 12  # shown
MOST_FOLDS = 5


@dataclass(frozen=True)
class DuplicatePair:
    """A held-out image and the training image that it nearly repeats."""

    held_out: Item
    training: Item
    cosine: float
    same_label: bool


def likely_label_errors(
    shots: LabelledFeatures, zero_shot: Tensor, names: Sequence[str], seed: int = 1
) -> list[WrongImage] | None:
    """Training images that a probe with class names, trained without them, takes for others.

    Those come first whose label is least probable. `zero_shot` are the logits (shots, classes) of
    the class names, which no label has touched. None if a class has a single image, so that
    nothing can be held out.
    """
    labels, count = shots.labels, len(names)
    folds = min(MOST_FOLDS, int(labels.bincount(minlength=count).min()))
    if folds < 2:
        return None
    fold = draw_folds(labels, folds, seed)
    log_probabilities = torch.empty(len(labels), count, dtype=torch.float64)
    for index in range(folds):
        rest, held_out = fold != index, fold == index
        probe = fit_linear_probe(shots.features[rest], labels[rest], count, seed, zero_shot[rest])
        logits = probe.logits(shots.features[held_out], zero_shot[held_out])
        log_probabilities[held_out] = logits.double().cpu().log_softmax(1)
    found = wrong_images(shots.items, log_probabilities, names)
    return sorted(found, key=lambda wrong: wrong.label_probability)


def duplicate_pairs(shots: LabelledFeatures, test: LabelledFeatures) -> list[DuplicatePair]:
    """Held-out images that nearly repeat a training image, the most alike first."""
    pairs = []
    for image, shot in near_duplicates(shots.features, test.features):
        one, other = test.items[image], shots.items[shot]
        cosine = float(test.features[image].float() @ shots.features[shot].float())
        pairs.append(DuplicatePair(one, other, cosine, one.label == other.label))
    return sorted(pairs, key=lambda pair: -pair.cosine)


def labels_section(data: ReportData) -> Section | None:
    """Likely label errors among the training images, and held-out images that repeat one."""
    run, images = data.run, data.images
    if images is None or images.shots is None:
        return None
    zero_shot = run.zero_shot(run.classes, images.shots.features)
    errors = likely_label_errors(images.shots, zero_shot, run.classes, run.result.config.seed)
    duplicates = duplicate_pairs(images.shots, images.test)
    shown = (errors or [])[:LABEL_ERRORS]
    look = f"{several(len(shown), 'training image')} whose label to check"
    values = {
        "label_errors": None if errors is None else shown,
        "label_error_count": None if errors is None else len(errors),
        "near_duplicates": duplicates,
    }
    blocks = (*_label_error_blocks(errors, shown), *_duplicate_blocks(duplicates))
    summary = f"{look}, {several(len(duplicates), 'near-duplicate')}."
    return Section("data", "Images to check", blocks, summary, values)


def _label_error_blocks(
    errors: list[WrongImage] | None, shown: Sequence[WrongImage]
) -> list[Block]:
    if errors is None:
        return [Paragraph("Labels cannot be checked where a class has a single training image.")]
    if not errors:
        return [Paragraph("No label of a training image looks wrong.")]
    thumbs = [
        thumb(
            wrong.item,
            f"A training image labelled {wrong.label} that looks like {wrong.predicted}",
            f"{short_name(wrong.item.path)}: {wrong.label} "
            f"({percent(wrong.label_probability, 0)}) or {wrong.predicted} "
            f"({percent(wrong.probability, 0)})?",
        )
        for wrong in shown
    ]
    return [
        Paragraph(
            "A linear probe with class names, trained without them, takes "
            f"{several(len(errors), 'training image')} for another class. Most are hard rather "
            "than wrong: classes look alike, or an image shows several things. Those with the "
            "least probable labels come first; wrong labels are found among them."
        ),
        Gallery("Training images with the least probable labels", tuple(filter(None, thumbs))),
    ]


def _duplicate_blocks(duplicates: Sequence[DuplicatePair]) -> list[Block]:
    rule = (
        f"The cosine of their frozen features is above {DUPLICATE}, and the next training image is "
        "at least four times as far away."
    )
    if not duplicates:
        return [Paragraph(f"No held-out image nearly repeats a training image. ({rule})")]
    rows = [
        [
            short_name(pair.held_out.path),
            short_name(pair.training.path),
            f"{pair.cosine:.4f}",
            "" if pair.same_label else "different labels",
        ]
        for pair in duplicates[:DUPLICATES]
    ]
    count = several(
        len(duplicates),
        "held-out image nearly repeats a training image, which makes it",
        "held-out images nearly repeat a training image, which makes them",
    )
    columns = ("held-out image", "training image", "cosine", "labels")
    return [Paragraph(f"{count} too easy. {rule}"), Table(columns, rows)]
