"""How submodular the gain of words is: submodularity ratios and marginal returns.

The gain of a set S after a sequence L is that of S in its best order, appended to L.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, permutations
from typing import Any

import numpy as np

from ipl.bench.sentence_gains import SentenceGains, Words
from ipl.support.progress import SILENT, Reporter

BASES = 3  # sequences L of each length, one and two words, that are drawn at random
DRAWN = 4  # words drawn at random that sets S are made of, beside those of the best sets found
SMALL = 0.01  # of the best pair's gain: sets that gain less have no ratio
NOISE = 1e-5  # differences of fp32 losses below this mean nothing

SetFunction = Callable[[Words], float]


def submodularity_ratios(
    function: SetFunction,
    base: Words,
    words: Collection[int],
    sizes: Sequence[int] = (2, 3),
    threshold: float = 0.0,
) -> list[float]:
    """Returns the submodularity ratio (Das and Kempe) of every set of `sizes` words after `base`.

    It is the sum of what the words gain one by one after the base, divided by what they gain
    together; at least 1 for a submodular function, exactly 1 for a modular one.

    Parameters
    ----------
    function : callable
        The function, of a sequence.
    base : tuple of int
        The sequence L.
    words : collection of int
        The words that sets S are made of, none of them in the base.
    sizes : sequence of int
        The numbers of words in a set.
    threshold : float
        Sets that gain no more than this have no ratio.
    """
    before = function(base)
    single = {word: function((*base, word)) - before for word in words}
    ratios = []
    for size in sizes:
        for chosen in combinations(words, size):
            together = max(function((*base, *order)) for order in permutations(chosen)) - before
            if together > threshold:
                ratios.append(sum(single[word] for word in chosen) / together)
    return ratios


@dataclass(frozen=True)
class MarginalReturns:
    """How often a word gains more after one more word, and how often it lowers the function."""

    compared: int = 0
    rising: int = 0  # contrary to submodularity
    added: int = 0
    falling: int = 0  # contrary to what the guarantee for greedy search assumes

    def __add__(self, other: MarginalReturns) -> MarginalReturns:
        values = zip(vars(self).values(), vars(other).values(), strict=True)
        return MarginalReturns(*(one + two for one, two in values))


def marginal_returns(
    function: SetFunction, base: Words, words: Collection[int], noise: float = 0.0
) -> MarginalReturns:
    """Compares what each word gains after `base` and after `base` and each other word."""
    before = function(base)
    single = {word: function((*base, word)) - before for word in words}
    falling = sum(gain < -noise for gain in single.values())
    rising = 0
    for first, second in permutations(words, 2):
        later = function((*base, first, second)) - function((*base, first))
        rising += later > single[second] + noise
    return MarginalReturns(len(words) * (len(words) - 1), rising, len(words), falling)


@dataclass(frozen=True)
class Submodularity:
    """The ratios of one function after certain sequences, and its marginal returns."""

    function: str  # gain or utility
    after: str  # no word, or words
    ratios: tuple[float, ...]
    returns: MarginalReturns

    @classmethod
    def pooled(cls, parts: Sequence[Submodularity]) -> Submodularity:
        """Returns several as one."""
        ratios = tuple(ratio for part in parts for ratio in part.ratios)
        returns = sum((part.returns for part in parts), MarginalReturns())
        return cls(parts[0].function, parts[0].after, ratios, returns)

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values; the ratios by their minimum, 5th percentile and median."""
        summary = {"min": None, "percentile_5": None, "median": None}
        if self.ratios:
            numbers = np.percentile(self.ratios, (0, 5, 50)).tolist()
            summary = dict(zip(summary, numbers, strict=True))
        values = {"function": self.function, "after": self.after, **summary}
        return {**values, "sets": len(self.ratios), **asdict(self.returns)}


def measure_submodularity(
    gains: SentenceGains,
    greedy: Words,
    best: Iterable[int],
    seed: int,
    reporter: Reporter = SILENT,
    title: str = "Submodularity",
) -> tuple[Submodularity, ...]:
    """Measures the gain, and the utility alone, after no word and after some.

    After no word, all pairs are measured. After no word, after each start of the greedy sequence
    and after sequences drawn at random, all pairs and triples of a few words are measured: those of
    the best sets found, because the guarantee of greedy search is about these, and others drawn at
    random.

    Parameters
    ----------
    gains : SentenceGains
        The gains, with those of all pairs computed.
    greedy : tuple of int
        The sequence of greedy search.
    best : iterable of int
        The words of the best sets found.
    seed : int
        Draws the random sequences and words.
    reporter : Reporter
        Gets the progress, under a title.
    """
    generator, pool = random.Random(seed), range(len(gains.words))
    bases = [(), *(greedy[:length] for length in range(1, len(greedy)))]
    bases += [tuple(generator.sample(pool, size)) for size in (1, 2) for _ in range(BASES)]
    probes: dict[Words, list[int]] = {}
    with reporter.task(title, len(bases)) as advance:
        for base in bases:
            known = {*best} - {*base}
            others = [word for word in pool if word not in known and word not in base]
            words = sorted([*known, *generator.sample(others, min(DRAWN, len(others)))])
            for start in ((), *permutations(words, 1), *permutations(words, 2)):
                gains.compute((*base, *start), words)
            probes[base] = words
            advance()
    functions = {"gain": gains.gain, "utility": gains.utility}
    if not gains.objective.lambda_:
        del functions["gain"]
    measured = []
    for name, function in functions.items():
        threshold = max(NOISE, SMALL * max(function(pair) for pair in permutations(pool, 2)))
        ratios = submodularity_ratios(function, (), pool, (2,), threshold)
        ratios += submodularity_ratios(function, (), probes[()], (3,), threshold)
        returns = marginal_returns(function, (), pool, NOISE)
        measured.append(Submodularity(name, "no word", tuple(ratios), returns))
        ratios, returns = [], MarginalReturns()
        for base, words in probes.items():
            if base:
                ratios += submodularity_ratios(function, base, words, (2, 3), threshold)
                returns += marginal_returns(function, base, words, NOISE)
        measured.append(Submodularity(name, "words", tuple(ratios), returns))
    return tuple(measured)
