"""Images that deserve a second look: worst mistakes, likely label errors, near-duplicates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ipl.datasets.dataset import Item
from ipl.datasets.images import short_name, thumbnail
from ipl.display.document import Block, Gallery, Paragraph, Section, Thumb
from ipl.display.formatting import listed, percent, several
from ipl.display.table import Table
from ipl.explain.loaded_run import LoadedRun, RunImages
from ipl.training.comparison import DUPLICATE, near_duplicates
from ipl.training.fit import features_for

SHOWN = 12  # images of each kind
SURE = 0.5  # of a wrong class, from which a training image is a likely label error


@dataclass(frozen=True)
class WrongImage:
    """An image, its label, and the other class that the prompt takes it for."""

    item: Item
    label: str
    predicted: str
    probability: float  # of the predicted class
    true_probability: float  # of its label


@dataclass(frozen=True)
class DuplicatePair:
    """A held-out image and the training image that it nearly repeats."""

    held_out: Item
    training: Item
    cosine: float
    same_label: bool


@dataclass(frozen=True)
class DoubtfulImages:
    """Images to look at; of each kind the first ones, and how many there are."""

    mistakes: tuple[WrongImage, ...]  # held-out images, the surest first
    mistake_count: int
    label_errors: tuple[WrongImage, ...]  # training images, the surest first
    label_error_count: int
    trained: bool  # whether the images of the training are known; else there are only mistakes
    duplicates: tuple[DuplicatePair, ...]
    duplicate_count: int


def find_doubtful_images(
    run: LoadedRun, run_images: RunImages, log_probabilities: Tensor
) -> DoubtfulImages:
    """Returns the images that deserve a look; `log_probabilities` are those of held-out images."""
    shots, test, names = run_images.shots, run_images.test, run.classes
    mistakes = wrong_images(test.items, log_probabilities, names)
    if shots is None:
        return DoubtfulImages(tuple(mistakes[:SHOWN]), len(mistakes), (), 0, False, (), 0)
    on_shots = run.learner.log_probabilities(features_for(run.learner, shots))
    errors = [e for e in wrong_images(shots.items, on_shots, names) if e.probability >= SURE]
    pairs = near_duplicates(shots.features, test.features)
    cosines = (test.features.cpu().float() @ shots.features.cpu().float().T) if pairs else None
    duplicates = []
    for image, shot in pairs:
        assert cosines is not None
        one, other = test.items[image], shots.items[shot]
        cosine = float(cosines[image, shot])
        duplicates.append(DuplicatePair(one, other, cosine, one.label == other.label))
    duplicates.sort(key=lambda pair: -pair.cosine)
    return DoubtfulImages(
        tuple(mistakes[:SHOWN]),
        len(mistakes),
        tuple(errors[:SHOWN]),
        len(errors),
        True,
        tuple(duplicates[:SHOWN]),
        len(duplicates),
    )


def wrong_images(
    items: Sequence[Item], log_probabilities: Tensor, names: Sequence[str]
) -> list[WrongImage]:
    """Returns the images that are classified wrongly, the one with the surest mistake first."""
    best = log_probabilities.max(1)
    order = torch.argsort(best.values, descending=True, stable=True).tolist()
    return [
        WrongImage(
            items[index],
            names[items[index].label],
            names[int(best.indices[index])],
            float(best.values[index].exp()),
            float(log_probabilities[index, items[index].label].exp()),
        )
        for index in order
        if int(best.indices[index]) != items[index].label
    ]


# -- how it is shown ----------------------------------------------------------------------------


def doubtful_images_section(images: DoubtfulImages) -> Section:
    """Returns galleries of mistakes and likely label errors, and a table of near-duplicates."""
    blocks = _label_error_blocks(images) if images.trained else []
    if images.mistakes:
        title = f"The surest of {several(images.mistake_count, 'mistake')} on held-out images"
        blocks.append(_gallery(title, images.mistakes))
    else:
        blocks.append(Paragraph("There is no mistake on the held-out images."))
    counts = [several(images.mistake_count, "mistake")]
    if images.trained:
        blocks += _duplicate_blocks(images)
        counts.insert(0, several(images.label_error_count, "likely label error"))
        counts.append(several(images.duplicate_count, "near-duplicate"))
    return Section("images", "Images to look at", tuple(blocks), f"{listed(counts)}.")


def _label_error_blocks(images: DoubtfulImages) -> list[Block]:
    if not images.label_errors:
        return [
            Paragraph(
                "No training image is taken for another class with a probability of "
                f"{percent(SURE, 0)} or more, so no label looks wrong from here."
            )
        ]
    return [
        Paragraph(
            f"The prompt takes {several(images.label_error_count, 'training image')} for another "
            f"class with a probability of {percent(SURE, 0)} or more, although it was trained on "
            "their labels: a label may be wrong, an image may show several things, or the prompt "
            "may have learnt too little to tell."
        ),
        _gallery("Likely label errors among the training images", images.label_errors),
    ]


def _duplicate_blocks(images: DoubtfulImages) -> list[Block]:
    rule = (
        f"The cosine of their frozen features is above {DUPLICATE}, and the next training image is "
        "at least four times as far away."
    )
    if not images.duplicates:
        return [Paragraph(f"No held-out image nearly repeats a training image. ({rule})")]
    rows = [
        [
            short_name(pair.held_out.path),
            short_name(pair.training.path),
            f"{pair.cosine:.4f}",
            "" if pair.same_label else "different labels",
        ]
        for pair in images.duplicates
    ]
    count = several(
        images.duplicate_count,
        "held-out image nearly repeats a training image, which makes it",
        "held-out images nearly repeat a training image, which makes them",
    )
    caption = "Held-out images that nearly repeat a training image"
    columns = ("held-out image", "training image", "cosine", "labels")
    return [
        Paragraph(f"{count} too easy. {rule}"),
        Table(columns, rows, caption=caption),
    ]


def _gallery(title: str, images: Sequence[WrongImage]) -> Gallery:
    thumbs = []
    for image in images:
        uri = thumbnail(image.item.path)
        if uri is None:
            continue
        caption = (
            f"{short_name(image.item.path)}: labelled {image.label} "
            f"({percent(image.true_probability)}), taken for {image.predicted} "
            f"({percent(image.probability)})"
        )
        alt = f"An image labelled {image.label} and taken for {image.predicted}"
        thumbs.append(Thumb(uri, alt, caption))
    return Gallery(title, tuple(thumbs))
