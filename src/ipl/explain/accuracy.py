"""Every class, what is taken for what, and how far confidence can be trusted."""

from __future__ import annotations

from ipl.display.document import Block, Figure, Paragraph, Section
from ipl.display.formatting import listed, percent
from ipl.display.plots import heat
from ipl.explain.inputs import ReportData
from ipl.metrics import calibration, confusion
from ipl.training.comparison import Comparison

MATRIX_LIMIT = 40  # classes; with more, the confusion is not drawn


def accuracy_section(data: ReportData) -> Section | None:
    """Every class and, if there are images, the confusions and the calibration."""
    run, comparison, images = data.run, data.comparison, data.images
    if comparison is None:
        return None
    blocks: list[Block] = [comparison.class_table()]
    values: dict[str, object] = {"comparison": comparison.as_dict()}
    if images is not None:
        labels = images.test.labels
        zero_shot = run.zero_shot(run.classes, images.test.features)
        counts = confusion(images.learnt, labels).tolist()
        error, before = (calibration(each, labels).ece for each in (images.learnt, zero_shot))
        if len(run.classes) <= MATRIX_LIMIT:
            title = "Confusion: rows are the true classes, columns what they were taken for"
            drawing = heat(counts, run.classes, f"{title}. {comparison.confusions}")
            blocks.append(Figure(title, drawing))
        blocks.append(
            Paragraph(
                f"The expected calibration error is {percent(error)}, that of zero-shot CLIP "
                f"{percent(before)}: the mean gap between accuracy and confidence."
            )
        )
        values |= {"confusion": counts, "calibration_error": error}
    return Section("accuracy", "Every class", tuple(blocks), _lowest(comparison), values)


def _lowest(comparison: Comparison) -> str:
    """The classes with the lowest accuracies."""
    counts = zip(comparison.classes, comparison.learnt.correct, comparison.images, strict=True)
    lowest = sorted((row for row in counts if row[2]), key=lambda row: row[1] / row[2])[:3]
    return f"Lowest: {listed([f'{name} ({right} of {of})' for name, right, of in lowest])}."
