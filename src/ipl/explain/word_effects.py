"""What each word does in the finished prompt: without it, and with a middling word instead."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ipl.datasets.dataset import Item
from ipl.datasets.images import short_name, thumbnail
from ipl.display.document import (
    Block,
    Figure,
    Figures,
    Gallery,
    Heading,
    Paragraph,
    Section,
    Thumb,
)
from ipl.display.formatting import number, ordinal, percent, points, several, signed
from ipl.display.plots import Bar, bars
from ipl.display.table import Table
from ipl.explain.loaded_run import LoadedRun, RunImages
from ipl.explain.random_words import RandomComparison
from ipl.metrics import Score, score, true_log_probabilities
from ipl.support.progress import SILENT, Reporter
from ipl.words.objective import Objective
from ipl.words.pool import Pool
from ipl.words.scorer import SentenceScorer

CLASSES = 3  # listed of those helped and of those hurt
IMAGES = 4
SAMPLE = 512  # words; the median of so many is within 4.4 % of the pool's, 19 times in 20
ALL_WORDS = "all words as they are"
LEGEND = ((ALL_WORDS, 1), ("the word taken out", 0), ("a middling word in its place", 2))


@dataclass(frozen=True)
class SampledStep:
    """The gains of words drawn at random from the pool, at the step of one chosen word."""

    sampled: int
    pool: int
    gain: float  # of the chosen word
    better: int  # how many of the drawn words have a higher gain
    quantiles: tuple[float, float, float, float, float]  # least, quarter, median, quarter, most
    median_word: str


@dataclass(frozen=True)
class ClassEffect:
    """One class with and without the word."""

    name: str
    images: int
    accuracy: float
    accuracy_without: float
    loss: float
    loss_without: float


@dataclass(frozen=True)
class ImageEffect:
    """One image: the probability of its true class, and its predicted class."""

    item: Item
    true: str
    probability: float
    probability_without: float
    predicted: str
    predicted_without: str


@dataclass(frozen=True)
class WordEffect:
    """One word: scores on the held-out images, and what it helps and hurts most."""

    word: str
    without: Score
    sample: SampledStep | None  # None where the pool is not known
    with_median: Score | None
    classes_helped: tuple[ClassEffect, ...]
    classes_hurt: tuple[ClassEffect, ...]
    images_helped: tuple[ImageEffect, ...]
    images_hurt: tuple[ImageEffect, ...]


def word_effects(
    run: LoadedRun, run_images: RunImages, with_all: Tensor, reporter: Reporter = SILENT
) -> tuple[WordEffect, ...]:
    """Returns the effect of each word; `with_all` are the log-probabilities with all words."""
    effects = []
    with reporter.task("Taking words out", len(run.words)) as advance:
        for index in range(len(run.words)):
            effects.append(_word_effect(run, run_images, with_all, index))
            advance()
    return tuple(effects)


def _word_effect(run: LoadedRun, run_images: RunImages, with_all: Tensor, index: int) -> WordEffect:
    learner, words, labels = run.learner, run.words, run_images.test.labels
    others = (*words[:index], *words[index + 1 :])
    reduced = learner.rebuilt(layout=learner.layout.without_slot(index), words=others)
    without = reduced.log_probabilities(run_images.features)
    sample = with_median = None
    if run.pool is not None and run.selection is not None:
        scorer = run.sentence_scorer(run.selection, run_images.shots)
        sample = sample_step(scorer, run.choice(run.selection).objective, run.pool, words, index)
    if sample is not None:
        replaced = learner.rebuilt(words=[*words[:index], sample.median_word, *words[index + 1 :]])
        with_median = score(replaced.log_probabilities(run_images.features), labels)
    classes = sorted(
        _class_effects(run, labels, with_all, without), key=lambda c: c.loss - c.loss_without
    )
    change = true_log_probabilities(with_all, labels) - true_log_probabilities(without, labels)
    order = torch.argsort(change, descending=True, stable=True).tolist()
    images = [_image_effect(run, run_images, with_all, without, i) for i in _both_ends(order)]
    return WordEffect(
        word=words[index],
        without=score(without, labels),
        sample=sample,
        with_median=with_median,
        classes_helped=tuple(c for c in classes[:CLASSES] if c.loss < c.loss_without),
        classes_hurt=tuple(c for c in classes[::-1][:CLASSES] if c.loss > c.loss_without),
        images_helped=tuple(i for i in images[:IMAGES] if i.probability > i.probability_without),
        images_hurt=tuple(
            i for i in images[::-1][:IMAGES] if i.probability < i.probability_without
        ),
    )


def sample_step(
    scorer: SentenceScorer,
    objective: Objective,
    pool: Pool,
    words: tuple[str, ...],
    index: int,
    limit: int = SAMPLE,
) -> SampledStep | None:
    """Returns how a sample of the pool does at the step that chose the word number `index`.

    None if the pool had no other word.
    """
    chosen, before = words[index], list(words[:index])
    free = [word for word in pool.words if word not in words[: index + 1]]
    drawn = free if len(free) <= limit else random.Random(index).sample(free, limit)
    if not drawn:
        return None
    losses = scorer.score(before, [chosen, *drawn]).numpy()
    embeddings = objective.embed_words(scorer.backbone, [*before, chosen, *drawn])
    redundancy = objective.redundancy(embeddings, range(index))[index:].cpu().double().numpy()
    gains = objective.gain(scorer.loss(before) - losses, redundancy)
    other_gains = gains[1:]
    order = np.argsort(other_gains, kind="stable")
    quantiles = np.quantile(other_gains, [0, 0.25, 0.5, 0.75, 1])
    return SampledStep(
        sampled=len(drawn),
        pool=len(free),
        gain=float(gains[0]),
        better=int((other_gains > gains[0]).sum()),
        quantiles=tuple(float(value) for value in quantiles),  # type: ignore[arg-type]
        median_word=drawn[int(order[len(order) // 2])],
    )


def _both_ends(order: list[int]) -> list[int]:
    return order if len(order) <= 2 * IMAGES else [*order[:IMAGES], *order[-IMAGES:]]


def _class_effects(
    run: LoadedRun, labels: Tensor, with_all: Tensor, without: Tensor
) -> list[ClassEffect]:
    effects = []
    for label, name in enumerate(run.classes):
        rows = labels == label
        if not rows.any():
            continue
        now, then = score(with_all[rows], labels[rows]), score(without[rows], labels[rows])
        effects.append(
            ClassEffect(name, int(rows.sum()), now.accuracy, then.accuracy, now.loss, then.loss)
        )
    return effects


def _image_effect(
    run: LoadedRun, run_images: RunImages, with_all: Tensor, without: Tensor, index: int
) -> ImageEffect:
    names, item = run.classes, run_images.test.items[index]
    return ImageEffect(
        item=item,
        true=names[item.label],
        probability=float(with_all[index, item.label].exp()),
        probability_without=float(without[index, item.label].exp()),
        predicted=names[int(with_all[index].argmax())],
        predicted_without=names[int(without[index].argmax())],
    )


# -- how it is shown ----------------------------------------------------------------------------


def effects_section(
    effects: tuple[WordEffect, ...], test: Score, images: int, random_words: RandomComparison | None
) -> Section:
    """Returns what each word does in the finished prompt.

    `test` is the score with all words, `images` the number of held-out images.
    """
    sampled = any(effect.sample is not None for effect in effects)
    replaced = ", and a middling word put in its place" if sampled else ""
    blocks: list[Block] = [
        Paragraph(
            f"On {several(images, 'held-out image')}, with the trained vectors as they are: each "
            f"word taken out of the sentence{replaced}. The vectors were trained around these "
            "words, so a prompt trained without the word would do better than this one without it."
        ),
        _score_figures(effects, test),
    ]
    for index, effect in enumerate(effects):
        blocks.append(Heading(f"What “{effect.word}” does"))
        blocks += _effect_blocks(effect, test, _rank_among_random(random_words, index))
    return Section("effects", "What each word does", tuple(blocks))


def _score_figures(effects: tuple[WordEffect, ...], test: Score) -> Block:
    scores, tones = [(ALL_WORDS, test)], [1]
    for effect in effects:
        scores.append((f"without “{effect.word}”", effect.without))
        tones.append(0)
        if effect.with_median is not None and effect.sample is not None:
            name = f"“{effect.sample.median_word}” in place of “{effect.word}”"
            scores.append((name, effect.with_median))
            tones.append(2)
    legend = [(name, tone) for name, tone in LEGEND if tone in tones]
    rows = []
    for name, value in scores:
        accuracy_change = "" if value is test else points(value.accuracy - test.accuracy)
        loss_change = "" if value is test else signed(value.loss - test.loss)
        rows.append(
            [name, percent(value.accuracy), accuracy_change, number(value.loss), loss_change]
        )
    columns = ("prompt", "accuracy", "change, points", "loss", "change")
    table = Table(columns, rows, caption="With words taken out and replaced")
    accuracy_bars = [
        Bar(name, value.accuracy, percent(value.accuracy), tone)
        for (name, value), tone in zip(scores, tones, strict=True)
    ]
    loss_bars = [
        Bar(name, value.loss - test.loss, signed(value.loss - test.loss), tone)
        for (name, value), tone in zip(scores[1:], tones[1:], strict=True)
    ]
    values = "; ".join(f"{row[0]}: {row[1]}, loss {row[3]}" for row in rows)
    title = "Change of the loss (more than 0 is worse)"
    return Figures(
        (
            Figure("Accuracy", bars(accuracy_bars, f"Accuracy. {values}.", legend=legend), None),
            Figure(title, bars(loss_bars, f"{title}. {values}.", legend=legend[1:]), None),
        ),
        table,
    )


def _describe_change(changed: Score, test: Score) -> str:
    """Returns what a change of the prompt does to accuracy and loss."""
    lost, rise = test.accuracy - changed.accuracy, changed.loss - test.loss
    accuracy = f"{'costs' if lost > 0 else 'gains'} {abs(100 * lost):.1f} points of accuracy"
    if not lost:
        accuracy = "leaves the accuracy as it is"
    return f"{accuracy} and {'raises' if rise > 0 else 'lowers'} the loss by {abs(rise):.4f}"


def _rank_among_random(random_words: RandomComparison | None, index: int) -> str | None:
    """Returns where a word stands among random words in its place, if that is known."""
    if random_words is None or not random_words.draws:
        return None
    count = len(random_words.singles[index]) + 1
    return f"it has {ordinal(random_words.word_rank(index))} place of {count} by loss"


def _effect_blocks(effect: WordEffect, test: Score, rank: str | None) -> list[Block]:
    sample = effect.sample
    summary = f"Taking “{effect.word}” out {_describe_change(effect.without, test)}"
    if effect.with_median is not None and sample is not None:
        replacement = f"putting the middling word “{sample.median_word}” in its place"
        summary += f"; {replacement} {_describe_change(effect.with_median, test)}"
    if rank is not None:
        summary += f". Beside random words in its place, about as frequent, {rank}"
    blocks: list[Block] = [Paragraph(f"{summary}.")]
    if sample is not None:
        share = "all" if sample.sampled == sample.pool else f"{sample.sampled:,} drawn at random of"
        blocks.append(
            Paragraph(
                f"The middling word is “{sample.median_word}”: it has the median gain of {share} "
                f"{sample.pool:,} other words at this step. Their gains go from "
                f"{signed(sample.quantiles[0])} over {signed(sample.quantiles[2])} (median) to "
                f"{signed(sample.quantiles[4])}; that of “{effect.word}” is {signed(sample.gain)}, "
                f"and {sample.better} of them are above it."
            )
        )
    rows = [_class_row("helps", one) for one in effect.classes_helped]
    rows += [_class_row("hurts", one) for one in effect.classes_hurt]
    if rows:
        columns = (
            *("it", "class", "images", "accuracy", "accuracy without it"),
            *("loss", "loss without it"),
        )
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
    scores = [percent(effect.accuracy), percent(effect.accuracy_without)]
    scores += [number(effect.loss, 3), number(effect.loss_without, 3)]
    return [verb, effect.name, str(effect.images), *scores]


def _thumb(effect: ImageEffect) -> Thumb | None:
    uri = thumbnail(effect.item.path)
    if uri is None:
        return None
    caption = (
        f"{effect.true}: {percent(effect.probability_without)} without the word, "
        f"{percent(effect.probability)} with it"
    )
    if effect.predicted != effect.true:
        caption += f"; taken for {effect.predicted}"
    alt = f"An image of the class {effect.true}, {short_name(effect.item.path)}"
    return Thumb(uri, alt, caption)
