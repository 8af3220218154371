"""One fit with several seeds: how much its accuracies differ, and which words come back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import mean
from typing import Any

from ipl.datasets.dataset import Dataset
from ipl.display.formatting import listed, percent, range_of_percent, several, signed
from ipl.display.table import Styled, Table
from ipl.metrics import PairedDifference
from ipl.training.comparison import NAMES, NO_IMAGES, ORDER, PROMPT
from ipl.training.result import FitResult

ABOUT_SEEDS = (
    "Each seed draws other shots and starts the vectors anew; without a test part other images are "
    "held out, too. Clearly: the 95 % interval over the images of that seed excludes 0."
)


@dataclass(frozen=True)
class MethodSpread:
    """The accuracies of the prompt or of a baseline, one for each seed.

    `differences` are those of the prompt minus it; the prompt has none.
    """

    name: str
    accuracies: tuple[float, ...]
    differences: tuple[PairedDifference, ...] = ()


@dataclass(frozen=True)
class StableWord:
    """A word that several seeds chose, and these seeds."""

    word: str
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class SeedSpread:
    """The results of one fit with several seeds.

    Parameters
    ----------
    seeds : tuple of int
        The seeds.
    methods : tuple of MethodSpread
        The methods that every seed was compared with, and the prompt last; empty if a seed had no
        held-out image.
    words : tuple of tuple of str
        The words that a search chose with each seed; empty if no search chose them.
    shared_shots : float
        The share of the shots of one seed that another seed draws too, on average.
    """

    seeds: tuple[int, ...]
    methods: tuple[MethodSpread, ...]
    words: tuple[tuple[str, ...], ...]
    shared_shots: float

    @classmethod
    def of(cls, results: Sequence[FitResult], dataset: Dataset) -> SeedSpread:
        """Returns the spread of fits on a dataset that differ in their seeds alone."""
        seeds = tuple(result.config.seed for result in results)
        searched = all(result.selection is not None for result in results)
        return cls(
            seeds,
            _method_spreads(results),
            tuple(result.words for result in results) if searched else (),
            shared_shots(dataset, results[0].config.shots),
        )

    @property
    def stable_words(self) -> tuple[StableWord, ...]:
        """Returns the words that two or more seeds chose, those of most seeds first."""
        counts = Counter(word for words in self.words for word in set(words))
        order = dict.fromkeys(word for words in self.words for word in words if counts[word] > 1)
        chosen = [
            StableWord(
                word, tuple(s for s, ws in zip(self.seeds, self.words, strict=True) if word in ws)
            )
            for word in order
        ]
        return tuple(sorted(chosen, key=lambda stable: -len(stable.seeds)))

    @property
    def verdict(self) -> tuple[str, ...]:
        """Returns the accuracy over the seeds, and a sentence on each baseline."""
        if not self.methods:
            return (NO_IMAGES,)
        by_name = {method.name: method for method in self.methods}
        accuracies = by_name[PROMPT].accuracies
        least, most = 100 * min(accuracies), 100 * max(accuracies)
        sentence = (
            f"Over {len(self.seeds)} seeds this prompt is right for {_mean(accuracies)} of the "
            f"held-out images on average (least {least:.1f}, most {most:.1f})."
        )
        return (sentence, *(_compare(by_name[name]) for name in ORDER if name in by_name))

    @property
    def about_words(self) -> str:
        """Returns which words are stable, and how far that is because seeds share their shots."""
        if not self.words:
            return ""
        of = f"of {len(self.seeds)} seeds"
        stable = [f"{each.word} ({len(each.seeds)} {of})" for each in self.stable_words]
        sentence = (
            f"Stable words: {listed(stable)}."
            if stable
            else "No word was chosen with more than one seed."
        )
        if self.shared_shots > 0.999:
            return f"{sentence} All seeds have the same shots, so that the words had to come back."
        return f"{sentence} Two seeds share {percent(self.shared_shots, 0)} of their shots."

    def table(self) -> Table:
        """Returns a table with a row for each seed, their mean and their range."""
        titles = [NAMES[method.name][0] for method in self.methods]
        rows: list[list[str]] = []
        for index, seed in enumerate(self.seeds):
            row = [str(seed), *(percent(method.accuracies[index]) for method in self.methods)]
            rows.append([*row, ", ".join(self.words[index])] if self.words else row)
        if self.methods:
            for title, show in (("mean", _mean), ("least to most", _least_to_most)):
                summary = [title, *(show(method.accuracies) for method in self.methods)]
                summary += [""] if self.words else []
                rows.append([Styled(cell, "bold") for cell in summary])
        columns = ["seed", *titles, *(["words"] if self.words else [])]
        caption = "Held-out accuracy with each seed" if self.methods else "The words of each seed"
        return Table(columns, rows, caption=caption, numbers=titles)

    def as_dict(self) -> dict[str, Any]:
        """Returns the spread as plain values for JSON."""
        methods = [
            {
                "name": method.name,
                "accuracies": list(method.accuracies),
                "mean": mean(method.accuracies),
                "least": min(method.accuracies),
                "most": max(method.accuracies),
                "prompt_minus_this": [asdict(each) for each in method.differences],
            }
            for method in self.methods
        ]
        return {
            "seeds": list(self.seeds),
            "verdict": list(self.verdict),
            "methods": methods,
            "stable_words": [
                {"word": stable.word, "seeds": list(stable.seeds)} for stable in self.stable_words
            ],
            "shared_shots": self.shared_shots,
        }


def shared_shots(dataset: Dataset, shots: int) -> float:
    """Returns which share of the shots of one draw is expected in another draw."""
    images = Counter(item.label for item in dataset.train)
    drawn = {label: min(shots, count) for label, count in images.items()}
    shared = sum(number**2 / images[label] for label, number in drawn.items())
    return shared / sum(drawn.values())


def _method_spreads(results: Sequence[FitResult]) -> tuple[MethodSpread, ...]:
    comparisons = [result.comparison for result in results if result.comparison is not None]
    if len(comparisons) < len(results):
        return ()
    spreads = []
    for first in comparisons[0].methods:
        methods = [comparison.of(first.name) for comparison in comparisons]
        pairs = [(c, m) for c, m in zip(comparisons, methods, strict=True) if m is not None]
        if len(pairs) == len(results):  # with --words auto a seed may have no words to leave out
            differences = [] if first.name == PROMPT else [c.difference(m) for c, m in pairs]
            accuracies = tuple(c.accuracy(m) for c, m in pairs)
            spreads.append(MethodSpread(first.name, accuracies, tuple(differences)))
    return tuple(spreads)


def _compare(method: MethodSpread) -> str:
    """Returns by how much the prompt differs from a baseline, and with how many seeds clearly."""
    values = [100 * difference.value for difference in method.differences]
    clear = [difference.value for difference in method.differences if difference.is_clear]
    better, worse = sum(value > 0 for value in clear), sum(value < 0 for value in clear)
    least, most = signed(min(values), 1), signed(max(values), 1)
    counts = f"clearly better with {better} and clearly worse with {worse}"
    return (
        f"Compared with {NAMES[method.name][1]}: {signed(mean(values), 1)} points on average "
        f"(least {least}, most {most}), {counts} of {several(len(values), 'seed')}."
    )


def _mean(accuracies: Sequence[float]) -> str:
    return percent(mean(accuracies))


def _least_to_most(accuracies: Sequence[float]) -> str:
    return range_of_percent(min(accuracies), max(accuracies))
