"""Whether the same words are chosen again when other images are drawn as shots."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from ipl.backbone.labelled_features import LabelledFeatures, draw_shots
from ipl.datasets.dataset import Dataset
from ipl.display.document import Block, Figure, Heading, Paragraph
from ipl.display.formatting import listed, several
from ipl.display.plots import Bar, bars
from ipl.display.table import Table
from ipl.explain.loaded_run import LoadedRun
from ipl.support.progress import SILENT, Reporter
from ipl.words.selection import Selection

RESAMPLES = 5
DRAWN = 10  # how many words are drawn as bars


@dataclass(frozen=True)
class Resample:
    """The words of another draw of shots."""

    seed: int
    words: tuple[str, ...]


@dataclass(frozen=True)
class Stability:
    """The words of other draws, and how often each was chosen."""

    how: str
    shared: float | None  # mean share of a draw that is among the run's own shots
    resamples: tuple[Resample, ...]
    counts: tuple[tuple[str, int], ...]  # every word that was chosen, most often first
    near: tuple[tuple[str, int], ...]  # each chosen word: draws with it in a step's best twenty

    def times(self, word: str) -> int:
        """Returns in how many draws a word was chosen again."""
        return dict(self.counts).get(word, 0)


def resample_words(
    run: LoadedRun,
    dataset: Dataset,
    run_shots: LabelledFeatures,
    selection: Selection,
    times: int = RESAMPLES,
    reporter: Reporter = SILENT,
) -> Stability:
    """Returns which words are chosen again: the search repeated with the seeds that follow.

    `dataset` is that of the run, and `run_shots` are the shots of its training.
    """
    training, learner, store = run.result.training, run.learner, run.store
    shots, seed = int(training.get("shots", 16)), int(training.get("seed", 1))
    choice = run.choice(selection)
    class_sizes = Counter(item.label for item in dataset.train)
    has_spare_images = any(size > shots for size in class_sizes.values())
    own_shots, shares = set(run_shots.items), list[float]()
    resamples, near = list[Resample](), Counter[str]()
    with reporter.task("Choosing words for other shots", times) as advance:
        for offset in range(1, times + 1):
            if has_spare_images:
                drawn = draw_shots(dataset, shots, (seed + offset) % 2**32, store)[0]
                shares.append(sum(item in own_shots for item in drawn.items) / len(drawn.items))
            else:
                drawn = _draw_with_replacement(run_shots, seed + offset)
            other = choice.choose(
                learner.backbone, dataset.class_names, drawn, len(run.words), store.cache, store
            )
            resamples.append(Resample(seed + offset, other.words))
            best = {ranked.word for step in other.steps for ranked in step.runners_up}
            near.update(word for word in run.words if word in best.union(other.words))
            advance()
    shared = sum(shares) / len(shares) if shares else None
    how = (
        "the data has no other training images, so the shots themselves were drawn with replacement"
        if shared is None
        else f"with each seed {shots} images of each class were drawn anew from the training "
        f"images; on average {100 * shared:.0f} % of a draw are among the run's own"
    )
    counts = Counter(word for resample in resamples for word in resample.words)
    return Stability(
        how=how,
        shared=shared,
        resamples=tuple(resamples),
        counts=tuple(counts.most_common()),
        near=tuple((word, near[word]) for word in run.words),
    )


def _draw_with_replacement(shots: LabelledFeatures, seed: int) -> LabelledFeatures:
    """Returns as many shots of each class, drawn from these with replacement."""
    stream = random.Random(seed)
    indices: list[int] = []
    for label in dict.fromkeys(item.label for item in shots.items):
        of_class = [index for index, item in enumerate(shots.items) if item.label == label]
        indices += stream.choices(of_class, k=len(of_class))
    items = tuple(shots.items[index] for index in indices)
    return LabelledFeatures(items, shots.features[indices], ())


# -- how it is shown ----------------------------------------------------------------------------


def stability_blocks(stability: Stability, words: tuple[str, ...]) -> list[Block]:
    """Returns whether the words of a prompt were chosen again, as blocks of a section."""
    count, most_frequent = len(stability.resamples), stability.counts[:DRAWN]
    again = [f"“{word}” in {stability.times(word)}" for word in words]
    near = [f"“{word}” in {times}" for word, times in stability.near]
    rows = [
        Bar(word, times, f"{times} of {count}", 1 if word in words else 0)
        for word, times in most_frequent
    ]
    values = ", ".join(f"{word} {times} of {count}" for word, times in most_frequent)
    counts = [
        [word, str(times), "yes" if word in words else ""] for word, times in stability.counts
    ]
    draws = [[str(draw.seed), ", ".join(draw.words)] for draw in stability.resamples]
    return [
        Heading("Do the words come back?"),
        Paragraph(
            f"The search was done again {several(count, 'time')}: {stability.how}. How many of "
            f"these {several(count, 'draw')} chose a word of this prompt again: {listed(again)}. "
            f"In how many it was at least among the best twenty of a step: {listed(near)}."
        ),
        Figure(
            "How often a word was chosen; words of this prompt in colour",
            bars(rows, f"How often each word was chosen: {values}."),
            Table(
                ("word", "times", "in this prompt"), counts, caption="Every word that was chosen"
            ),
        ),
        Table(("seed", "words"), draws, caption="The words of each draw"),
    ]
