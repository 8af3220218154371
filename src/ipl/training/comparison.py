"""A prompt beside what it must beat, all on the same labelled images, and a verdict.

The fit computes it, the saved run keeps it, and the command line, the report and the workbench
show it. Only counts are kept; accuracies, intervals and the verdict follow from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ipl.backbone.known_images import note_known_images
from ipl.backbone.labelled_features import LabelledFeatures
from ipl.backbone.linear_probe import fit_linear_probe
from ipl.backbone.zero_shot import zero_shot_logits
from ipl.config import FitConfig
from ipl.display.formatting import first_few, percent, points, range_of_percent, several, signed
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
WITHOUT_WORDS = "without-words"  # the same layout and training, with empty slots
PLAIN_LEARNER = "plain"  # the published learner without words, which a report may train
# How a table and a sentence name each of them.
NAMES = {
    ZERO_SHOT: ("zero-shot CLIP", "zero-shot"),
    LINEAR_PROBE: ("linear probe", "a linear probe"),
    WITHOUT_WORDS: ("the same without words", "the same prompt without words"),
    PLAIN_LEARNER: ("learner without words", "the learner without words"),
    PROMPT: ("this prompt", "this prompt"),
}
ORDER = (ZERO_SHOT, WITHOUT_WORDS, PLAIN_LEARNER, LINEAR_PROBE)  # of the verdict
COLLAPSE, FEWEST_LOST = 0.2, 3  # the share, and the number, of a class's images that are lost
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
        zero-shot, linear-probe, without-words, plain or prompt.
    how : str
        What it is, in a few words.
    correct : tuple of int
        Images that it gets right, for each class.
    gained : int
        Images that the prompt gets right and it does not.
    lost : int
        Images that it gets right and the prompt does not.
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
        """Returns its name in a table."""
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
        The baselines, and the prompt last.
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
        counts = [self.images, *(method.correct for method in self.methods)]
        if (
            not self.total
            or not self.methods
            or self.prompt.name != PROMPT
            or any(len(each) != len(self.classes) for each in counts)
            or any(
                n > of for m in self.methods for n, of in zip(m.correct, self.images, strict=True)
            )
            or any(
                m.gained - m.lost != sum(self.prompt.correct) - sum(m.correct) for m in self.methods
            )
        ):
            raise ConfigError("the counts of results.comparison contradict each other.")

    def of(self, name: str) -> Method | None:
        """Returns the method of this name, None if it was not evaluated."""
        return next((method for method in self.methods if method.name == name), None)

    @property
    def prompt(self) -> Method:
        """Returns the counts of the prompt."""
        return self.methods[-1]

    @property
    def total(self) -> int:
        """Returns how many images there are."""
        return sum(self.images)

    def accuracy(self, method: Method | None = None) -> float:
        """Returns the accuracy of a method, from 0 to 1; without one, that of the prompt."""
        return sum((method or self.prompt).correct) / self.total

    def interval(self, method: Method | None = None) -> tuple[float, float]:
        """Returns the 95 % interval of this accuracy."""
        return wilson_interval(sum((method or self.prompt).correct), self.total)

    def difference(self, method: Method) -> PairedDifference:
        """Returns the accuracy of the prompt minus that of a method."""
        return paired_difference(method.gained, method.lost, self.total)

    def with_method(self, method: Method) -> Comparison:
        """Returns a copy with one more baseline, before the prompt."""
        return replace(self, methods=(*self.methods[:-1], method, self.prompt))

    # -- in words and tables --------------------------------------------------------------------

    def _repr_html_(self) -> str:
        notes = (ABOUT_INTERVALS, *self.notes)
        return notebook_html(" ".join(self.verdict), [self.table(), *notes])

    @property
    def verdict(self) -> tuple[str, ...]:
        """Returns a sentence on each baseline, and one on classes that collapse."""
        return (*self.compared_with(ORDER), *self.about_collapse())

    def compared_with(self, names: Sequence[str]) -> tuple[str, ...]:
        """Returns a sentence on each of these baselines that was evaluated."""
        methods = [method for name in names if (method := self.of(name)) is not None]
        sentences = (difference_sentence(NAMES[m.name][1], self.difference(m)) for m in methods)
        return tuple(f"{sentence[0].upper()}{sentence[1:]}" for sentence in sentences)

    def about_collapse(self) -> tuple[str, ...]:
        """Returns a sentence on the classes that collapse, if there are any."""
        before, after = self.of(ZERO_SHOT), self.prompt
        classes = [
            f"{self.classes[label]} ({before.correct[label]} to {after.correct[label]} of "
            f"{self.images[label]})"
            for label in self.collapsed()
            if before is not None
        ]
        return (f"Much worse than zero-shot for {first_few(classes)}.",) if classes else ()

    def collapsed(self) -> tuple[int, ...]:
        """Returns the classes that the prompt does much worse on than zero-shot, worst first."""
        before = self.of(ZERO_SHOT)
        if before is None:
            return ()
        pairs = zip(before.correct, self.prompt.correct, strict=True)
        lost = [then - now for then, now in pairs]
        labels = [
            label
            for label, images in enumerate(self.images)
            if lost[label] >= max(FEWEST_LOST, COLLAPSE * images)
        ]
        return tuple(sorted(labels, key=lambda label: -lost[label] / self.images[label]))

    @property
    def confusions(self) -> str:
        """Returns the classes that are confused most often, as named pairs with their counts."""
        pairs = "; ".join(confused.text for confused in self.confused)
        return f"Most often confused: {pairs}." if pairs else "No class is confused."

    def table(self, caption: str = "") -> Table:
        """Returns a table of the accuracies, and how much better the prompt is than each."""
        columns = ("method", "accuracy", "95 % interval", "prompt minus it", "95 % interval ")
        rows: list[list[str]] = []
        for method in self.methods:
            interval = range_of_percent(*self.interval(method))
            row = [method.title, percent(self.accuracy(method)), interval]
            if method is self.prompt:
                rows.append([Styled(cell, "bold") for cell in (*row, "", "")])
                continue
            difference = self.difference(method)
            ends = f"{points(difference.low)} to {points(difference.high)}"
            rows.append([*row, f"{points(difference.value)} points", ends])
        caption = caption or f"Accuracy on {several(self.total, 'held-out image')}"
        return Table(columns, rows, caption=caption, numbers=columns[1:])

    def class_table(self) -> Table:
        """Returns a table of what each class gained or lost against zero-shot, worst first."""
        before, after = self.of(ZERO_SHOT), self.prompt
        assert before is not None

        def share(label: int) -> tuple[float, float]:
            change = after.correct[label] - before.correct[label]
            return change / self.images[label], after.correct[label] / self.images[label]

        collapsed, rows = set(self.collapsed()), []
        for label in sorted((n for n, images in enumerate(self.images) if images), key=share):
            change, accuracy = share(label)
            rows.append(
                [
                    self.classes[label],
                    str(self.images[label]),
                    str(before.correct[label]),
                    str(after.correct[label]),
                    percent(accuracy),
                    f"{points(change)} points" if change else "0",
                    Styled("collapses", "bold red") if label in collapsed else "",
                ]
            )
        numbers = ["images", "zero-shot", "this prompt", "accuracy", "change"]
        caption = (
            "Images of each class that zero-shot and this prompt get right, worst change first"
        )
        table = Table(["class", *numbers, ""], rows, caption=caption, numbers=numbers)
        pairs = zip(self.classes, self.images, strict=True)
        if missing := [name for name, images in pairs if not images]:
            table.notes.append(f"No held-out image of {first_few(missing)}.")
        return table

    # -- plain values and back ------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        """Returns the comparison as plain values for JSON, with what follows from the counts."""
        return {
            "verdict": list(self.verdict),
            "notes": list(self.notes),
            "images": list(self.images),
            "methods": [self._method_values(method) for method in self.methods],
            "confused": [asdict(pair) for pair in self.confused],
        }

    def _method_values(self, method: Method) -> dict[str, Any]:
        values = {
            **asdict(method),
            "correct": list(method.correct),
            "accuracy": self.accuracy(method),
            "interval": list(self.interval(method)),
        }
        if method is self.prompt:
            return values
        return {**values, "prompt_minus_this": asdict(self.difference(method))}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], classes: Sequence[str]) -> Comparison:
        """Returns the comparison that `as_dict` gave, for the classes of the run."""
        return from_plain(cls, {**values, "classes": list(classes)}, "results.comparison")


def difference_sentence(other: str, difference: PairedDifference) -> str:
    """Returns who is better, and by how much; nobody unless the interval excludes 0.

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
) -> Comparison:
    """Compare a prompt with zero-shot and a linear probe on labelled images.

    Both baselines use the frozen features that are there already, so they cost little.

    Parameters
    ----------
    learner : Learner
        The trained prompt.
    predictions : Tensor of shape (images, classes)
        Its logits or log-probabilities on the images.
    shots : LabelledFeatures or None
        The training images of the prompt, which the linear probe is trained on; without them it is
        left out.
    held_out : LabelledFeatures
        The images to compare on; at least one.
    config : FitConfig
        Its hand-made prompt and seed are those of the baselines.
    others : sequence of (name, how, Tensor)
        More baselines, with their logits or log-probabilities.

    Returns
    -------
    Comparison
        Zero-shot, the linear probe, the others and the prompt.
    """
    backbone, names = learner.backbone, learner.prompts.class_names
    zero_shot = zero_shot_logits(backbone, names, held_out.features, config.class_template)
    methods = [(ZERO_SHOT, f'"{config.class_template}", nothing trained', zero_shot)]
    notes = note_known_images(backbone.name, names)
    if shots is not None:
        probe = fit_linear_probe(shots.features, shots.labels, len(names), config.seed)
        shown = several(len(shots.items), "training image")
        how = f"logistic regression on the frozen features of {shown}"
        methods.append((LINEAR_PROBE, how, probe.logits(held_out.features)))
        notes = (*notes, *_note_duplicates(shots, held_out))
    prompt = (PROMPT, learner.layout.readable(learner.words), predictions)
    return compare_predictions([*methods, *others, prompt], held_out.labels, names, notes)


def compare_predictions(
    predictions: Sequence[tuple[str, str, Tensor]],
    labels: Tensor,
    class_names: Sequence[str],
    notes: Sequence[str] = (),
) -> Comparison:
    """Returns what several methods get right on the same images, from their logits.

    The methods are (name, how, logits or log-probabilities), and the prompt is the last one.
    """
    names, labels = tuple(class_names), labels.cpu()
    right = [values.argmax(1).cpu() == labels for _, _, values in predictions]
    methods = tuple(
        Method(
            name,
            how,
            tuple(labels[correct].bincount(minlength=len(names)).tolist()),
            int((right[-1] & ~correct).sum()),
            int((correct & ~right[-1]).sum()),
        )
        for (name, how, _), correct in zip(predictions, right, strict=True)
    )
    images = tuple(labels.bincount(minlength=len(names)).tolist())
    confused = most_confused(confusion(predictions[-1][2].cpu(), labels), names)
    return Comparison(names, images, methods, confused, tuple(notes))


def near_duplicates(shots: Tensor, held_out: Tensor) -> list[tuple[int, int]]:
    """Returns pairs (held-out image, shot) that are nearly the same picture.

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
    return (
        f"{count:,} of {several(len(held_out.items), 'held-out image')} "
        f"{'repeats' if count == 1 else 'repeat'} a training image or nearly so (cosine of their "
        f"features above {DUPLICATE}), which makes {'it' if count == 1 else 'them'} too easy.",
    )
