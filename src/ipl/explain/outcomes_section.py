"""Accuracy, confusion and calibration, before and after."""

from __future__ import annotations

from ipl.display.document import Block, Figure, Figures, Heading, Paragraph, Section
from ipl.display.document import make_table as make
from ipl.display.formatting import number, percent, several
from ipl.display.plots import Bar, Series, bars, heat, lines
from ipl.explain.analysis import Analysis
from ipl.explain.outcomes import PLAIN, PROMPT, ZERO_SHOT, MethodOutcome, Outcomes

NAMES = {ZERO_SHOT: "zero-shot CLIP", PLAIN: "learner without words", PROMPT: "this prompt"}
TONES = {ZERO_SHOT: 2, PLAIN: 3, PROMPT: 1}


def outcomes_section(analysis: Analysis) -> Section:
    """Returns base and novel accuracy of every method, confusion and calibration."""
    found = analysis.outcomes
    assert found is not None
    blocks = [*_accuracy(found), *_confusion(found), *_calibration(found)]
    return Section("outcomes", "Before and after", tuple(blocks))


def _accuracy(found: Outcomes) -> list[Block]:
    base = several(len(found.classes), "class", "classes")
    what = f"{several(found.images, 'held-out image')} of {base}"
    if found.novel_classes:
        what += (
            f" it was trained on (base), and {several(found.novel_images, 'image')} of "
            f"{several(len(found.novel_classes), 'class', 'classes')} it never saw (novel)"
        )
    rows, shown, told = [], [], []
    for method in found.methods:
        name = NAMES[method.name]
        row = [name, percent(method.test.accuracy), number(method.test.loss)]
        if found.novel_classes and method.novel is not None:
            row += [percent(method.novel.accuracy), percent(method.hm)]
        rows.append([*row, method.how])
        base = f"{name}, base" if found.novel_classes else name
        for label, score in ((base, method.test), (f"{name}, novel", method.novel)):
            if score is not None:
                tone = TONES[method.name]
                shown.append(Bar(label, score.accuracy, percent(score.accuracy), tone))
                told.append(f"{label} {percent(score.accuracy)}")
    columns = ["method", "base" if found.novel_classes else "accuracy", "loss"]
    columns += ["novel", "harmonic mean"] if found.novel_classes else []
    title = "Accuracy" + (" on base and novel classes" if found.novel_classes else "")
    numbers = make(title, [*columns, "how"], rows)
    figure = Figure(title, bars(shown, f"{title}: {', '.join(told)}."), numbers)
    blocks: list[Block] = [Paragraph(f"On {what}."), figure]
    return (
        blocks if found.why_no_novel is None else [*blocks, Paragraph(found.why_no_novel, "note")]
    )


def _confusion(found: Outcomes) -> list[Block]:
    before, after = found.of(ZERO_SHOT), found.of(PROMPT)
    assert before is not None
    assert after is not None
    blocks: list[Block] = [
        Heading("Which classes are taken for which"),
        Paragraph(
            "Rows are the true classes, columns what they were taken for: blue is right, orange "
            "wrong, and a stronger colour is a larger share of the row."
            if before.counts
            else "There are too many classes to draw all of them."
        ),
    ]
    if before.counts and after.counts:
        blocks.append(Figures((_matrix(found, before), _matrix(found, after))))
    for method in (before, after):
        rows = [[c.true, c.predicted, str(c.count), str(c.of)] for c in method.confused]
        columns = ("true class", "taken for", "images", "of")
        title = f"Most often confused: {NAMES[method.name]}"
        blocks.append(make(title, columns, rows) if rows else Paragraph(f"{title}: none."))
    return blocks


def _matrix(found: Outcomes, method: MethodOutcome) -> Figure:
    assert method.counts is not None
    title = f"Confusion: {NAMES[method.name]}"
    told = [f"{c.true} taken for {c.predicted} {c.count} of {c.of}" for c in method.confused[:3]]
    svg = heat(method.counts, found.classes, f"{title}. Most often: {'; '.join(told) or 'none'}.")
    rows = [
        [name, *(str(count) if count else "" for count in row)]
        for name, row in zip(found.classes, method.counts, strict=True)
    ]
    return Figure(title, svg, make(title, ("true class", *found.classes), rows))


def _calibration(found: Outcomes) -> list[Block]:
    series, rows, told = [], [], []
    for method in found.methods:
        name = NAMES[method.name]
        seen = [b for b in method.calibration.bins if b.count]
        line = tuple((b.confidence, b.accuracy) for b in seen)
        series.append(Series(name, line, TONES[method.name]))
        told.append(f"{name} {100 * method.calibration.ece:.1f} %")
        rows += [
            [
                name,
                f"{b.low:.2f} to {b.high:.2f}",
                str(b.count),
                percent(b.confidence),
                percent(b.accuracy),
            ]
            for b in seen
        ]
    columns = ("method", "confidence from", "images", "mean confidence", "accuracy")
    alt = f"Accuracy over confidence; expected calibration error: {', '.join(told)}."
    svg = lines(series, alt, "confidence", "accuracy", (0.0, 1.0), (0.0, 1.0), diagonal=True)
    bins = len(found.methods[0].calibration.bins)
    return [
        Heading("Whether its confidence can be trusted"),
        Paragraph(
            "Predictions are sorted into bins by the probability of the predicted class. On the "
            "dashed diagonal it is right as often as it is sure; below it is overconfident. The "
            f"expected calibration error is the mean gap over {bins} bins, weighted by their "
            "images."
        ),
        make(
            "Expected calibration error",
            ("method", "ECE"),
            [[NAMES[m.name], percent(m.calibration.ece)] for m in found.methods],
        ),
        Figure("Reliability", svg, make("Reliability", columns, rows)),
    ]
