"""Whether the words are better than chance: random words, about as frequent, in their slots."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from ipl.display.document import Block, Figure, Figures, Heading, Paragraph
from ipl.display.formatting import number, ordinal, percent, several
from ipl.display.plots import Strip, strips
from ipl.display.table import Table
from ipl.explain.loaded_run import LoadedRun, RunImages
from ipl.metrics import Score
from ipl.support.errors import ConfigError
from ipl.support.progress import SILENT, Reporter
from ipl.words.frequency import RandomWords
from ipl.words.pool import Pool
from ipl.words.selection import Selection

DRAWS = 20
FLATTERED = (
    "The vectors were trained around the chosen words, which flatters them here: random words that "
    "the vectors had been trained around would have a good place too."
)


@dataclass(frozen=True)
class RandomDraws:
    """Draws of random words, one for each slot of a prompt."""

    frequency: str  # how the frequency of words was measured
    draws: tuple[tuple[str, ...], ...]  # none if the pool is too small


@dataclass(frozen=True)
class Replacement:
    """Random words in the finished prompt, and its score on the held-out images with them."""

    words: tuple[str, ...]
    score: Score


@dataclass(frozen=True)
class Draw:
    """Random words in place of the chosen ones."""

    words: tuple[str, ...]
    shots_loss: float | None  # of the search's sentence, nothing trained, on the training images
    test_loss: float  # the same on the held-out images
    prompt: Score  # of the finished prompt with these words, on the held-out images


@dataclass(frozen=True)
class RandomComparison:
    """The chosen words beside random ones."""

    frequency: str  # how the frequency of words was measured
    chosen: Draw
    draws: tuple[Draw, ...]

    @property
    def sentence_rank(self) -> int | None:
        """Returns the chosen words' rank by loss of the sentence on the training images, if any."""
        if self.chosen.shots_loss is None:
            return None
        losses = [draw.shots_loss for draw in self.draws if draw.shots_loss is not None]
        return rank_among(self.chosen.shots_loss, losses)

    @property
    def held_out_rank(self) -> int:
        """Returns the chosen words' rank by loss of the sentence on the held-out images."""
        return rank_among(self.chosen.test_loss, [draw.test_loss for draw in self.draws])

    @property
    def prompt_rank(self) -> int:
        """Returns the chosen words' rank by loss of the finished prompt."""
        return rank_among(self.chosen.prompt.loss, [draw.prompt.loss for draw in self.draws])


def rank_among(value: float, others: Sequence[float]) -> int:
    """Returns the rank of a loss among others and itself; 1 is the lowest."""
    return 1 + sum(other < value for other in others)


def draw_random_words(run: LoadedRun, count: int = DRAWS) -> RandomDraws:
    """Returns draws of random words that are about as frequent as the words of a run.

    A word of several tokens is replaced by as many words, because its slot has room for these.
    """
    backbone, pool = run.learner.backbone, run.candidates
    words = [word.lower() for word in run.words]
    sizes = run.learner.layout.slot_sizes[: len(words)]
    known = Pool.from_words([*pool.words, *words], pool.source)  # a given word may not be in it
    source = RandomWords(known, [backbone.tokenize(word)[0] for word in known.words])
    single = [word for word, size in zip(words, sizes, strict=True) for _ in range(size)]
    stream, draws = random.Random(0), list[tuple[str, ...]]()
    with suppress(ConfigError):  # the pool may be too small
        for _ in range(count):
            drawn = iter(source.draw(single, stream))
            draws.append(tuple(" ".join(islice(drawn, size)) for size in sizes))
    return RandomDraws(source.measure, tuple(draws))


def compare_with_random_words(
    run: LoadedRun,
    run_images: RunImages,
    selection: Selection,
    frequency: str,
    chosen: Replacement,
    replacements: Sequence[Replacement],
    reporter: Reporter = SILENT,
) -> RandomComparison:
    """Returns how the chosen words and random ones in all slots do in the search's sentence."""
    shots = run_images.shots
    shots_scorer = None if shots is None else run.sentence_scorer(selection, shots)
    test_scorer = run.sentence_scorer(selection, run_images.test)

    def draws() -> Iterator[Draw]:
        with reporter.task("Trying random words", 1 + len(replacements)) as advance:
            for each in (chosen, *replacements):
                shots_loss = None if shots_scorer is None else shots_scorer.loss(each.words)
                yield Draw(each.words, shots_loss, test_scorer.loss(each.words), each.score)
                advance()

    first, *others = draws()
    return RandomComparison(frequency, first, tuple(others))


# -- how it is shown ----------------------------------------------------------------------------


def random_words_blocks(comparison: RandomComparison) -> list[Block]:
    """Returns where the chosen words stand among random ones, as blocks of a section."""
    heading = Heading("Random words in their places")
    if not comparison.draws:
        return [heading, Paragraph("The pool is too small to draw random words from.")]
    count, chosen = len(comparison.draws), comparison.chosen
    better = sum(draw.prompt.accuracy > chosen.prompt.accuracy for draw in comparison.draws)
    places = (
        f"{ordinal(comparison.held_out_rank)} place of {count + 1} by loss on the held-out images, "
        "which had no part in the choice."
    )
    if comparison.sentence_rank is not None:
        places = (
            f"{ordinal(comparison.sentence_rank)} place of {count + 1} by loss on the training "
            f"images, which they were chosen for, and {ordinal(comparison.held_out_rank)} on the "
            "held-out images, which is the fair question."
        )
    return [
        heading,
        Paragraph(
            f"{several(count, 'time')}, every word was replaced by a random word of the pool that "
            f"is about as frequent (measured by: {comparison.frequency}). By chance alone the "
            f"chosen words would be at any of {count + 1} places with equal probability. Random "
            "draws are grey dots, the chosen words the large dot in colour."
        ),
        Paragraph(
            f"In the sentence that chose them, nothing trained, the chosen words have {places}"
        ),
        Paragraph(
            f"In the finished prompt they have {ordinal(comparison.prompt_rank)} place by loss; "
            f"{better} of {count} random draws {'has' if better == 1 else 'have'} a higher "
            f"accuracy than {percent(chosen.prompt.accuracy)}. {FLATTERED}"
        ),
        _strip_figures(comparison),
    ]


def held_out_sentences(comparison: RandomComparison) -> list[str]:
    """Returns where the chosen words stand among random ones before training."""
    if not comparison.draws:
        return []
    count = len(comparison.draws)
    return [
        f"Beside {several(count, 'draw')} of random words these have "
        f"{ordinal(comparison.held_out_rank)} place of {count + 1} by loss on held-out images, in "
        "the sentence that chose them, before any training."
    ]


def _strip_figures(comparison: RandomComparison) -> Block:
    chosen, draws = comparison.chosen, comparison.draws
    sentence = [Strip("held-out images", tuple(d.test_loss for d in draws), chosen.test_loss)]
    if chosen.shots_loss is not None:
        on_shots = tuple(d.shots_loss for d in draws if d.shots_loss is not None)
        sentence.insert(0, Strip("training images", on_shots, chosen.shots_loss))
    losses = [Strip("held-out images", tuple(d.prompt.loss for d in draws), chosen.prompt.loss)]
    percentages = tuple(100 * d.prompt.accuracy for d in draws)
    accuracies = [Strip("held-out images", percentages, 100 * chosen.prompt.accuracy)]
    rows = [
        [
            ", ".join(d.words) + (" (chosen)" if d is chosen else ""),
            "" if d.shots_loss is None else number(d.shots_loss),
            number(d.test_loss),
            number(d.prompt.loss),
            percent(d.prompt.accuracy),
        ]
        for d in (chosen, *draws)
    ]
    columns = ("words", "sentence, training", "sentence, held out", "prompt, loss", "accuracy")
    table = Table(columns, rows, caption="The chosen words and every random draw")
    figures = []
    for title, groups, axis in (
        ("Loss in the sentence that chose them", sentence, "cross-entropy (lower is better)"),
        ("Loss in the finished prompt", losses, "cross-entropy (lower is better)"),
        ("Accuracy of the finished prompt", accuracies, "accuracy in % (higher is better)"),
    ):
        ranges = "; ".join(
            f"{g.label}: chosen {g.marked:.3f}, random {min(g.values):.3f} to {max(g.values):.3f}"
            for g in groups
        )
        alt = f"{title}: random words as grey dots, the chosen ones in colour. {ranges}."
        figures.append(Figure(title, strips(groups, alt, axis), None))
    return Figures(tuple(figures), table)
