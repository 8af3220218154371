"""The confused pairs with pictures, and the surest mistakes with the training images near them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ipl.backbone.labelled_features import LabelledFeatures
from ipl.datasets.dataset import Item
from ipl.datasets.images import short_name, thumbnail
from ipl.display.document import Block, Gallery, Heading, Paragraph, Section, Thumb
from ipl.display.formatting import percent, several
from ipl.explain.inputs import ReportData
from ipl.metrics import Confused

SHOWN, NEAREST, OF_PAIR = 12, 3, 6


@dataclass(frozen=True)
class WrongImage:
    """An image that is taken for another class than its label."""

    item: Item
    label: str
    predicted: str
    runner_up: str
    probability: float  # of the predicted class
    runner_up_probability: float
    label_probability: float
    nearest: tuple[Item, ...] = ()  # training images, by their frozen features

    @property
    def text(self) -> str:
        found = f"{self.label} taken for {self.predicted} ({percent(self.probability, 0)})"
        second = f"{self.runner_up} ({percent(self.runner_up_probability, 0)})"
        if self.runner_up == self.label:
            return f"{found}, then {second}"
        return f"{found}, then {second}; {self.label} {percent(self.label_probability, 0)}"


def wrong_images(
    items: Sequence[Item], log_probabilities: Tensor, names: Sequence[str]
) -> list[WrongImage]:
    """The images that are classified wrongly, the surest mistake first."""
    best = log_probabilities.topk(2, dim=1)
    wrong = []
    for index in torch.argsort(best.values[:, 0], descending=True, stable=True).tolist():
        item = items[index]
        predicted, runner_up = best.indices[index].tolist()
        if predicted == item.label:
            continue
        probabilities = log_probabilities[index].exp().tolist()
        wrong.append(
            WrongImage(
                item,
                *(names[label] for label in (item.label, predicted, runner_up)),
                *(probabilities[label] for label in (predicted, runner_up, item.label)),
            )
        )
    return wrong


def with_nearest(
    mistakes: Sequence[WrongImage], test: LabelledFeatures, shots: LabelledFeatures
) -> list[WrongImage]:
    """The mistakes, each with the training images that look most like it to the backbone."""
    rows = {item: index for index, item in enumerate(test.items)}
    features = test.features[[rows[mistake.item] for mistake in mistakes]]
    cosines = features.float() @ shots.features.float().T
    nearest = cosines.topk(min(NEAREST, len(shots.items)), dim=1).indices.tolist()
    return [
        replace(mistake, nearest=tuple(shots.items[index] for index in indices))
        for mistake, indices in zip(mistakes, nearest, strict=True)
    ]


def mistakes_section(data: ReportData) -> Section | None:
    """The confused pairs with pictures, and the surest mistakes with their nearest images."""
    run, images, comparison = data.run, data.images, data.comparison
    if images is None or comparison is None:
        return None
    mistakes = wrong_images(images.test.items, images.learnt, run.classes)
    if not mistakes:
        text = "There is no mistake on the held-out images."
        return Section("mistakes", "Mistakes", (Paragraph(text),), text, {"mistakes": []})
    count, shown = several(len(mistakes), "mistake"), mistakes[:SHOWN]
    blocks: list[Block] = [_pair_gallery(pair, mistakes) for pair in comparison.confused]
    blocks.append(Heading(f"The surest of {count}"))
    if images.shots is not None:
        shown = with_nearest(shown, images.test, images.shots)
        blocks.append(
            Paragraph(
                f"Beside each stand the {NEAREST} training images that look most like it to the "
                "backbone: often they show what it was mistaken for, or that a label is wrong."
            )
        )
    blocks += [_mistake_gallery(mistake, run.classes) for mistake in shown]
    summary = f"{count} on {several(len(images.test.items), 'held-out image')}. "
    summary += comparison.confusions
    values = {"mistakes": shown, "count": len(mistakes)}
    return Section("mistakes", "Mistakes", tuple(blocks), summary, values)


def _pair_gallery(pair: Confused, mistakes: Sequence[WrongImage]) -> Gallery:
    found = [m for m in mistakes if (m.label, m.predicted) == (pair.true, pair.predicted)]
    alt = f"An image of {pair.true}, taken for {pair.predicted}"
    thumbs = [
        thumb(m.item, alt, f"{short_name(m.item.path)}, {percent(m.probability, 0)} sure")
        for m in found[:OF_PAIR]
    ]
    return Gallery(pair.text, tuple(filter(None, thumbs)))


def _mistake_gallery(mistake: WrongImage, names: Sequence[str]) -> Gallery:
    alt = f"An image labelled {mistake.label} and taken for {mistake.predicted}"
    thumbs = [thumb(mistake.item, alt, short_name(mistake.item.path))]
    for item in mistake.nearest:
        name = names[item.label]
        caption = f"near it, {name}: {short_name(item.path)}"
        thumbs.append(thumb(item, f"A training image of {name}", caption))
    return Gallery(mistake.text, tuple(filter(None, thumbs)))


def thumb(item: Item, alt: str, caption: str) -> Thumb | None:
    """A small picture of an image with its caption; None if it cannot be read any more."""
    uri = thumbnail(item.path)
    return None if uri is None else Thumb(uri, alt, caption)
