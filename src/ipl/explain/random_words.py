"""Whether the words are better than chance: random words, about as frequent, in their slots."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from ipl.display.document import Block, Figure, Figures, Heading, Paragraph
from ipl.display.formatting import number, ordinal, percent, several
from ipl.display.plots import Strip, strips
from ipl.display.table import Table
from ipl.explain.loaded_run import LoadedRun, RunImages
from ipl.metrics import Score, score
from ipl.support.errors import ConfigError
from ipl.support.progress import SILENT, Reporter
from ipl.words.frequency import RandomWords
from ipl.words.pool import Pool
from ipl.words.selection import Selection

DRAWS = 20


@dataclass(frozen=True)
class Draw:
    """Random words in place of the chosen ones."""

    words: tuple[str, ...]
    shots_loss: float  # of the search's sentence, nothing trained, on the training images
    test_loss: float  # the same on the held-out images
    prompt: Score  # of the finished prompt with these words, on the held-out images


@dataclass(frozen=True)
class RandomComparison:
    """The chosen words beside random ones; the first entry of `singles` is for the first word."""

    frequency: str  # how the frequency of words was measured
    chosen: Draw
    draws: tuple[Draw, ...]
    singles: tuple[tuple[Score, ...], ...]  # for each word: it alone replaced, a score per draw

    @property
    def sentence_rank(self) -> int:
        """Returns the chosen words' rank by loss of the sentence on the training images."""
        return rank_among(self.chosen.shots_loss, [draw.shots_loss for draw in self.draws])

    @property
    def held_out_rank(self) -> int:
        """Returns the chosen words' rank by loss of the sentence on the held-out images."""
        return rank_among(self.chosen.test_loss, [draw.test_loss for draw in self.draws])

    @property
    def prompt_rank(self) -> int:
        """Returns the chosen words' rank by loss of the finished prompt."""
        return rank_among(self.chosen.prompt.loss, [draw.prompt.loss for draw in self.draws])

    def word_rank(self, index: int) -> int:
        """Returns a chosen word's rank by loss when random words replace it alone."""
        return rank_among(self.chosen.prompt.loss, [single.loss for single in self.singles[index]])


def rank_among(value: float, others: Sequence[float]) -> int:
    """Returns the rank of a loss among others and itself; 1 is the lowest."""
    return 1 + sum(other < value for other in others)


def compare_with_random_words(
    run: LoadedRun,
    run_images: RunImages,
    selection: Selection,
    pool: Pool,
    reporter: Reporter = SILENT,
    draws: int = DRAWS,
) -> RandomComparison:
    """Returns how random words of equal frequency do, in all slots and in one at a time."""
    learner, labels, words = run.learner, run_images.test.labels, run.words
    shots_scorer = run.sentence_scorer(selection, run_images.shots)
    test_scorer = run.sentence_scorer(selection, run_images.test)

    def prompt_score(candidates: Sequence[str]) -> Score:
        changed = learner.rebuilt(words=candidates)
        return score(changed.log_probabilities(run_images.features), labels)

    def score_draw(candidates: tuple[str, ...]) -> Draw:
        return Draw(
            candidates,
            shots_scorer.loss(candidates),
            test_scorer.loss(candidates),
            prompt_score(candidates),
        )

    source = RandomWords(pool, learner.backbone.tokenize_words(pool.words))
    stream, random_draws = random.Random(0), list[tuple[str, ...]]()
    with suppress(ConfigError):  # the pool may be too small
        random_draws += [source.draw(words, stream) for _ in range(draws)]
    scored_draws = []
    singles: list[list[Score]] = [[] for _ in words]
    with reporter.task("Trying random words", len(random_draws)) as advance:
        for random_words in random_draws:
            scored_draws.append(score_draw(random_words))
            for index, word in enumerate(random_words):
                singles[index].append(prompt_score([*words[:index], word, *words[index + 1 :]]))
            advance()
    return RandomComparison(
        source.measure, score_draw(words), tuple(scored_draws), tuple(map(tuple, singles))
    )


# -- how it is shown ----------------------------------------------------------------------------


def random_words_blocks(comparison: RandomComparison) -> list[Block]:
    """Returns where the chosen words stand among random ones, as blocks of a section."""
    heading = Heading("Random words in their places")
    if not comparison.draws:
        return [heading, Paragraph("The pool is too small to draw random words from.")]
    count, chosen = len(comparison.draws), comparison.chosen
    better = sum(draw.prompt.accuracy > chosen.prompt.accuracy for draw in comparison.draws)
    return [
        heading,
        Paragraph(
            f"{several(count, 'time')}, every word was replaced by a random word of the pool that "
            f"is about as frequent (measured by: {comparison.frequency}). By chance alone the "
            f"chosen words would be at any of {count + 1} places with equal probability. Random "
            "draws are grey dots, the chosen words the large dot in colour."
        ),
        Paragraph(
            f"In the sentence that chose them, nothing trained, the chosen words have "
            f"{ordinal(comparison.sentence_rank)} place of {count + 1} by loss on the training "
            f"images, which they were chosen for, and {ordinal(comparison.held_out_rank)} on the "
            f"held-out images, which is the fair question. In the finished prompt, whose vectors "
            f"were trained around them, they have {ordinal(comparison.prompt_rank)} place by loss; "
            f"{better} of {count} random draws have a higher accuracy than "
            f"{percent(chosen.prompt.accuracy)}."
        ),
        _strip_figures(comparison),
        _single_words_table(comparison),
    ]


def _single_words_table(comparison: RandomComparison) -> Block:
    count, rows = len(comparison.draws), []
    for index, word in enumerate(comparison.chosen.words):
        accuracies = [single.accuracy for single in comparison.singles[index]]
        rank = f"{comparison.word_rank(index)} of {count + 1}"
        mean = sum(accuracies) / len(accuracies)
        rows.append([word, rank, percent(mean), percent(max(accuracies))])
    columns = ("word", "place by loss", "mean accuracy of random words", "best of them")
    return Table(columns, rows, caption="Each word alone replaced, in the finished prompt")


def _strip_figures(comparison: RandomComparison) -> Block:
    chosen, draws = comparison.chosen, comparison.draws
    sentence = [
        Strip("training images", tuple(d.shots_loss for d in draws), chosen.shots_loss),
        Strip("held-out images", tuple(d.test_loss for d in draws), chosen.test_loss),
    ]
    losses = [Strip("held-out images", tuple(d.prompt.loss for d in draws), chosen.prompt.loss)]
    percentages = tuple(100 * d.prompt.accuracy for d in draws)
    accuracies = [Strip("held-out images", percentages, 100 * chosen.prompt.accuracy)]
    rows = [
        [
            ", ".join(d.words) + (" (chosen)" if d is chosen else ""),
            number(d.shots_loss),
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
