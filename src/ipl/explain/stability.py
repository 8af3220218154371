"""Whether the same words come back when other images are drawn as shots."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from ipl.backbone.shots import LabelledFeatures, draw_shots
from ipl.explain.loaded_run import LoadedRun, RunImages
from ipl.support.progress import SILENT, Reporter
from ipl.words.selection import Selection

RESAMPLES = 5


@dataclass(frozen=True)
class Resample:
    """The words of one other draw of shots."""

    seed: int
    words: tuple[str, ...]


@dataclass(frozen=True)
class Stability:
    """The words of other draws, and how often each came up."""

    how: str
    shared: float | None  # mean share of a draw that is among the run's own shots
    resamples: tuple[Resample, ...]
    counts: tuple[tuple[str, int], ...]  # every word that was chosen, most often first
    near: tuple[tuple[str, int], ...]  # each chosen word: draws with it in a step's best twenty

    def times(self, word: str) -> int:
        """Returns in how many draws a word came back."""
        return dict(self.counts).get(word, 0)


def resample_words(
    subject: LoadedRun,
    run_images: RunImages,
    selection: Selection,
    times: int = RESAMPLES,
    reporter: Reporter = SILENT,
) -> Stability:
    """Returns which words come back: the search again with shots of the seeds that follow."""
    training, learner, store = subject.saved.training, subject.learner, subject.store
    shots, seed = int(training.get("shots", 16)), int(training.get("seed", 1))
    choice, names = subject.choice(selection), run_images.dataset.class_names
    sizes = Counter(item.label for item in run_images.dataset.train)
    spare = any(size > shots for size in sizes.values())
    own, shares = set(run_images.shots.items), list[float]()
    found, near = [], Counter[str]()
    with reporter.task("Choosing words for other shots", times) as advance:
        for number in range(1, times + 1):
            if spare:
                drawn = draw_shots(run_images.dataset, shots, (seed + number) % 2**32, store)[0]
                shares.append(sum(item in own for item in drawn.items) / len(drawn.items))
            else:
                drawn = _with_replacement(run_images.shots, seed + number)
            other = choice.choose(
                learner.backbone, names, drawn, len(subject.words), store.cache, store
            )
            found.append(Resample(seed + number, other.words))
            seen = {w.word for step in other.steps for w in step.runners_up} | set(other.words)
            near.update(word for word in subject.words if word in seen)
            advance()
    shared = sum(shares) / len(shares) if shares else None
    how = (
        "the data has no other training images, so the shots themselves were drawn with replacement"
        if shared is None
        else f"with each seed {shots} images of each class were drawn anew from the training "
        f"images; on average {100 * shared:.0f} % of a draw are among the run's own"
    )
    counts = Counter(word for one in found for word in one.words)
    return Stability(
        how=how,
        shared=shared,
        resamples=tuple(found),
        counts=tuple(counts.most_common()),
        near=tuple((word, near[word]) for word in subject.words),
    )


def _with_replacement(shots: LabelledFeatures, seed: int) -> LabelledFeatures:
    """Returns as many shots of each class, drawn from these with replacement."""
    stream = random.Random(seed)
    places: list[int] = []
    for label in dict.fromkeys(item.label for item in shots.items):
        own = [place for place, item in enumerate(shots.items) if item.label == label]
        places += stream.choices(own, k=len(own))
    return LabelledFeatures(
        tuple(shots.items[place] for place in places), shots.features[places], ()
    )
