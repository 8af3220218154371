"""Accuracy, confusion and calibration of the prompt, beside zero-shot and the plain learner."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ipl.backbone.labelled_features import LabelledFeatures, encode_items
from ipl.backbone.zero_shot import zero_shot_log_probabilities
from ipl.display.document import Block, Figure, Figures, Heading, Paragraph, Section
from ipl.display.formatting import number, percent, several
from ipl.display.plots import Series, heat, lines
from ipl.display.table import Table
from ipl.explain.baseline import Baseline
from ipl.explain.loaded_run import LoadedRun, RunImages
from ipl.learners.learner import Learner
from ipl.metrics import (
    Calibration,
    Confused,
    Score,
    calibration,
    confusion,
    harmonic_mean,
    most_confused,
    score,
)
from ipl.support.progress import SILENT, Reporter
from ipl.training.comparison import (
    NAMES,
    PLAIN_LEARNER,
    PROMPT,
    WITHOUT_WORDS,
    ZERO_SHOT,
    Comparison,
    compare_with_baselines,
)
from ipl.training.fit import features_for

MATRIX_LIMIT = 40  # classes; with more, the confusion is not kept whole
TONES = {ZERO_SHOT: 2, PLAIN_LEARNER: 3, PROMPT: 1}


@dataclass(frozen=True)
class MethodScores:
    """One way to classify: scores on the held-out images, and on classes never trained on."""

    name: str  # zero-shot, plain or prompt
    how: str
    test: Score
    calibration: Calibration
    confused: tuple[Confused, ...]  # most often first
    counts: tuple[tuple[int, ...], ...] | None  # (true, predicted); None with very many classes
    novel: Score | None

    @property
    def title(self) -> str:
        """Returns its name in tables and plots."""
        return NAMES[self.name][0]

    @property
    def hm(self) -> float | None:
        """Returns the harmonic mean of the accuracies on base and novel classes."""
        if self.novel is None:
            return None
        return harmonic_mean(self.test.accuracy, self.novel.accuracy)


@dataclass(frozen=True)
class Outcomes:
    """All methods on the same images; `why_no_novel` says why there are no novel classes."""

    methods: tuple[MethodScores, ...]
    classes: tuple[str, ...]
    images: int
    novel_classes: tuple[str, ...]
    novel_images: int
    why_no_novel: str | None
    comparison: Comparison  # on the held-out images

    def of(self, name: str) -> MethodScores | None:
        """Returns the method of this name, None if it was not evaluated."""
        return next((method for method in self.methods if method.name == name), None)


def evaluate_outcomes(
    run: LoadedRun,
    run_images: RunImages,
    log_probabilities: Tensor,
    baseline: Baseline | None,
    strict: bool = False,
    reporter: Reporter = SILENT,
) -> Outcomes:
    """Returns every method's scores; `log_probabilities` are the prompt's, on held-out images."""
    config, test = run.result.config, run_images.test
    novel, why_no_novel = _novel_images(run, run_images, strict, reporter)
    novel_classes = run_images.novel.class_names if run_images.novel and novel else ()

    def predict(
        learner: Learner | None, classes: tuple[str, ...], images: LabelledFeatures
    ) -> Tensor:
        if learner is None:
            backbone, template = run.learner.backbone, config.class_template
            return zero_shot_log_probabilities(backbone, classes, images.features, template)
        if classes != run.classes:
            learner = learner.rebuilt(class_names=classes)
        return learner.log_probabilities(features_for(learner, images))

    ways: list[tuple[str, str, Learner | None]] = [
        (ZERO_SHOT, f'CLIP as it comes, "{config.class_template}"', None),
        *([(PLAIN_LEARNER, baseline.how, baseline.learner)] if baseline else []),
        (PROMPT, run.result.prompt, run.learner),
    ]
    methods, others = [], []
    for name, how, learner in ways:
        base = log_probabilities if name == PROMPT else predict(learner, run.classes, test)
        if name == PLAIN_LEARNER:
            others.append((name, how, base))
        counts = confusion(base, test.labels)
        methods.append(
            MethodScores(
                name=name,
                how=how,
                test=score(base, test.labels),
                calibration=calibration(base, test.labels),
                confused=most_confused(counts, run.classes),
                counts=tuple(map(tuple, counts.tolist()))
                if len(run.classes) <= MATRIX_LIMIT
                else None,
                novel=score(predict(learner, novel_classes, novel), novel.labels)
                if novel
                else None,
            )
        )
    comparison = compare_with_baselines(
        run.learner, log_probabilities, run_images.shots, test, config, others
    )
    if run_images.shots is not None and run.result.comparison is not None:
        comparison = with_saved(comparison, run.result.comparison)
    return Outcomes(
        methods=tuple(methods),
        classes=run.classes,
        images=len(test.items),
        novel_classes=novel_classes,
        novel_images=len(novel.items) if novel else 0,
        why_no_novel=why_no_novel,
        comparison=comparison,
    )


def with_saved(comparison: Comparison, saved: Comparison) -> Comparison:
    """Returns the comparison with the prompt without words that the fit trained, if it did.

    Its counts are for these images only if the prompt's own counts are the same as at the fit.
    """
    method = saved.of(WITHOUT_WORDS)
    same_prompt = saved.prompt.correct == comparison.prompt.correct
    if method is None or not same_prompt or saved.images != comparison.images:
        return comparison
    return comparison.with_method(method)


def _novel_images(
    run: LoadedRun, run_images: RunImages, strict: bool, reporter: Reporter
) -> tuple[LabelledFeatures | None, str | None]:
    """Returns images of classes that the run was not trained on, or why there are none."""
    dataset = run_images.novel
    if dataset is None:
        others = [name for name in run_images.classes if name not in run.classes]
        if others:
            return None, (
                f"The run was trained on all classes of this data but {others[0]!r}. With two or "
                "more such classes to choose from, the report would show how the prompt does on "
                "them."
            )
        return None, (
            "The run was trained on all classes of this data. Data with more classes than the run "
            "would show how the prompt does on them."
        )
    images = encode_items(dataset.test or dataset.train, "novel", run.store, strict, reporter)
    if not images.items:
        return None, "No image of the data's other classes could be read."
    return images, None


# -- how it is shown ----------------------------------------------------------------------------


def outcomes_section(outcomes: Outcomes) -> Section:
    """Returns every class, base and novel accuracy of every method, confusion and calibration."""
    blocks: list[Block] = [
        outcomes.comparison.class_table(),
        *_accuracy_blocks(outcomes),
        *_confusion_blocks(outcomes),
        *_calibration_blocks(outcomes),
    ]
    prompt = outcomes.of(PROMPT)
    assert prompt is not None
    summary = "Every class, confusions and calibration"
    if prompt.confused:
        summary += f"; most often confused: {prompt.confused[0].text}"
    return Section("outcomes", "Before and after", tuple(blocks), f"{summary}.")


def novel_sentence(outcomes: Outcomes) -> str:
    """Returns how often it is right on classes that it was not trained on."""
    methods = [outcomes.of(name) for name in (PROMPT, ZERO_SHOT, PLAIN_LEARNER)]
    prompt, zero_shot, plain = (
        method.novel.accuracy if method and method.novel else None for method in methods
    )
    assert prompt is not None
    assert zero_shot is not None
    change = 100 * (prompt - zero_shot)
    than = f"{abs(change):.1f} points {'more' if change > 0 else 'fewer'} than"
    sentence = (
        f"On {several(outcomes.novel_images, 'image')} of "
        f"{several(len(outcomes.novel_classes), 'class', 'classes')} it was not trained on it is "
        f"right for {percent(prompt)}, {than if change else 'as'} the same CLIP without it "
        f"({percent(zero_shot)})"
    )
    if plain is not None:
        sentence += f"; the learner without words for {percent(plain)}"
    return f"{sentence}."


def _accuracy_blocks(outcomes: Outcomes) -> list[Block]:
    with_novel = bool(outcomes.novel_classes)
    images = (
        f"{several(outcomes.images, 'held-out image')} of "
        f"{several(len(outcomes.classes), 'class', 'classes')}"
    )
    if with_novel:
        images += (
            f" it was trained on (base), and {several(outcomes.novel_images, 'image')} of "
            f"{several(len(outcomes.novel_classes), 'class', 'classes')} it never saw (novel)"
        )
    rows = []
    for method in outcomes.methods:
        row = [method.title, percent(method.test.accuracy), number(method.test.loss)]
        if method.novel is not None:
            row += [percent(method.novel.accuracy), percent(method.hm)]
        rows.append([*row, method.how])
    columns = ["method", "base" if with_novel else "accuracy", "loss"]
    columns += ["novel", "harmonic mean"] if with_novel else []
    caption = "Accuracy" + (" on base and novel classes" if with_novel else "")
    blocks: list[Block] = [
        Paragraph(f"On {images}."),
        Table([*columns, "how"], rows, caption=caption),
    ]
    if outcomes.why_no_novel is not None:
        blocks.append(Paragraph(outcomes.why_no_novel, "note"))
    return blocks


def _confusion_blocks(outcomes: Outcomes) -> list[Block]:
    before, after = outcomes.of(ZERO_SHOT), outcomes.of(PROMPT)
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
        blocks.append(Figures((_matrix(outcomes, before), _matrix(outcomes, after))))
    for method in (before, after):
        rows = [[c.true, c.predicted, str(c.count), str(c.of)] for c in method.confused]
        columns = ("true class", "taken for", "images", "of")
        title = f"Most often confused: {method.title}"
        blocks.append(Table(columns, rows, caption=title) if rows else Paragraph(f"{title}: none."))
    return blocks


def _matrix(outcomes: Outcomes, method: MethodScores) -> Figure:
    assert method.counts is not None
    classes, title = outcomes.classes, f"Confusion: {method.title}"
    worst = [confused.text for confused in method.confused[:3]]
    svg = heat(method.counts, classes, f"{title}. Most often: {'; '.join(worst) or 'none'}.")
    rows = [
        [name, *(str(count) if count else "" for count in row)]
        for name, row in zip(classes, method.counts, strict=True)
    ]
    return Figure(title, svg, Table(("true class", *classes), rows, caption=title))


def _calibration_blocks(outcomes: Outcomes) -> list[Block]:
    series, rows, errors = [], [], []
    for method in outcomes.methods:
        title = method.title
        filled = [b for b in method.calibration.bins if b.count]
        line = tuple((b.confidence, b.accuracy) for b in filled)
        series.append(Series(title, line, TONES[method.name]))
        errors.append(f"{title} {100 * method.calibration.ece:.1f} %")
        rows += [
            [
                title,
                f"{b.low:.2f} to {b.high:.2f}",
                str(b.count),
                percent(b.confidence),
                percent(b.accuracy),
            ]
            for b in filled
        ]
    columns = ("method", "confidence from", "images", "mean confidence", "accuracy")
    alt = f"Accuracy over confidence; expected calibration error: {', '.join(errors)}."
    svg = lines(series, alt, "confidence", "accuracy", (0.0, 1.0), (0.0, 1.0), diagonal=True)
    bins = len(outcomes.methods[0].calibration.bins)
    return [
        Heading("Whether its confidence can be trusted"),
        Paragraph(
            "Predictions are sorted into bins by the probability of the predicted class. On the "
            "dashed diagonal it is right as often as it is sure; below it is overconfident. The "
            f"expected calibration error is the mean gap over {bins} bins, weighted by their "
            "images."
        ),
        Table(
            ("method", "ECE"),
            [[m.title, percent(m.calibration.ece)] for m in outcomes.methods],
            caption="Expected calibration error",
        ),
        Figure("Reliability", svg, Table(columns, rows, caption="Reliability")),
    ]
