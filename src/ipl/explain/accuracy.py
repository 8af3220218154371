"""Every class, what is taken for what, how far confidence can be trusted, and other classes."""

from __future__ import annotations

from dataclasses import dataclass

from ipl.backbone.labelled_features import encode_items
from ipl.display.document import Block, Figure, Heading, Paragraph, Section
from ipl.display.formatting import listed, percent, several
from ipl.display.plots import heat, line
from ipl.display.table import Table
from ipl.explain.data import ReportData
from ipl.explain.run import LoadedRun, RunImages
from ipl.metrics import Calibration, Score, calibration, confusion, score
from ipl.support.progress import SILENT, Reporter
from ipl.training.comparison import PROMPT, ZERO_SHOT, Comparison
from ipl.training.fit import features_for

MATRIX_LIMIT = 40  # classes; with more, the confusion is not drawn


@dataclass(frozen=True)
class NovelScores:
    """Scores on classes of the data that the run was not trained on."""

    classes: tuple[str, ...]
    images: int
    scores: dict[str, Score]  # of zero-shot and the prompt

    @property
    def sentence(self) -> str:
        prompt, zero_shot = self.scores[PROMPT].accuracy, self.scores[ZERO_SHOT].accuracy
        change = 100 * (prompt - zero_shot)
        than = f"{abs(change):.1f} points {'more' if change > 0 else 'fewer'} than"
        return (
            f"On {several(self.images, 'image')} of "
            f"{several(len(self.classes), 'class', 'classes')} it was not trained on the prompt is "
            f"right for {percent(prompt)}, {than if change else 'as'} the same CLIP without it "
            f"({percent(zero_shot)})."
        )


def novel_scores(
    run: LoadedRun, images: RunImages, reporter: Reporter = SILENT
) -> NovelScores | None:
    """Scores on the data's other classes, which compete among themselves; None without them."""
    if images.novel is None:
        return None
    items, classes = images.novel.test or images.novel.train, images.novel.class_names
    novel = encode_items(items, "novel", run.store, reporter)
    if not novel.items:
        return None
    learner = run.learner.rebuilt(class_names=classes)
    predictions = {
        ZERO_SHOT: run.zero_shot(classes, novel.features),
        PROMPT: learner.log_probabilities(features_for(learner, novel)),
    }
    scores = {name: score(values, novel.labels) for name, values in predictions.items()}
    return NovelScores(classes, len(novel.items), scores)


def accuracy_section(run: LoadedRun, data: ReportData) -> Section | None:
    """Every class and, if there are images, the confusions and the calibration."""
    comparison, images = data.comparison, data.images
    if comparison is None:
        return None
    blocks: list[Block] = [comparison.class_table()]
    values: dict[str, object] = {"comparison": comparison.as_dict(), "novel": data.novel}
    if data.novel is not None:
        blocks.append(Paragraph(data.novel.sentence))
    if images is not None:
        labels = images.test.labels
        zero_shot = run.zero_shot(run.classes, images.test.features)
        counts = confusion(images.learnt, labels).tolist()
        trusted, before = calibration(images.learnt, labels), calibration(zero_shot, labels)
        if len(run.classes) <= MATRIX_LIMIT:
            blocks.append(_confusion_figure(comparison, counts))
        blocks += _calibration_blocks(trusted, before)
        values |= {
            "scores": {
                ZERO_SHOT: score(zero_shot, labels),
                PROMPT: score(images.prompt, labels),
                comparison.learnt.name: score(images.learnt, labels),
            },
            "confusion": counts,
            "calibration": trusted,
        }
    return Section("accuracy", "Every class", tuple(blocks), _lowest(comparison), values)


def _lowest(comparison: Comparison) -> str:
    """The classes with the lowest accuracies."""
    counts = zip(comparison.classes, comparison.learnt.correct, comparison.images, strict=True)
    lowest = sorted((row for row in counts if row[2]), key=lambda row: row[1] / row[2])[:3]
    return f"Lowest: {listed([f'{name} ({right} of {of})' for name, right, of in lowest])}."


def _confusion_figure(comparison: Comparison, counts: list[list[int]]) -> Figure:
    classes = comparison.classes
    title = "Confusion: rows are the true classes, columns what they were taken for"
    rows = [
        [name, *(str(count) if count else "" for count in row)]
        for name, row in zip(classes, counts, strict=True)
    ]
    drawing = heat(counts, classes, f"{title}. {comparison.confusions}")
    return Figure(title, drawing, Table(("true class", *classes), rows, caption=title))


def _calibration_blocks(found: Calibration, before: Calibration) -> list[Block]:
    filled = [each for each in found.bins if each.count]
    rows = [
        [
            f"{each.low:.2f} to {each.high:.2f}",
            str(each.count),
            percent(each.confidence),
            percent(each.accuracy),
        ]
        for each in filled
    ]
    columns = ("confidence from", "images", "mean confidence", "accuracy")
    error = f"The expected calibration error is {percent(found.ece)}"
    svg = line(
        [(b.confidence, b.accuracy) for b in found.bins if b.accuracy is not None],
        f"Accuracy over confidence. {error}.",
        *("confidence", "accuracy"),
        diagonal=True,
    )
    return [
        Heading("Whether its confidence can be trusted"),
        Paragraph(
            "On the dotted diagonal it is right as often as it is sure; below it is overconfident. "
            f"{error}, that of zero-shot CLIP {percent(before.ece)}: the mean gap between accuracy "
            f"and confidence over {len(found.bins)} bins, weighted by their images."
        ),
        Figure("Reliability", svg, Table(columns, rows, caption="Reliability")),
    ]
