"""Words for one class: which word most helps the images of each class, all classes competing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from ipl.display.document import Block, Figure, Figures, Paragraph, Section
from ipl.display.formatting import listed, percent, several, signed
from ipl.display.plots import Bar, bars
from ipl.display.table import Table
from ipl.explain.word_effects import LossChange, mean_with_interval
from ipl.support.progress import SILENT, Reporter
from ipl.words.certainty import Resamples
from ipl.words.scorer import CandidateScorer, SentenceScorer
from ipl.words.selection import Certainty

BEST = 20  # words of a class that are compared in resamples
AT_ONCE = 1 << 23  # losses, of words times images, that are in memory together
DRAWN = 4  # classes that are drawn


@dataclass(frozen=True)
class HeldOutGain:
    """The gain of a word on images that had no part in its choice."""

    images: int  # of the class
    gain: LossChange  # on these
    all_classes: float  # on the held-out images of all classes


@dataclass(frozen=True)
class ClassWord:
    """The word that most lowers the loss of one class's training images."""

    name: str
    images: int
    word: str
    gain: float
    certainty: Certainty
    held_out: HeldOutGain | None  # None without held-out images, or if the word is not clear

    @property
    def clear(self) -> bool:
        """Returns whether its interval lies above 0; that of a single image has no width."""
        return 0 < self.certainty.low < self.certainty.high


class BestWords(NamedTuple):
    """The best words of each class, the best first."""

    words: Tensor  # (best, classes), indices
    losses: Tensor  # (best, images): each image with the best words of its own class


def class_words(
    scorer: SentenceScorer,
    words: Sequence[str],
    held_out: SentenceScorer | None = None,
    reporter: Reporter = SILENT,
) -> tuple[ClassWord, ...]:
    """Returns the best word of each class that has training images, the largest gain first.

    Parameters
    ----------
    scorer : SentenceScorer
        Scores words on the training images.
    words : sequence of str
        The words of the pool, all of which are scored.
    held_out : SentenceScorer, optional
        Scores the words that are clear on other images of the same classes.
    reporter : Reporter
        Gets the progress.

    Returns
    -------
    tuple of ClassWord
        A word for each class; only those that are `clear` are worth showing.
    """
    with reporter.task("Choosing a word for each class", len(words)) as advance:
        best = best_words(scorer, words, advance)
    without = scorer.losses_without(())
    labels = scorer.cross_entropy.labels.cpu()
    results = []
    for label, name in enumerate(scorer.class_names):
        own = labels == label
        if not own.any():
            continue
        losses = torch.cat([without[None, own], best.losses[:, own]])
        certainty = Resamples(labels[own]).certainty(losses, torch.zeros(len(losses) - 1))
        word, gain = words[int(best.words[0, label])], float((losses[0] - losses[1]).mean())
        results.append(ClassWord(name, int(own.sum()), word, gain, certainty, None))
    results.sort(key=lambda result: -result.gain)
    return tuple(results if held_out is None else _with_held_out_gains(results, held_out))


def best_words(
    scorer: CandidateScorer, words: Sequence[str], advance: Callable[..., None]
) -> BestWords:
    """Returns the best words of each class by its own images, in one pass over all words.

    Words of equal loss keep their order. A class without images has no meaning here.
    """
    cross_entropy = scorer.cross_entropy
    labels, classes, images = cross_entropy.labels, cross_entropy.classes, cross_entropy.images
    counts = torch.bincount(labels, minlength=classes)
    at_once = max(1, AT_ONCE // len(images))
    means, indices = images.new_zeros(0, classes), labels.new_zeros(0, classes)
    best, start = images.new_zeros(0, len(images)), 0
    for chunk in scorer.features((), words):
        for features in chunk.split(at_once):
            losses = cross_entropy.image_losses(features)
            own_means = losses.new_zeros(len(losses), classes).index_add_(1, labels, losses)
            numbers = torch.arange(start, start + len(losses), device=labels.device)
            start += len(losses)
            means = torch.cat([means, own_means / counts])
            indices = torch.cat([indices, numbers[:, None].expand(-1, classes)])
            order = means.argsort(dim=0, stable=True)[:BEST]
            means, indices = means.gather(0, order), indices.gather(0, order)
            best = torch.cat([best, losses]).gather(0, order[:, labels])
            advance(len(losses))
    return BestWords(indices.cpu(), best.cpu())


def _with_held_out_gains(results: Sequence[ClassWord], scorer: SentenceScorer) -> list[ClassWord]:
    """Returns the results with the held-out gains of the words that are clear."""
    clear = sorted({result.word for result in results if result.clear})
    if not clear:
        return list(results)
    losses = scorer.image_losses((), clear)  # (words, images)
    gains = dict(zip(clear, scorer.losses_without(()) - losses, strict=True))
    labels = scorer.cross_entropy.labels.cpu()
    checked = []
    for result in results:
        own = labels == scorer.class_names.index(result.name)
        if result.clear and own.any():
            gain = gains[result.word]
            held_out = HeldOutGain(
                int(own.sum()), mean_with_interval(gain[None, own]), float(gain.mean())
            )
            result = replace(result, held_out=held_out)
        checked.append(result)
    return checked


# -- how it is shown ----------------------------------------------------------------------------


def class_words_section(results: Sequence[ClassWord], template: str, pool: int) -> Section:
    """Returns the words that are clear, and which classes have none."""
    clear = [result for result in results if result.clear]
    blocks: list[Block] = [
        Paragraph(
            "For each class, the word that most lowers the loss of the class's own training "
            f"images when it alone stands in the sentence “{template}”; all classes compete. Each "
            f"of {pool:,} words was scored, before any training. A word is shown only if the 90 % "
            "interval of its gain, from 1,000 draws of the class's images, lies above 0. The best "
            f"of {pool:,} words on a few images is always lucky: it was chosen on the images that "
            "it is measured on, so this is a necessary sign, not a sufficient one."
        )
    ]
    if clear:
        blocks += [*_check(clear), _figures(clear)]
    if without := [result for result in results if not result.clear]:
        names = listed([result.name for result in without])
        few = ""
        if any(result.images == 1 for result in without):
            few = " One image of a class is too few to tell."
        blocks.append(Paragraph(f"No word stands out for {names}.{few}"))
    summary = f"A word stands out for {len(clear)} of {several(len(results), 'class', 'classes')}."
    return Section("class-words", "Words for one class", tuple(blocks), summary)


def _check(clear: Sequence[ClassWord]) -> list[Block]:
    """Returns how many words hold on images that had no part in the choice."""
    checked = [result.held_out for result in clear if result.held_out is not None]
    if not checked:
        return []
    count = several(len(checked), "word")
    helpful = [held_out for held_out in checked if held_out.gain.mean > 0]
    sure = sum(held_out.gain.beyond_noise for held_out in helpful)
    everywhere = sum(held_out.all_classes > 0 for held_out in checked)
    kind = "plain" if 2 * everywhere > len(checked) else "warning"
    return [
        Paragraph(
            f"The fair check is on held-out images, which had no part in the choice: {len(helpful)}"
            f" of {count} also lower the loss of the class's held-out images, {sure} of them with "
            "an interval above 0."
        ),
        Paragraph(
            "Only the images of one class decide, so a word may merely draw all images to that "
            f"class: {everywhere} of {count} lower the loss over the held-out images of all "
            "classes.",
            kind,
        ),
    ]


def _figures(clear: Sequence[ClassWord]) -> Block:
    drawn = []
    for result in clear[:DRAWN]:
        gains = [(f"{result.name}: {result.word}", result.gain)]
        if result.held_out is not None:
            gains.append(("held-out images of the class", result.held_out.gain.mean))
            gains.append(("held-out images of all classes", result.held_out.all_classes))
        drawn += [
            Bar(name, gain, signed(gain), tone)
            for (name, gain), tone in zip(gains, (1, 0, 2), strict=False)
        ]
    columns = (
        *("class", "word", "images", "gain", "90 % interval", "wins"),
        *("held out", "gain there", "90 % interval", "all classes"),
    )
    values = ", ".join(f"{result.name} {result.word} {result.gain:+.3f}" for result in clear)
    count = "" if len(clear) <= DRAWN else f"; the first {DRAWN} of {len(clear)}"
    svg = bars(drawn, f"Gain of the word of each class: {values}.")
    table = Table(columns, [_row(result) for result in clear], caption="The word of each class")
    return Figures((Figure(f"The word of each class and its gain{count}", svg, None),), table)


def _row(result: ClassWord) -> list[str]:
    certainty, held_out = result.certainty, result.held_out
    row = [result.name, result.word, str(result.images), signed(result.gain, 3)]
    row += [_interval(certainty.low, certainty.high), percent(certainty.wins, 0)]
    if held_out is None:
        return [*row, "", "", "", ""]
    gain = held_out.gain
    interval = _interval(gain.low, gain.high) if held_out.images > 1 else ""
    row += [str(held_out.images), signed(gain.mean, 3), interval]
    return [*row, signed(held_out.all_classes, 3)]


def _interval(low: float, high: float) -> str:
    return f"{signed(low, 3)} to {signed(high, 3)}"
