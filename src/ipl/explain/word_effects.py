"""What each word does in the finished prompt: random words, about as frequent, in its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ipl.datasets.dataset import Item
from ipl.datasets.images import short_name, thumbnail
from ipl.display.document import Block, Figure, Gallery, Heading, Paragraph, Section, Thumb
from ipl.display.formatting import listed, number, percent, points, several, signed
from ipl.display.plots import Strip, strips
from ipl.display.table import Table
from ipl.explain.loaded_run import LoadedRun, RunImages
from ipl.explain.random_words import FLATTERED, RandomDraws, Replacement, rank_among
from ipl.metrics import Score, score, true_log_probabilities
from ipl.support.progress import SILENT, Reporter
from ipl.words.certainty import HIGH, LOW, RESAMPLES

CLASSES = 3  # listed of those helped and of those hurt
IMAGES = 4
ALL_WORDS = "all words at once"
NO_EFFECT = "In the finished prompt, the words are not distinguishable from random ones."


class LossChange(NamedTuple):
    """The mean change of the loss, and the 90 % interval of that mean."""

    mean: float
    low: float
    high: float

    @property
    def beyond_noise(self) -> bool:
        """Returns whether the interval excludes 0; that of a single image has no width."""
        return self.low < self.high and not self.low <= 0 <= self.high

    def __str__(self) -> str:
        return f"{signed(self.mean)}, 90 % interval {signed(self.low)} to {signed(self.high)}"


@dataclass(frozen=True)
class ClassEffect:
    """One class with the word, and on average with others in its place."""

    name: str
    images: int
    accuracy: float
    accuracy_replaced: float
    loss: float
    loss_replaced: float


@dataclass(frozen=True)
class ImageEffect:
    """One image: the probability of its true class, and its predicted class."""

    item: Item
    true: str
    probability: float
    probability_replaced: float  # the geometric mean over the replacements
    predicted: str


@dataclass(frozen=True)
class WordEffect:
    """One word: how others do in its place, and what it helps and hurts most."""

    word: str
    change: LossChange  # of the loss, when others take its place: above 0 the word helps
    replacements: tuple[Replacement, ...]
    classes_helped: tuple[ClassEffect, ...]
    classes_hurt: tuple[ClassEffect, ...]
    images_helped: tuple[ImageEffect, ...]
    images_hurt: tuple[ImageEffect, ...]


@dataclass(frozen=True)
class WordEffects:
    """All words of a prompt, the one that helps most first."""

    frequency: str  # how the frequency of words was measured
    prompt: Score  # with its own words
    words: tuple[WordEffect, ...]
    change: LossChange  # when all words are replaced at once
    replacements: tuple[Replacement, ...]  # of all words at once


class _Outcome(NamedTuple):
    """The held-out images with one prompt."""

    losses: Tensor  # (images,)
    predicted: Tensor  # (images,)
    right: Tensor  # (images,)
    score: Score


def word_effects(
    run: LoadedRun,
    run_images: RunImages,
    with_all: Tensor,
    random_draws: RandomDraws,
    reporter: Reporter = SILENT,
) -> WordEffects | None:
    """Returns the effect of each word; `with_all` are the log-probabilities with all words.

    None if the pool is too small to draw random words from.
    """
    words, draws, labels = run.words, random_draws.draws, run_images.test.labels
    if not draws:
        return None
    own = _outcome(with_all, labels)

    @cache  # a prompt of one word has the same replacements twice
    def outcome(candidates: tuple[str, ...]) -> _Outcome:
        changed = run.learner.rebuilt(words=candidates)
        return _outcome(changed.log_probabilities(run_images.features), labels)

    def replace(index: int | None) -> list[_Outcome]:
        outcomes = []
        for draw in draws:
            single = draw if index is None else (*words[:index], draw[index], *words[index + 1 :])
            outcomes.append(outcome(single))
            advance()
        return outcomes

    effects = []
    with reporter.task("Replacing words", len(draws) * (len(words) + 1)) as advance:
        together = replace(None)
        for index, word in enumerate(words):
            outcomes = replace(index)
            replacements = _replacements([(draw[index],) for draw in draws], outcomes)
            effects.append(_word_effect(run, run_images, own, word, outcomes, replacements))
    return WordEffects(
        frequency=random_draws.frequency,
        prompt=own.score,
        words=tuple(sorted(effects, key=lambda effect: -effect.change.mean)),
        change=_loss_change(own, together),
        replacements=_replacements(draws, together),
    )


def _outcome(log_probabilities: Tensor, labels: Tensor) -> _Outcome:
    losses, predicted = (
        -true_log_probabilities(log_probabilities, labels),
        log_probabilities.argmax(1),
    )
    return _Outcome(losses, predicted, predicted == labels, score(log_probabilities, labels))


def _replacements(
    draws: Sequence[tuple[str, ...]], outcomes: Sequence[_Outcome]
) -> tuple[Replacement, ...]:
    pairs = zip(draws, outcomes, strict=True)
    return tuple(Replacement(words, outcome.score) for words, outcome in pairs)


def _loss_change(own: _Outcome, outcomes: Sequence[_Outcome]) -> LossChange:
    changes = torch.stack([outcome.losses - own.losses for outcome in outcomes])
    return mean_with_interval(changes)


def mean_with_interval(values: Tensor) -> LossChange:
    """Returns the mean of values (draws, images), with an interval for other draws and images."""
    array, stream = values.double().cpu().numpy(), np.random.default_rng(0)
    draws, images = array.shape
    means = []
    for _ in range(RESAMPLES):
        times = np.bincount(stream.integers(draws, size=draws), minlength=draws)
        by_image = times @ array / draws
        means.append(by_image[stream.integers(images, size=images)].mean())
    low, high = np.percentile(means, [LOW, HIGH])
    return LossChange(float(array.mean()), float(low), float(high))


def _word_effect(
    run: LoadedRun,
    run_images: RunImages,
    own: _Outcome,
    word: str,
    outcomes: Sequence[_Outcome],
    replacements: tuple[Replacement, ...],
) -> WordEffect:
    labels = run_images.test.labels
    mean_losses = torch.stack([outcome.losses for outcome in outcomes]).mean(0)
    mean_right = torch.stack([outcome.right for outcome in outcomes]).double().mean(0)
    classes = []
    for label, name in enumerate(run.classes):
        rows = labels == label
        if rows.any():
            accuracies = float(own.right[rows].double().mean()), float(mean_right[rows].mean())
            losses = float(own.losses[rows].mean()), float(mean_losses[rows].mean())
            classes.append(ClassEffect(name, int(rows.sum()), *accuracies, *losses))
    classes.sort(key=lambda one: one.loss - one.loss_replaced)
    order = torch.argsort(own.losses - mean_losses, stable=True).tolist()

    def image_effect(index: int) -> ImageEffect:
        item = run_images.test.items[index]
        return ImageEffect(
            item=item,
            true=run.classes[item.label],
            probability=float((-own.losses[index]).exp()),
            probability_replaced=float((-mean_losses[index]).exp()),
            predicted=run.classes[int(own.predicted[index])],
        )

    best, worst = map(image_effect, order[:IMAGES]), map(image_effect, order[::-1][:IMAGES])
    return WordEffect(
        word=word,
        change=_loss_change(own, outcomes),
        replacements=replacements,
        classes_helped=tuple(c for c in classes[:CLASSES] if c.loss < c.loss_replaced),
        classes_hurt=tuple(c for c in classes[::-1][:CLASSES] if c.loss > c.loss_replaced),
        images_helped=tuple(i for i in best if i.probability > i.probability_replaced),
        images_hurt=tuple(i for i in worst if i.probability < i.probability_replaced),
    )


# -- how it is shown ----------------------------------------------------------------------------


def dependence_sentences(effects: WordEffects) -> list[str]:
    """Returns whether the finished prompt depends on its words, and on which."""
    clear = [effect for effect in effects.words if effect.change.beyond_noise]
    helpful = [effect for effect in clear if effect.change.mean > 0]
    harmful = [effect for effect in clear if effect.change.mean < 0]
    sentences = []
    if helpful:
        sentences.append(
            "In the finished prompt, whose vectors were trained around its words, random words in "
            f"place of {_with_changes(helpful)} raise the loss on held-out images."
        )
    if harmful:
        subject = "this word does" if len(harmful) == 1 else "these words do"
        sentences.append(
            f"In the finished prompt, random words in place of {_with_changes(harmful)} lower the "
            f"loss on held-out images: {subject} harm."
        )
    if clear:
        names = [f"“{effect.word}”" for effect in effects.words if effect not in clear]
        if names:
            sentences.append(f"In place of {listed(names)} they change it by no more than noise.")
        return sentences
    if effects.change.beyond_noise:
        return [
            "In the finished prompt, random words in place of any single word change the loss on "
            f"held-out images by no more than noise; in place of {ALL_WORDS} they do "
            f"({effects.change})."
        ]
    replaced = ALL_WORDS if len(effects.words) > 1 else f"“{effects.words[0].word}”"
    return [
        f"{NO_EFFECT} Random words instead change the loss on held-out images by no more than "
        f"noise ({replaced}: {effects.change})."
    ]


def _with_changes(effects: Sequence[WordEffect]) -> str:
    return listed([f"“{effect.word}” ({effect.change})" for effect in effects])


def effects_section(effects: WordEffects, images: int) -> Section:
    """Returns what each word does in the finished prompt, on this number of held-out images."""
    count = len(effects.replacements)
    blocks: list[Block] = [
        Paragraph(
            f"On {several(images, 'held-out image')}, with the trained vectors as they are, each "
            f"word was replaced by {several(count, 'random word')} of the pool, one after the "
            f"other, that are about as frequent (measured by: {effects.frequency}). The change is "
            "the mean over these replacements: above 0, the chosen word helps. Its interval holds "
            "90 % of the means when images and replacements are drawn anew 1,000 times."
        ),
        *map(Paragraph, dependence_sentences(effects)),
        _change_table(effects),
        Paragraph(f"Place is that of the chosen word by loss. {FLATTERED}"),
        _change_figure(effects),
    ]
    for effect in effects.words:
        blocks.append(Heading(f"What “{effect.word}” does"))
        blocks += _effect_blocks(effect, effects.prompt)
    words = "its word" if len(effects.words) == 1 else "all words"
    summary = f"Random words in place of {words} change the loss by {effects.change}."
    return Section("effects", "What each word does", tuple(blocks), summary)


def _rows(effects: WordEffects) -> list[tuple[str, LossChange, tuple[Replacement, ...]]]:
    """Returns the name, the change and the replacements of each word, then of all words."""
    rows = [(effect.word, effect.change, effect.replacements) for effect in effects.words]
    return [*rows, (ALL_WORDS, effects.change, effects.replacements)] if len(rows) > 1 else rows


def _change_figure(effects: WordEffects) -> Block:
    loss, groups = effects.prompt.loss, []
    for name, change, replacements in _rows(effects):
        values = tuple(replacement.score.loss - loss for replacement in replacements)
        groups.append(Strip(name, values, change.mean))
    title = "Change of the loss with random words instead"
    ranges = "; ".join(
        f"{g.label}: mean {g.marked:+.3f}, from {min(g.values):+.3f} to {max(g.values):+.3f}"
        for g in groups
    )
    alt = f"{title}: each replacement as a grey dot, their mean in colour. {ranges}."
    rows = [
        [name, ", ".join(each.words), signed(each.score.loss - loss), percent(each.score.accuracy)]
        for name, _, replacements in _rows(effects)
        for each in replacements
    ]
    columns = ("in place of", "words", "change of the loss", "accuracy")
    table = Table(columns, rows, caption="Every replacement")
    svg = strips(groups, alt, "change (above 0: the chosen word helps)")
    return Figure(f"{title} (grey), and its mean (colour)", svg, table)


def _change_table(effects: WordEffects) -> Block:
    prompt, rows = effects.prompt, []
    for name, change, replacements in _rows(effects):
        losses = [replacement.score.loss for replacement in replacements]
        accuracy = sum(each.score.accuracy for each in replacements) / len(replacements)
        rows.append(
            [
                name,
                signed(change.mean),
                f"{signed(change.low)} to {signed(change.high)}",
                f"{signed(min(losses) - prompt.loss)} to {signed(max(losses) - prompt.loss)}",
                points(accuracy - prompt.accuracy),
                f"{rank_among(prompt.loss, losses)} of {len(losses) + 1}",
            ]
        )
    columns = ("replaced", "loss", "90 % interval", "least and most", "accuracy", "place")
    caption = (
        "How random words change the loss and the accuracy (in points) of the prompt, which are "
        f"{number(prompt.loss)} and {percent(prompt.accuracy)} with its own words"
    )
    return Table(columns, rows, caption=caption)


def _effect_blocks(effect: WordEffect, prompt: Score) -> list[Block]:
    change = effect.change
    by_loss = sorted(effect.replacements, key=lambda each: each.score.loss)
    least, most = by_loss[0], by_loss[-1]
    noise = "" if change.beyond_noise else ", which may as well be 0"
    verb = "raise" if change.mean > 0 else "lower"
    summary = (
        f"Random words in its place {verb} the loss by {number(abs(change.mean))} on average "
        f"(90 % interval {signed(change.low)} to {signed(change.high)}{noise}): from "
        f"{signed(least.score.loss - prompt.loss)} with “{least.words[0]}” to "
        f"{signed(most.score.loss - prompt.loss)} with “{most.words[0]}”."
    )
    blocks: list[Block] = [Paragraph(summary)]
    rows = [_class_row("helps", one) for one in effect.classes_helped]
    rows += [_class_row("hurts", one) for one in effect.classes_hurt]
    if rows:
        columns = ("it", "class", "images", "accuracy", "with others", "loss", "with others")
        title = f"Classes that “{effect.word}” helps and hurts most, by the change of their loss"
        blocks.append(Table(columns, rows, caption=title))
    for title, images in (
        (f"Images that “{effect.word}” helps most", effect.images_helped),
        (f"Images that “{effect.word}” hurts most", effect.images_hurt),
    ):
        thumbs = [thumb for image in images if (thumb := _thumb(image)) is not None]
        if thumbs:
            blocks.append(Gallery(title, tuple(thumbs)))
    return blocks


def _class_row(verb: str, effect: ClassEffect) -> list[str]:
    scores = [percent(effect.accuracy), percent(effect.accuracy_replaced)]
    scores += [number(effect.loss, 3), number(effect.loss_replaced, 3)]
    return [verb, effect.name, str(effect.images), *scores]


def _thumb(effect: ImageEffect) -> Thumb | None:
    uri = thumbnail(effect.item.path)
    if uri is None:
        return None
    caption = (
        f"{effect.true}: {percent(effect.probability)} with the word, "
        f"{percent(effect.probability_replaced)} with others"
    )
    if effect.predicted != effect.true:
        caption += f"; taken for {effect.predicted}"
    alt = f"An image of the class {effect.true}, {short_name(effect.item.path)}"
    return Thumb(uri, alt, caption)
