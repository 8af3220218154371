"""Accuracy, confusion and calibration of the prompt, beside zero-shot and the baseline."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.labelled_features import LabelledFeatures, encode_items
from ipl.backbone.zero_shot import zero_shot_log_probabilities
from ipl.display.document import Block, Figure, Figures, Heading, Paragraph, Section
from ipl.display.formatting import number, percent, several
from ipl.display.plots import Bar, Series, bars, heat, lines
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
BASELINE = PLAIN_LEARNER
TITLES = {name: title for name, (title, _) in NAMES.items()}
TONES = {ZERO_SHOT: 2, BASELINE: 3, PROMPT: 1}


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


@dataclass(frozen=True)
class NovelImages:
    """Encoded images of classes that the run was not trained on."""

    classes: tuple[str, ...]
    images: LabelledFeatures


def evaluate_outcomes(
    run: LoadedRun,
    run_images: RunImages,
    log_probabilities: Tensor,
    baseline: Baseline | None,
    strict: bool = False,
    reporter: Reporter = SILENT,
) -> Outcomes:
    """Returns every method's scores; `log_probabilities` are the prompt's, on held-out images."""
    backbone, test = run.learner.backbone, run_images.test
    template = run.result.config.class_template
    novel, why_no_novel = _novel_images(run, run_images, strict, reporter)
    methods = [
        _method_outcome(
            ZERO_SHOT,
            f'CLIP as it comes, "{template}"',
            zero_shot_log_probabilities(backbone, run.classes, test.features, template),
            run_images,
            run.classes,
            None if novel is None else _zero_shot_on_novel(backbone, novel, template),
        )
    ]
    learners = [(PROMPT, run.result.prompt, run.learner, log_probabilities)]
    others = []
    if baseline is not None:
        predictions = baseline.learner.log_probabilities(features_for(baseline.learner, test))
        others.append((BASELINE, baseline.how, predictions))
        learners.insert(0, (BASELINE, baseline.how, baseline.learner, predictions))
    for name, how, learner, predictions in learners:
        novel_score = None if novel is None else _score_on_novel(learner, novel)
        methods.append(
            _method_outcome(name, how, predictions, run_images, run.classes, novel_score)
        )
    comparison = compare_with_baselines(
        run.learner, log_probabilities, run_images.shots, test, run.result.config, others
    )
    if run_images.shots is not None:
        comparison = _with_saved(comparison, run.result.comparison)
    return Outcomes(
        methods=tuple(methods),
        classes=run.classes,
        images=len(test.items),
        novel_classes=novel.classes if novel else (),
        novel_images=len(novel.images.items) if novel else 0,
        why_no_novel=why_no_novel,
        comparison=comparison,
    )


def _with_saved(comparison: Comparison, saved: Comparison | None) -> Comparison:
    """Returns the comparison with the prompt without words that the fit trained, if it did.

    Its counts are for these images only if the prompt's own counts are the same as at the fit.
    """
    method = None if saved is None else saved.of(WITHOUT_WORDS)
    if saved is None or method is None:
        return comparison
    now, then = (each.prompt.correct for each in (comparison, saved))
    same = saved.images == comparison.images and now == then
    return comparison.with_method(method) if same else comparison


def _method_outcome(
    name: str,
    how: str,
    log_probabilities: Tensor,
    run_images: RunImages,
    class_names: tuple[str, ...],
    novel: Score | None,
) -> MethodScores:
    labels = run_images.test.labels
    counts = confusion(log_probabilities, labels)
    return MethodScores(
        name=name,
        how=how,
        test=score(log_probabilities, labels),
        calibration=calibration(log_probabilities, labels),
        confused=most_confused(counts, class_names),
        counts=tuple(map(tuple, counts.tolist())) if len(class_names) <= MATRIX_LIMIT else None,
        novel=novel,
    )


def _novel_images(
    run: LoadedRun, run_images: RunImages, strict: bool, reporter: Reporter
) -> tuple[NovelImages | None, str | None]:
    """Returns the classes and images that the run was not trained on, or why there are none."""
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
    items = dataset.test or dataset.train
    images = encode_items(items, "novel", run.store, strict, reporter)
    if not images.items:
        return None, "No image of the data's other classes could be read."
    return NovelImages(dataset.class_names, images), None


def _zero_shot_on_novel(backbone: Backbone, novel: NovelImages, template: str) -> Score:
    features = novel.images.features
    predictions = zero_shot_log_probabilities(backbone, novel.classes, features, template)
    return score(predictions, novel.images.labels)


def _score_on_novel(learner: Learner, novel: NovelImages) -> Score:
    other = learner.rebuilt(class_names=novel.classes)
    return score(other.log_probabilities(features_for(other, novel.images)), novel.images.labels)


# -- how it is shown ----------------------------------------------------------------------------


def outcomes_section(outcomes: Outcomes) -> Section:
    """Returns base and novel accuracy of every method, confusion and calibration."""
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
        worst = prompt.confused[0]
        taken = f"{worst.true} taken for {worst.predicted} ({worst.count} of {worst.of})"
        summary += f"; most often confused: {taken}"
    return Section("outcomes", "Before and after", tuple(blocks), f"{summary}.")


def novel_sentence(outcomes: Outcomes) -> str:
    """Returns how often it is right on classes that it was not trained on."""
    methods = [outcomes.of(name) for name in (PROMPT, ZERO_SHOT, BASELINE)]
    prompt, zero_shot, baseline = (
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
    if baseline is not None:
        sentence += f"; the learner without words for {percent(baseline)}"
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
    rows, accuracy_bars, values = [], [], []
    for method in outcomes.methods:
        title, tone = TITLES[method.name], TONES[method.name]
        row = [title, percent(method.test.accuracy), number(method.test.loss)]
        if with_novel and method.novel is not None:
            row += [percent(method.novel.accuracy), percent(method.hm)]
        rows.append([*row, method.how])
        base_label = f"{title}, base" if with_novel else title
        for label, value in ((base_label, method.test), (f"{title}, novel", method.novel)):
            if value is not None:
                accuracy = percent(value.accuracy)
                accuracy_bars.append(Bar(label, value.accuracy, accuracy, tone))
                values.append(f"{label} {accuracy}")
    columns = ["method", "base" if with_novel else "accuracy", "loss"]
    columns += ["novel", "harmonic mean"] if with_novel else []
    title = "Accuracy" + (" on base and novel classes" if with_novel else "")
    table = Table([*columns, "how"], rows, caption=title)
    svg = bars(accuracy_bars, f"{title}: {', '.join(values)}.")
    blocks: list[Block] = [Paragraph(f"On {images}."), Figure(title, svg, table)]
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
        title = f"Most often confused: {TITLES[method.name]}"
        blocks.append(Table(columns, rows, caption=title) if rows else Paragraph(f"{title}: none."))
    return blocks


def _matrix(outcomes: Outcomes, method: MethodScores) -> Figure:
    assert method.counts is not None
    classes, title = outcomes.classes, f"Confusion: {TITLES[method.name]}"
    worst = [f"{c.true} taken for {c.predicted} {c.count} of {c.of}" for c in method.confused[:3]]
    svg = heat(method.counts, classes, f"{title}. Most often: {'; '.join(worst) or 'none'}.")
    rows = [
        [name, *(str(count) if count else "" for count in row)]
        for name, row in zip(classes, method.counts, strict=True)
    ]
    return Figure(title, svg, Table(("true class", *classes), rows, caption=title))


def _calibration_blocks(outcomes: Outcomes) -> list[Block]:
    series, rows, errors = [], [], []
    for method in outcomes.methods:
        title = TITLES[method.name]
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
            [[TITLES[m.name], percent(m.calibration.ece)] for m in outcomes.methods],
            caption="Expected calibration error",
        ),
        Figure("Reliability", svg, Table(columns, rows, caption="Reliability")),
    ]
