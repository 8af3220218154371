"""What each word does in the finished prompt: random words, about as frequent, in its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ipl.display.document import Figure, Paragraph, Section
from ipl.display.formatting import number, percent, points, several, signed
from ipl.display.plots import Strip, strips
from ipl.display.table import Table
from ipl.explain.inputs import LoadedRun, ReportData, RunImages
from ipl.metrics import image_losses, score
from ipl.support.progress import SILENT, Reporter
from ipl.training.words_matter import LossChange, draw_random_words, mean_change


@dataclass(frozen=True)
class WordEffect:
    """One word, or all of them: how the prompt does with random words in its place."""

    word: str
    change: LossChange  # of the loss: above 0 the word helps
    losses: tuple[float, ...]  # with each draw of random words
    accuracy: float  # mean over the draws


@dataclass(frozen=True)
class WordEffects:
    """All words of a prompt, the one that helps most first."""

    draws: tuple[tuple[str, ...], ...]
    loss: float  # of the prompt with its own words
    accuracy: float
    words: tuple[WordEffect, ...]
    together: WordEffect  # all words replaced at once


def word_effects(
    run: LoadedRun, images: RunImages, reporter: Reporter = SILENT
) -> WordEffects | None:
    """The effect of each word; None if there is none, or the pool is too small to draw from."""
    words, labels = run.words, images.test.labels
    draws = draw_random_words(run.learner, run.candidates)
    if not words or not draws:
        return None
    own = image_losses(images.prompt, labels)

    def predict(candidates: tuple[str, ...]) -> Tensor:
        advance()
        return run.learner.rebuilt(words=candidates).log_probabilities(images.features)

    def effect(word: str, replaced: Sequence[tuple[str, ...]]) -> WordEffect:
        predictions = [predict(candidates) for candidates in replaced]
        # (draws, images)
        losses = torch.stack([image_losses(each, labels) for each in predictions])
        right = torch.stack([each.argmax(1) == labels for each in predictions]).double()
        change = mean_change(losses - own)
        return WordEffect(word, change, tuple(losses.mean(1).tolist()), float(right.mean()))

    total = len(draws) * (len(words) + (len(words) > 1))
    with reporter.task("Replacing words", total) as advance:
        each = [
            effect(word, [(*words[:i], draw[i], *words[i + 1 :]) for draw in draws])
            for i, word in enumerate(words)
        ]
        together = effect("all words at once", draws) if len(words) > 1 else each[0]
    best_first = tuple(sorted(each, key=lambda one: -one.change.mean))
    found = score(images.prompt, labels)
    return WordEffects(draws, found.loss, found.accuracy, best_first, together)


def effects_section(data: ReportData) -> Section | None:
    """How much worse, or better, the prompt is with random words in place of its own."""
    effects, images = data.effects, data.images
    if effects is None or images is None:
        return None
    every = [*effects.words, *([effects.together] if len(effects.words) > 1 else [])]
    how = Paragraph(
        f"On {several(len(images.test.items), 'held-out image')}, with the trained vectors as they "
        f"are and without a head, each word was replaced by "
        f"{several(len(effects.draws), 'random word')} of the pool that are about as frequent in "
        "English. The change is the mean over these replacements: above 0, the chosen word helps. "
        "Its interval holds 90 % of the means when images and replacements are drawn anew 1,000 "
        "times. The vectors were trained around the chosen words, which flatters them."
    )
    rows = [
        [
            each.word,
            signed(each.change.mean),
            f"{signed(each.change.low)} to {signed(each.change.high)}",
            points(each.accuracy - effects.accuracy),
            f"{1 + sum(loss < effects.loss for loss in each.losses)} of {len(each.losses) + 1}",
        ]
        for each in every
    ]
    caption = (
        "How random words change the loss and the accuracy (in points) of the prompt, which are "
        f"{number(effects.loss)} and {percent(effects.accuracy)} with its own words"
    )
    columns = ("replaced", "loss", "90 % interval", "accuracy", "place of its own")
    title = "Loss with random words (grey) and with its own (in colour)"
    ranges = "; ".join(f"{e.word}: {min(e.losses):.3f} to {max(e.losses):.3f}" for e in every)
    drawing = strips(
        [Strip(each.word, each.losses, effects.loss) for each in every],
        f"{title}: {effects.loss:.3f} with its own; {ranges}.",
        "cross-entropy (lower is better)",
    )
    blocks = (how, Table(columns, rows, caption=caption), Figure(title, drawing))
    replaced = "its word" if len(effects.words) == 1 else "all words"
    summary = f"Random words in place of {replaced} change the loss by {effects.together.change}."
    return Section("effects", "What each word does", blocks, summary, {"effects": effects})
