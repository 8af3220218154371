"""One fit with several seeds: how much its accuracies differ, and which words come back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import mean
from typing import Any

from ipl.display.formatting import listed, percent, range_of_percent, several, signed
from ipl.display.table import Styled, Table
from ipl.metrics import PairedDifference
from ipl.training.comparison import BASELINES, NAMES, NO_IMAGES, WORDLESS
from ipl.training.result import FitResult

ABOUT_SEEDS = (
    "Each seed starts the vectors anew and, with --shots, draws other images to train on. Clearly: "
    "the 95 % interval over the held-out images excludes 0."
)


@dataclass(frozen=True)
class MethodSpread:
    """The accuracies of what was learnt or of a baseline, one for each seed.

    `differences` are those of what was learnt minus it; what was learnt has none.
    """

    name: str
    accuracies: tuple[float, ...]
    differences: tuple[PairedDifference, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "accuracies": list(self.accuracies),
            "mean": mean(self.accuracies),
            "least": min(self.accuracies),
            "most": max(self.accuracies),
            "learnt_minus_this": [asdict(each) for each in self.differences],
        }


@dataclass(frozen=True)
class SeedSpread:
    """The results of one fit with several seeds."""

    seeds: tuple[int, ...]
    # What every seed was compared with, and what was learnt; empty if one had no held-out image.
    methods: tuple[MethodSpread, ...]
    words: tuple[tuple[str, ...], ...]  # that a search chose with each seed, if one did
    recommendations: tuple[str, ...] = ()  # that follow from the numbers of each seed

    @classmethod
    def of(cls, results: Sequence[FitResult]) -> SeedSpread:
        """The spread of fits that differ in their seeds alone."""
        seeds = tuple(result.config.seed for result in results)
        searched = all(result.selection is not None for result in results)
        words = tuple(result.words for result in results) if searched else ()
        comparisons = [result.comparison for result in results if result.comparison is not None]
        recommendations = tuple(comparison.recommendation for comparison in comparisons)
        return cls(seeds, _method_spreads(results), words, recommendations)

    @property
    def stable_words(self) -> dict[str, tuple[int, ...]]:
        """The words that two or more seeds chose, and these seeds; those of most seeds first."""
        chosen_by: dict[str, list[int]] = {}
        for seed, words in zip(self.seeds, self.words, strict=bool(self.words)):
            for word in dict.fromkeys(words):
                chosen_by.setdefault(word, []).append(seed)
        ordered = sorted(chosen_by.items(), key=lambda entry: -len(entry[1]))
        return {word: tuple(seeds) for word, seeds in ordered if len(seeds) > 1}

    @property
    def verdict(self) -> tuple[str, ...]:
        """The accuracy over the seeds, a sentence on each baseline, and what most seeds say."""
        if not self.methods:
            return (NO_IMAGES,)
        *others, learnt = self.methods
        by_name = {method.name: method for method in others}
        least, most = 100 * min(learnt.accuracies), 100 * max(learnt.accuracies)
        sentence = (
            f"Over {len(self.seeds)} seeds {NAMES[learnt.name][0]} is right for "
            f"{percent(mean(learnt.accuracies))} of the held-out images on average (least "
            f"{least:.1f}, most {most:.1f})."
        )
        order = (*BASELINES, *WORDLESS)
        compared = [_compare(by_name[name]) for name in order if name in by_name]
        most_common = Counter(self.recommendations).most_common(1)
        recommended = [
            text.replace(":", f" with {count} of {len(self.seeds)} seeds:", 1)
            for text, count in most_common
        ]
        return (sentence, *compared, *recommended)

    @property
    def about_words(self) -> str:
        """Which words came back with other seeds."""
        if not self.words:
            return ""
        if not any(self.words):
            return "No word earned its place with any seed."
        of = f"of {len(self.seeds)} seeds"
        stable = [f"{word} ({len(seeds)} {of})" for word, seeds in self.stable_words.items()]
        if not stable:
            return "No word was chosen with more than one seed."
        return f"Stable words: {listed(stable)}."

    def table(self) -> Table:
        """A row for each seed, their mean and their range."""
        titles = [NAMES[method.name][0] for method in self.methods]
        rows: list[list[str]] = []
        for index, seed in enumerate(self.seeds):
            row = [str(seed), *(percent(method.accuracies[index]) for method in self.methods)]
            rows.append([*row, ", ".join(self.words[index])] if self.words else row)
        if self.methods:
            every = [method.accuracies for method in self.methods]
            means = ["mean", *(percent(mean(accuracies)) for accuracies in every)]
            ranges = ["least to most", *(range_of_percent(min(a), max(a)) for a in every)]
            for row in (means, ranges):
                rows.append([Styled(cell, "bold") for cell in row + [""] * bool(self.words)])
        columns = ["seed", *titles, *(["words"] if self.words else [])]
        caption = "Held-out accuracy with each seed" if self.methods else "The words of each seed"
        return Table(columns, rows, caption=caption, numbers=titles)

    def as_dict(self) -> dict[str, Any]:
        """The spread as plain values for JSON."""
        stable = [{"word": word, "seeds": [*seeds]} for word, seeds in self.stable_words.items()]
        return {
            "seeds": list(self.seeds),
            "verdict": list(self.verdict),
            "methods": [method.as_dict() for method in self.methods],
            "stable_words": stable,
        }


def _method_spreads(results: Sequence[FitResult]) -> tuple[MethodSpread, ...]:
    comparisons = [result.comparison for result in results if result.comparison is not None]
    if len(comparisons) < len(results):
        return ()
    spreads = []
    for first in comparisons[0].methods:
        methods = [comparison.of(first.name) for comparison in comparisons]
        pairs = [(c, m) for c, m in zip(comparisons, methods, strict=True) if m is not None]
        if len(pairs) == len(results):  # with --words auto a seed may have no words to leave out
            learnt = first is comparisons[0].learnt
            differences = [] if learnt else [c.difference(m) for c, m in pairs]
            accuracies = tuple(c.accuracy(m) for c, m in pairs)
            spreads.append(MethodSpread(first.name, accuracies, tuple(differences)))
    return tuple(spreads)


def _compare(method: MethodSpread) -> str:
    """By how much the prompt differs from a baseline, and with how many seeds clearly."""
    values = [100 * difference.value for difference in method.differences]
    better = sum(difference.low > 0 for difference in method.differences)
    worse = sum(difference.high < 0 for difference in method.differences)
    least, most = signed(min(values), 1), signed(max(values), 1)
    return (
        f"Compared with {NAMES[method.name][1]}: {signed(mean(values), 1)} points on average "
        f"(least {least}, most {most}), clearly better with {better} and clearly worse with "
        f"{worse} of {several(len(values), 'seed')}."
    )
