"""Would more training images help? A linear probe on parts of them says how accuracy grows."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ipl.backbone.labelled_features import LabelledFeatures
from ipl.backbone.linear_probe import fit_linear_probe
from ipl.display.document import Figure, Paragraph, Section
from ipl.display.formatting import percent, several, signed
from ipl.display.plots import line
from ipl.explain.inputs import ReportData

PARTS = (0.25, 0.5, 1.0)
DRAWS = 3  # of each part but the whole


@dataclass(frozen=True)
class Point:
    """The accuracy on held-out images after training on some images, mean over the draws."""

    images: int
    accuracy: float


def learning_curve(
    shots: LabelledFeatures, test: LabelledFeatures, classes: int, seed: int = 1
) -> tuple[Point, ...]:
    """The accuracies of a linear probe trained on a quarter, a half and all of the images."""
    generator = torch.Generator().manual_seed(seed)
    found = list[Point]()
    for part in PARTS:
        accuracies, size = list[float](), 0
        for _ in range(1 if part == 1 else DRAWS):
            rows = []
            for label in range(classes):
                of_class = (shots.labels == label).nonzero().flatten()
                order = torch.randperm(len(of_class), generator=generator)
                rows.append(of_class[order[: max(1, round(part * len(of_class)))]])
            drawn = shots.rows(torch.cat(rows).sort().values.tolist())
            probe = fit_linear_probe(drawn.features, drawn.labels, classes, seed)
            right = probe.logits(test.features).argmax(1).cpu() == test.labels
            accuracies.append(float(right.double().mean()))
            size = len(drawn.items)
        if not found or size > found[-1].images:
            found.append(Point(size, sum(accuracies) / len(accuracies)))
    return tuple(found)


def learning_curve_section(data: ReportData) -> Section | None:
    """How accuracy grows with the training images, and what twice as many may bring."""
    run, images = data.run, data.images
    if images is None or images.shots is None:
        return None
    curve = learning_curve(images.shots, images.test, len(run.classes), run.result.config.seed)
    if len(curve) < 2:
        return None
    half, whole = curve[-2:]
    gain = signed(100 * max(0.0, whole.accuracy - half.accuracy), 0)
    summary = (
        f"Twice the images: about {gain} {'point' if gain == '+1' else 'points'}, if the accuracy "
        f"of a linear probe grows as from {half.images} to {several(whole.images, 'image')}."
    )
    shown = ", ".join(f"{percent(p.accuracy)} with {p.images}" for p in curve)
    title = "Accuracy of a linear probe on held-out images"
    svg = line(
        [(p.images, 100 * p.accuracy) for p in curve],
        f"{title}: {shown} training images.",
        "training images",
        "accuracy in %",
        x_ticks=[(float(p.images), str(p.images)) for p in curve],
    )
    how = (
        "A linear probe on the backbone's features was trained on parts of the training images "
        f"({DRAWS} draws of each) and measured on the held-out ones. What was learnt may grow in "
        "another way; a flat curve says that other images, better labels or a larger backbone "
        "would help more than more of the same."
    )
    blocks = (Paragraph(how), Figure(title, svg))
    return Section("more", "Would more images help?", blocks, summary, {"curve": curve})
