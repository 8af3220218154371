"""Whether the words are better than chance: random words, as frequent, in their places."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ipl.explain.loaded_run import LoadedRun, RunImages
from ipl.explain.scoring import sentence_scorer
from ipl.explain.variants import with_words
from ipl.metrics import Score, score
from ipl.support.errors import DataError
from ipl.support.progress import SILENT, Reporter
from ipl.words.filters import zipf
from ipl.words.pool import Pool
from ipl.words.selection import Selection

DRAWS = 20
NEAR = 200  # words of the pool that count as equally frequent


@dataclass(frozen=True)
class Draw:
    """Random words in place of the chosen ones."""

    words: tuple[str, ...]
    shots_loss: float  # of the search's sentence, nothing trained, on the training images
    test_loss: float  # the same on the held-out images
    prompt: Score  # of the finished prompt with these words, on the held-out images


@dataclass(frozen=True)
class Chance:
    """The chosen words beside random ones; the first entry of `singles` is for the first word."""

    frequency: str  # what "equally frequent" was told by
    chosen: Draw
    draws: tuple[Draw, ...]
    singles: tuple[tuple[Score, ...], ...]  # of each word: it alone replaced, a score per draw


def place_among(value: float, others: Sequence[float]) -> int:
    """Returns the place of a loss among others and itself; 1 is the lowest."""
    return 1 + sum(other < value for other in others)


def against_chance(
    subject: LoadedRun,
    run_images: RunImages,
    selection: Selection,
    pool: Pool,
    reporter: Reporter = SILENT,
    draws: int = DRAWS,
) -> Chance:
    """Returns how random words of equal frequency do, in all places and in one at a time."""
    learner, labels, words = subject.learner, run_images.test.labels, subject.words
    choice = subject.choice(selection)
    on_shots, on_test = (
        sentence_scorer(learner, choice, s) for s in (run_images.shots, run_images.test)
    )

    def prompt(these: Sequence[str]) -> Score:
        return score(with_words(learner, these).log_probabilities(run_images.features), labels)

    def draw(these: tuple[str, ...]) -> Draw:
        return Draw(these, on_shots.loss(these), on_test.loss(these), prompt(these))

    frequency, values = frequencies(pool, learner.backbone.tokenize_words(pool.words))
    drawn = draw_words(pool, values, words, draws)
    found = []
    singles: list[list[Score]] = [[] for _ in words]
    with reporter.task("Trying random words", len(drawn)) as advance:
        for these in drawn:
            found.append(draw(these))
            for place, word in enumerate(these):
                singles[place].append(prompt([*words[:place], word, *words[place + 1 :]]))
            advance()
    return Chance(frequency, draw(words), tuple(found), tuple(map(tuple, singles)))


def frequencies(
    pool: Pool, tokens: Sequence[int]
) -> tuple[str, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Returns what tells frequency, and a number for each word of the pool."""
    try:
        values = [zipf(word) for word in pool.words]
        return "Zipf frequency in English (wordfreq)", np.array(values)
    except DataError:  # a vocabulary is merged from frequent to rare, so its order tells
        return (
            "rank in the tokenizer's vocabulary, frequent to rare (wordfreq is not installed)",
            np.argsort(np.argsort(tokens)).astype(np.float64),
        )


def draw_words(
    pool: Pool,
    values: np.ndarray[tuple[int], np.dtype[np.float64]],
    words: Sequence[str],
    draws: int,
) -> list[tuple[str, ...]]:
    """Returns so many tuples of random words, each about as frequent as the word in its place."""
    stream = random.Random(0)
    near = []
    for word in words:
        distance = np.abs(values - values[pool.words.index(word)])
        order = np.argsort(distance, kind="stable")[: NEAR + len(words)]
        near.append([pool.words[i] for i in order if pool.words[i] not in words][:NEAR])
    found: list[tuple[str, ...]] = []
    for _ in range(draws):
        these: list[str] = []
        for candidates in near:
            free = [word for word in candidates if word not in these]
            if not free:
                return found  # the pool is too small
            these.append(stream.choice(free))
        found.append(tuple(these))
    return found
