"""A prompt beside what it must beat, all on the same labelled images, and a verdict.

The fit computes it, the saved run keeps it, and the command line, the report and the workbench
show it. Only counts are kept; accuracies, intervals and the verdict follow from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import le
from typing import Any

import torch
from torch import Tensor

from ipl.backbone.known_images import note_known_images
from ipl.backbone.labelled_features import LabelledFeatures
from ipl.backbone.linear_probe import LinearProbe, fit_linear_probes
from ipl.backbone.zero_shot import zero_shot_logits
from ipl.config import FitConfig
from ipl.display.formatting import (
    first_few,
    listed,
    percent,
    points,
    range_of_percent,
    several,
    signed,
)
from ipl.display.page import notebook_html
from ipl.display.table import Styled, Table
from ipl.learners.learner import Learner
from ipl.metrics import (
    Confused,
    PairedDifference,
    confusion,
    most_confused,
    paired_difference,
    wilson_interval,
)
from ipl.support.errors import ConfigError, brief
from ipl.support.plain_values import from_plain

ZERO_SHOT, LINEAR_PROBE, PROMPT = "zero-shot", "linear-probe", "prompt"
NAMED_PROBE = "probe-with-names"  # a linear probe whose offset is the zero-shot logits
HEAD = "head"  # the prompt with its linear head
WITHOUT_WORDS = "without-words"  # the same layout and training, with empty slots
# How a table and a sentence name each of them.
NAMES = {
    ZERO_SHOT: ("zero-shot CLIP", "zero-shot"),
    LINEAR_PROBE: ("linear probe", "a linear probe"),
    NAMED_PROBE: ("probe with class names", "a linear probe with class names"),
    WITHOUT_WORDS: ("prompt without words", "the same prompt without words"),
    PROMPT: ("this prompt", "the prompt alone"),
    HEAD: ("this prompt with head", "the prompt with its head"),
}
BASELINES = (ZERO_SHOT, LINEAR_PROBE, NAMED_PROBE, PROMPT)  # of the verdict
WORDLESS = (WITHOUT_WORDS,)  # are compared with the prompt alone
INSTEAD = {  # how to use what is better
    ZERO_SHOT: "`ipl predict --classes` shows where it disagrees",
    LINEAR_PROBE: "scikit-learn's LogisticRegression on `classifier.encode(images)`",
    NAMED_PROBE: "more images, or another seed, may give the head the same",
    PROMPT: "`ipl fit --no-head`",
}
# The share, and the number, of a class's images that are lost when it collapses. By chance alone,
# six of six differences are losses with a probability of 3 % (two-sided).
COLLAPSE, FEWEST_LOST = 0.2, 6
DUPLICATE, MARGIN, SAME = 0.99, 0.25, 1e-6  # see near_duplicates
NO_IMAGES = (
    "Held-out accuracy: not measured, because no readable image was left beside those it was "
    "trained on; whether the prompt is better than zero-shot is not known."
)
ABOUT_INTERVALS = (
    "95 % intervals over these images; other shots or another seed would change the numbers too."
)


@dataclass(frozen=True)
class Method:
    """What one way to classify gets right.

    Parameters
    ----------
    name : str
        zero-shot, linear-probe, probe-with-names, without-words, prompt or head.
    how : str
        What it is, in a few words.
    correct : tuple of int
        Images that it gets right, for each class.
    gained, lost : int
        Images that what was learnt gets right and it does not, and the reverse.
    """

    name: str
    how: str
    correct: tuple[int, ...]
    gained: int = 0
    lost: int = 0

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise ConfigError(
                f"results.comparison has the method {brief(self.name)}; it must be one of "
                f"{', '.join(NAMES)}."
            )

    @property
    def title(self) -> str:
        """Its name in a table."""
        return NAMES[self.name][0]


@dataclass(frozen=True)
class Comparison:
    """A prompt and its baselines on the same images.

    Parameters
    ----------
    classes : tuple of str
        The classes.
    images : tuple of int
        Images of each class.
    methods : tuple of Method
        The baselines, then the prompt and, if it has one, the prompt with its head. The last one is
        what was learnt: all others are compared with it, or with the prompt alone if they are about
        its words.
    confused : tuple of Confused
        The classes that the prompt confuses most often.
    notes : tuple of str
        What a reader must know before believing the numbers.

    Raises
    ------
    ConfigError
        If the counts contradict each other, as in a damaged file.
    """

    classes: tuple[str, ...]
    images: tuple[int, ...]
    methods: tuple[Method, ...]
    confused: tuple[Confused, ...] = ()
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        scores = ", ".join(f"{method.name} {self.accuracy(method):.3f}" for method in self.methods)
        return f"Comparison({scores}, on {several(self.total, 'image')})"

    def __post_init__(self) -> None:
        good = self.total > 0 and len(self.images) == len(self.classes)
        good = good and self.of(PROMPT) is not None and self.learnt.name in (PROMPT, HEAD)
        for method in self.methods if good else ():
            difference = sum(self._compared_with(method).correct) - sum(method.correct)
            good = good and method.gained - method.lost == difference
            good = good and len(method.correct) == len(self.classes)
            good = good and all(map(le, method.correct, self.images))
        if not good:
            raise ConfigError("the counts of results.comparison contradict each other.")

    def of(self, name: str) -> Method | None:
        """The method of this name, None if it was not evaluated."""
        return next((method for method in self.methods if method.name == name), None)

    @property
    def prompt(self) -> Method:
        """The prompt alone."""
        return next(method for method in self.methods if method.name == PROMPT)

    @property
    def learnt(self) -> Method:
        """The prompt, with its head if it has one."""
        return self.methods[-1]

    def _compared_with(self, method: Method) -> Method:
        return self.prompt if method.name in WORDLESS else self.learnt

    @property
    def total(self) -> int:
        """How many images."""
        return sum(self.images)

    def accuracy(self, method: Method | None = None) -> float:
        """The accuracy of a method, from 0 to 1; by default, that of what was learnt."""
        return sum((method or self.learnt).correct) / self.total

    def interval(self, method: Method | None = None) -> tuple[float, float]:
        """The 95 % interval of this accuracy."""
        return wilson_interval(sum((method or self.learnt).correct), self.total)

    def difference(self, method: Method) -> PairedDifference:
        """The accuracy of what was learnt minus that of a method."""
        return paired_difference(method.gained, method.lost, self.total)

    def with_method(self, method: Method) -> Comparison:
        """A copy with one more baseline, before the prompt."""
        index = self.methods.index(self.prompt)
        return replace(self, methods=(*self.methods[:index], method, *self.methods[index:]))

    # -- in words and tables --------------------------------------------------------------------

    def _repr_html_(self) -> str:
        notes = (ABOUT_INTERVALS, *self.notes)
        return notebook_html(" ".join(self.verdict), [self.table(), *notes])

    @property
    def verdict(self) -> tuple[str, ...]:
        """A sentence on each baseline, one on classes that collapse, and what follows."""
        sentences = []
        for method in self._baselines:
            sentence = difference_sentence(NAMES[method.name][1], self.difference(method))
            sentences.append(f"{sentence[0].upper()}{sentence[1:]}")
        if (before := self.of(ZERO_SHOT)) is not None and (collapsed := self.collapsed()):
            classes = [
                f"{self.classes[label]} ({before.correct[label]} to {self.learnt.correct[label]} "
                f"of {self.images[label]})"
                for label in collapsed
            ]
            sentences.append(f"Much worse than zero-shot for {first_few(classes)}.")
        return (*sentences, self.recommendation)

    @property
    def _baselines(self) -> list[Method]:
        """What the verdict is about, in its order."""
        found = (self.of(name) for name in BASELINES)
        return [each for each in found if each is not None and each is not self.learnt]

    @property
    def recommendation(self) -> str:
        """What to use for these classes."""
        if better := [each for each in self._baselines if self.difference(each).high < 0]:
            best = max(better, key=self.accuracy)
            return f"Recommendation: {NAMES[best.name][1]} ({INSTEAD[best.name]})."
        learnt = NAMES[self.learnt.name][1]
        equal = [each for each in self._baselines if not self.difference(each).is_clear]
        if any(each.name == ZERO_SHOT for each in equal):
            return (
                "Recommendation: zero-shot CLIP, which needs no training, unless more images show "
                f"a difference; `ipl predict` uses {learnt}."
            )
        if equal:
            names = listed([NAMES[each.name][1] for each in equal])
            return f"Recommendation: {learnt}; here it is not clearly better than {names}."
        return f"Recommendation: {learnt}."

    def collapsed(self) -> tuple[int, ...]:
        """The classes that the prompt does much worse on than zero-shot, worst first."""
        before = self.of(ZERO_SHOT)
        if before is None:
            return ()
        lost = {}  # the share of its images
        for label, images in enumerate(self.images):
            count = before.correct[label] - self.learnt.correct[label]
            if count >= max(FEWEST_LOST, COLLAPSE * images):
                lost[label] = count / images
        return tuple(sorted(lost, key=lambda label: -lost[label]))

    @property
    def confusions(self) -> str:
        """The classes that are confused most often, as named pairs with their counts."""
        pairs = "; ".join(confused.text for confused in self.confused)
        return f"Most often confused: {pairs}." if pairs else "No class is confused."

    def table(self, caption: str = "") -> Table:
        """A table of the accuracies, and how much better the prompt is than each."""
        columns = ("method", "accuracy", "95 % interval", "last row minus it", "95 % interval ")
        rows: list[list[str]] = []
        for method in self.methods:
            interval = range_of_percent(*self.interval(method))
            row = [method.title, percent(self.accuracy(method)), interval]
            if method is self.learnt:
                rows.append([Styled(cell, "bold") for cell in (*row, "", "")])
                continue
            difference = self.difference(method)
            ends = f"{points(difference.low)} to {points(difference.high)}"
            rows.append([*row, f"{points(difference.value)} points", ends])
        caption = caption or f"Accuracy on {several(self.total, 'held-out image')}"
        table = Table(columns, rows, caption=caption, numbers=columns[1:])
        if self.learnt is not self.prompt and any(self.of(name) for name in WORDLESS):
            table.notes.append("Without words: the prompt alone minus it.")
        return table

    def class_table(self) -> Table:
        """A table of what each class gained or lost against zero-shot, worst first."""
        before, after = self.of(ZERO_SHOT), self.learnt
        assert before is not None
        collapsed, rows, missing = set(self.collapsed()), [], []
        for label, (name, images) in enumerate(zip(self.classes, self.images, strict=True)):
            if not images:
                missing.append(name)
                continue
            then, now = before.correct[label], after.correct[label]
            change, accuracy = (now - then) / images, now / images
            row = [
                name,
                str(images),
                str(then),
                str(now),
                percent(accuracy),
                f"{points(change)} points" if change else "0",
                Styled("collapses", "bold red") if label in collapsed else "",
            ]
            rows.append((change, accuracy, label, row))
        numbers = ["images", "zero-shot", after.title, "accuracy", "change"]
        caption = (
            f"Images of each class that zero-shot and {after.title} get right, worst change first"
        )
        ordered = [row for *_, row in sorted(rows)]
        table = Table(["class", *numbers, ""], ordered, caption=caption, numbers=numbers)
        if missing:
            table.notes.append(f"No held-out image of {first_few(missing)}.")
        return table

    # -- plain values and back ------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        """The comparison as plain values for JSON, with what follows from the counts."""
        methods = []
        for method in self.methods:
            values = {
                **asdict(method),
                "correct": list(method.correct),
                "accuracy": self.accuracy(method),
                "interval": list(self.interval(method)),
            }
            if method is not self.learnt:
                values["learnt_minus_this"] = asdict(self.difference(method))
            methods.append(values)
        return {
            "verdict": list(self.verdict),
            "notes": list(self.notes),
            "images": list(self.images),
            "methods": methods,
            "confused": [asdict(pair) for pair in self.confused],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], classes: Sequence[str]) -> Comparison:
        """The comparison that `as_dict` gave, for the classes of the run."""
        return from_plain(cls, {**values, "classes": list(classes)}, "results.comparison")


def difference_sentence(other: str, difference: PairedDifference) -> str:
    """Who is better, and by how much; nobody unless the interval excludes 0.

    `other` is what was subtracted. The sentence does not begin with a capital letter.
    """
    value, low, high = 100 * difference.value, 100 * difference.low, 100 * difference.high
    # Whole points, unless that would hide on which side of 0 the interval ends.
    digits = 0 if high - low >= 2 and min(abs(low), abs(high)) >= 0.5 else 1
    if not difference.is_clear:
        interval = f"{signed(low, digits)} to {signed(high, digits)}"
        return f"not distinguishable from {other} ({_points(signed(value, digits))}, {interval})."
    if value < 0:
        value, low, high = -value, -high, -low
    by = f"by {_points(f'{value:.{digits}f}')} ({low:.{digits}f} to {high:.{digits}f})."
    return f"better than {other} {by}" if difference.value > 0 else f"{other} is better {by}"


def _points(number: str) -> str:
    return f"{number} point" if number in ("1", signed(1, 0), signed(-1, 0)) else f"{number} points"


# -- computing ----------------------------------------------------------------------------------


def compare_with_baselines(
    learner: Learner,
    predictions: Tensor,
    shots: LabelledFeatures | None,
    held_out: LabelledFeatures,
    config: FitConfig,
    others: Sequence[tuple[str, str, Tensor]] = (),
    head: tuple[LinearProbe, Tensor] | None = None,
    probes: Sequence[LinearProbe] | None = None,
) -> Comparison:
    """Compare a prompt, and its head, with zero-shot and linear probes on labelled images.

    `predictions` are its logits or log-probabilities (images, classes) on them; `head` has those of
    its head as well. Linear probes are trained on the shots, unless `probes` has the plain one and
    the one with class names, and left out without shots; `others` are more baselines (name, how,
    predictions).
    """
    backbone, names = learner.backbone, learner.prompts.class_names
    zero_shot = zero_shot_logits(backbone, names, held_out.features, config.class_template)
    methods = [(ZERO_SHOT, f'"{config.class_template}", nothing trained', zero_shot)]
    notes = note_known_images(backbone.name, names)
    if shots is not None:
        if probes is None:
            own = zero_shot_logits(backbone, names, shots.features, config.class_template)
            probes = fit_linear_probes(shots.features, shots.labels, len(names), config.seed, [own])
        shown = several(len(shots.items), "training image")
        how = f"logistic regression on the frozen features of {shown}"
        named = f"{how}, with {probes[1].alpha:.3g} times the zero-shot logits"
        methods.append((LINEAR_PROBE, how, probes[0].logits(held_out.features)))
        methods.append((NAMED_PROBE, named, probes[1].logits(held_out.features, zero_shot)))
        notes = (*notes, *_note_duplicates(shots, held_out))
    learnt = [(PROMPT, learner.layout.readable(learner.words), predictions)]
    if head is not None:
        probe, with_head = head
        learnt.append((HEAD, f"logistic regression {probe.about_offset}", with_head))
        notes = (*notes, *_note_offset(probe))
    return compare_predictions([*methods, *others, *learnt], held_out.labels, names, notes)


def _note_offset(head: LinearProbe) -> tuple[str, ...]:
    """A note if the head does without the prompt's logits."""
    if head.alpha:
        return ()
    used = "zero-shot's logits instead of the prompt's" if head.names_alpha else "no text's logits"
    return (
        f"The head uses {used}: held-out training images are predicted better that way. The "
        "prompt and its words are for other lists of classes.",
    )


def compare_predictions(
    predictions: Sequence[tuple[str, str, Tensor]],
    labels: Tensor,
    class_names: Sequence[str],
    notes: Sequence[str] = (),
) -> Comparison:
    """What several methods get right on the same images, from their logits.

    The methods are (name, how, logits or log-probabilities); the last ones are the prompt and, if
    it has one, its head.
    """
    names, labels = tuple(class_names), labels.cpu()
    right = {name: values.argmax(1).cpu() == labels for name, _, values in predictions}
    learnt, _, last = predictions[-1]
    methods = []
    for name, how, _ in predictions:
        correct, reference = right[name], right[PROMPT if name in WORDLESS else learnt]
        by_class = tuple(labels[correct].bincount(minlength=len(names)).tolist())
        gained, lost = int((reference & ~correct).sum()), int((correct & ~reference).sum())
        methods.append(Method(name, how, by_class, gained, lost))
    images = tuple(labels.bincount(minlength=len(names)).tolist())
    confused = most_confused(confusion(last.cpu(), labels), names)
    return Comparison(names, images, tuple(methods), confused, tuple(notes))


def near_duplicates(shots: Tensor, held_out: Tensor) -> list[tuple[int, int]]:
    """Pairs (held-out image, shot) that are nearly the same picture.

    Their features have a cosine above 0.99, and the second shot that is nearest to the held-out
    image is at least four times as far away (1 - cosine): where all images look alike, as in
    satellite images of water, a high cosine alone says nothing. The same features are always a
    pair: a picture may be there several times.
    """
    if not len(shots) or not len(held_out):
        return []
    nearest = (held_out.cpu().float() @ shots.cpu().float().T).topk(min(2, len(shots)), dim=1)
    distance = 1 - nearest.values
    near = distance[:, 0] < 1 - DUPLICATE
    if len(shots) > 1:
        near &= (distance[:, 0] <= MARGIN * distance[:, 1]) | (distance[:, 0] < SAME)
    return [(image, int(nearest.indices[image, 0])) for image in torch.where(near)[0].tolist()]


def _note_duplicates(shots: LabelledFeatures, held_out: LabelledFeatures) -> tuple[str, ...]:
    count = len(near_duplicates(shots.features, held_out.features))
    if not count:
        return ()
    repeat, it = ("repeats", "it") if count == 1 else ("repeat", "them")
    return (
        f"{count:,} of {several(len(held_out.items), 'held-out image')} {repeat} a training image "
        f"or nearly so (cosine of their features above {DUPLICATE}), which makes {it} too easy.",
    )
