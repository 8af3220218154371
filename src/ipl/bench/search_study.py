"""The study `ipl ablate search`: how close greedy search comes, and how submodular the gain is.

It trains nothing. On a pool that is small enough, every ordered pair of words is scored, so the
best pair is known and greedy search and beam search can be held against it. All losses are
computed in full; no word is ruled out by a bound.

The scoring sentence is a sequence, so the order of its words matters. The gain of a sequence is the
sum of the gains of its words, each after the words before it, as greedy search counts them. The
gain of a set S after a sequence L is that of S in its best order, appended to L.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, permutations
from typing import Any

import numpy as np
from torch import Tensor

from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.labelled_features import encode_items
from ipl.bench.planned_runs import Planned
from ipl.bench.run import Run
from ipl.bench.runner import RunEnvironment, Runner
from ipl.datasets.dataset import Dataset
from ipl.display.plot_files import FILE_COLOURS, ErrorBarLine, Panel, plot_panels
from ipl.display.table import Table
from ipl.support.cache import Cache
from ipl.support.errors import ConfigError
from ipl.support.progress import SILENT, Reporter
from ipl.training.fit import read_pool, word_choice
from ipl.words.objective import Objective
from ipl.words.pool import Pool
from ipl.words.scorer import SentenceScorer, check_room

BEAM = 8  # sequences that beam search keeps
CURVE = 6  # greedy steps in the plot
BASES = 3  # sequences L of one word, and of two, that are drawn at random
DRAWN = 4  # words drawn at random that sets S are made of, beside those of the best sets found
SMALL = 0.01  # of the best pair's gain: sets that gain less have no ratio
NOISE = 1e-5  # differences of fp32 losses below this mean nothing
MANY = 600  # words; a larger pool gets a warning with its cost

Array = np.ndarray[Any, Any]
Words = tuple[int, ...]  # indices of words of the pool, in the order of the sentence
SetFunction = Callable[[Words], float]


# -- gains of sequences ---------------------------------------------------------------------------


class SentenceGains:
    """Utility, redundancy and gain of sequences of words, each computed once.

    Parameters
    ----------
    scorer : SentenceScorer
        Computes the losses.
    words : sequence of str
        The pool; sequences are tuples of its indices.
    objective : Objective
        The gain.
    embeddings : Tensor of shape (words, dim)
        What redundancy compares.
    """

    def __init__(
        self,
        scorer: SentenceScorer,
        words: Sequence[str],
        objective: Objective,
        embeddings: Tensor,
    ) -> None:
        self.scorer, self.words = scorer, tuple(words)
        self.objective, self.embeddings = objective, embeddings
        self.loss_without_words = scorer.loss([])
        self._after: dict[Words, tuple[Array, Array]] = {}  # utility and redundancy, (words,) each

    def compute(self, start: Words, following: Iterable[int] | None = None) -> None:
        """Scores `start` with each following word, all of the pool by default."""
        if start not in self._after:
            step = self.objective.redundancy(self.embeddings, start).cpu().double().numpy()
            unknown = np.full(len(self.words), np.nan)
            self._after[start] = unknown, self.redundancy(start) + step
        utility, _ = self._after[start]
        wanted = range(len(self.words)) if following is None else following
        new = [word for word in wanted if word not in start and np.isnan(utility[word])]
        if new:
            before, candidates = ([self.words[word] for word in part] for part in (start, new))
            losses = self.scorer.score(before, candidates).cpu().numpy()
            utility[new] = self.loss_without_words - losses

    def utility(self, words: Words) -> float:
        """Returns the fall of the loss; it must have been computed, as what follows."""
        return float(self._after[words[:-1]][0][words[-1]]) if words else 0.0

    def redundancy(self, words: Words) -> float:
        """Returns the redundancy of each word with those before it, summed."""
        return float(self._after[words[:-1]][1][words[-1]]) if words else 0.0

    def gain(self, words: Words) -> float:
        """Returns the gain."""
        return self.objective.gain(self.utility(words), self.redundancy(words))

    def gains_after(self, start: Words) -> Array:
        """Returns the gain of `start` with each word (words,), NaN where it was not computed."""
        return self.objective.gain(*self._after[start])


def beam_search(gains: SentenceGains, k: int, width: int) -> tuple[Words, ...]:
    """Returns the best sequences of 1, 2, ..., k words that a beam finds.

    Of sequences with the same words only the best stays in the beam. Width 1 is greedy search.
    """
    beam: list[Words] = [()]
    best = []
    for _ in range(k):
        found: list[tuple[float, Words]] = []
        for start in beam:
            gains.compute(start)
            after = gains.gains_after(start)
            # The pool is sorted and the sort is stable: equal gains are in alphabetical order.
            for word in np.argsort(-after, kind="stable")[:width].tolist():
                if np.isfinite(after[word]):
                    found.append((float(after[word]), (*start, word)))
        found.sort(key=lambda entry: -entry[0])
        distinct: dict[frozenset[int], Words] = {}
        for _, words in found:
            distinct.setdefault(frozenset(words), words)
        beam = list(distinct.values())[:width]
        best.append(beam[0])
    return tuple(best)


def pair_gains(gains: SentenceGains, advance: Callable[..., None] | None = None) -> Array:
    """Returns the gain of every ordered pair (first, second), NaN on the diagonal."""
    gains.compute(())
    rows = []
    for first in range(len(gains.words)):
        gains.compute((first,))
        rows.append(gains.gains_after((first,)))
        if advance is not None:
            advance()
    return np.stack(rows)


def best_pair(pairs: Array) -> Words:
    """Returns the ordered pair with the highest gain."""
    first, second = divmod(int(np.nanargmax(pairs)), len(pairs))
    return first, second


# -- submodularity --------------------------------------------------------------------------------


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
    """How often a word gains more after one word more, and how often it lowers the function."""

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


# -- the study ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ScoredWords:
    """Words in the order of the sentence, and what they are worth together."""

    words: tuple[str, ...]
    utility: float
    redundancy: float
    gain: float

    @classmethod
    def of(cls, gains: SentenceGains, words: Words) -> ScoredWords:
        """Returns a sequence whose gain has been computed."""
        texts = tuple(gains.words[word] for word in words)
        return cls(texts, gains.utility(words), gains.redundancy(words), gains.gain(words))


@dataclass(frozen=True)
class SearchDraw:
    """The searches for the shots of one seed.

    Attributes
    ----------
    dataset, pool : str
        The dataset, and the name of the pool.
    pool_size, seed, shots, k : int
        The words of the pool, the seed and the shots that it drew, and the words to choose.
    backbone : str
        The name of the backbone.
    greedy : tuple of ScoredWords
        What greedy search has after 1, 2, ... words; some steps more than k for the plot.
    beam : tuple of ScoredWords
        The best of beam search with 1, 2, ..., k words.
    best_pair : ScoredWords
        The best of all ordered pairs.
    order_effect : float
        How much the gain of a pair changes when its words are swapped, on average over all pairs.
    submodularity : tuple of Submodularity
        The ratios that were measured.
    seconds : float
        How long it took.
    """

    dataset: str
    pool: str
    pool_size: int
    seed: int
    shots: int
    k: int
    backbone: str
    greedy: tuple[ScoredWords, ...]
    beam: tuple[ScoredWords, ...]
    best_pair: ScoredWords
    order_effect: float
    submodularity: tuple[Submodularity, ...]
    seconds: float

    def found_words(self, search: Sequence[ScoredWords]) -> bool:
        """Returns whether a search has the words of the best pair, in any order."""
        return set(search[1].words) == set(self.best_pair.words)

    def found_pair(self, search: Sequence[ScoredWords]) -> bool:
        """Returns whether a search has the words of the best pair in their order."""
        return search[1].words == self.best_pair.words

    def share(self, search: Sequence[ScoredWords]) -> float | None:
        """Returns a search's share of the best pair's gain, None if that is not above 0."""
        best = self.best_pair.gain
        return search[1].gain / best if best > 0 else None

    def as_dict(self) -> dict[str, Any]:
        """Returns everything as plain values for JSON."""
        searches = {"greedy": self.greedy, "beam": self.beam}
        return {
            **asdict(self),
            "submodularity": [part.as_dict() for part in self.submodularity],
            "found_best_pair": {name: self.found_pair(s) for name, s in searches.items()},
            "found_its_words": {name: self.found_words(s) for name, s in searches.items()},
            "share_of_best_pair": {name: self.share(s) for name, s in searches.items()},
            "short_of_best_pair": {
                name: self.best_pair.gain - s[1].gain for name, s in searches.items()
            },
        }


def study_searches(
    planned: Planned, environment: RunEnvironment, reporter: Reporter = SILENT
) -> tuple[SearchDraw, ...]:
    """Compares searches on the shots of each dataset and seed, for each pool.

    Parameters
    ----------
    planned : Planned
        Runs with words, one for each dataset and seed, at a level for each pool. What they say of
        training does not matter.
    environment : RunEnvironment
        Where the data is, and how to compute.
    reporter : Reporter
        Gets the progress and the warnings.

    Raises
    ------
    ConfigError, DataError
        If a setting or the data cannot be used.
    """
    levels = [(level.label, run) for level, runs in planned.levels for run in _one_each(runs)]
    runner = Runner(environment, reporter)
    tasks = [runner.task(run) for _, run in levels]  # before anything is computed
    draws, warned = [], set()
    for (label, run), task in zip(levels, tasks, strict=True):
        training, backbone = task.training, runner.backbone(run)
        pool = read_pool(run.config, backbone, reporter) or Pool.bundled()
        pool = pool.for_tokenizer(backbone.tokenizer)
        check_pool(label, pool, int(run.words))
        if len(pool) > MANY and (label, run.dataset) not in warned:
            warned.add((label, run.dataset))
            reporter.warn(f"{run.dataset}: {cost_of(len(pool), len(training.class_names))}")
        draws.append(_study(run, label, pool, training, backbone, environment, reporter))
    return tuple(draws)


def _one_each(runs: Sequence[Run]) -> list[Run]:
    """Returns one run with a search for each dataset and seed; its learner is no matter."""
    chosen: dict[tuple[str, int], Run] = {}
    for run in [run for run in runs if run.searches] or runs:
        other = chosen.setdefault((run.dataset, run.seed), run)
        if (run.words, run.shots) != (other.words, other.shots):
            raise ConfigError(
                "The study of searches takes one number of words and one of shots; give one each."
            )
    for run in chosen.values():
        if not isinstance(run.words, int) or not 2 <= run.words <= CURVE:
            raise ConfigError(
                f"words is {run.words}; the study of searches needs a number from 2 to {CURVE}."
            )
    return list(chosen.values())


def check_pool(name: str, pool: Pool, k: int) -> None:
    """Raises ConfigError if a pool is too small for sets of three words after k - 1 others."""
    if len(pool) < k + 3:
        raise ConfigError(
            f"The pool {name} has {len(pool)} words; a study of {k} words needs {k + 3} or more."
        )


def cost_of(words: int, classes: int) -> str:
    """Returns a sentence on how much there is to compute for each seed."""
    pairs = words * (words - 1)
    return (
        f"{words:,} words have {pairs:,} ordered pairs, with {classes:,} classes "
        f"{pairs * classes:,} prompts for each seed; --value random-150 takes a smaller pool."
    )


def _study(
    run: Run,
    label: str,
    pool: Pool,
    training: Dataset,
    backbone: Backbone,
    environment: RunEnvironment,
    reporter: Reporter,
) -> SearchDraw:
    started = time.perf_counter()
    choice, k = word_choice(run.config, pool), int(run.words)
    steps = min(CURVE, len(pool))
    # The longest sentences: greedy search's for the plot, and three words after k - 1 others.
    check_room(choice.template, backbone, training.class_names, max(steps, k + 2))
    store = FeatureStore(backbone, Cache(reporter=reporter) if environment.cache else None)
    images = encode_items(training.train, "training", store, strict=True, reporter=reporter)
    scorer = SentenceScorer(
        backbone,
        training.class_names,
        images.features,
        images.labels,
        choice.template,
        memory=environment.memory,
    )
    embeddings = choice.objective.embed_words(backbone, pool.words)
    gains = SentenceGains(scorer, pool.words, choice.objective, embeddings)
    title = f"{run.dataset}, seed {run.seed}"
    with reporter.task(f"{title}: pairs that begin with a word", len(pool)) as advance:
        pairs = pair_gains(gains, advance)
    pair = best_pair(pairs)
    greedy, beam = beam_search(gains, max(k, steps), 1), beam_search(gains, k, BEAM)
    best = max(greedy[k - 1], beam[-1], key=gains.gain)
    submodularity = measure_submodularity(
        gains, greedy[k - 1], {*best, *pair}, run.seed, reporter, f"{title}: submodularity"
    )
    return SearchDraw(
        run.dataset,
        label,
        len(pool),
        run.seed,
        run.shots,
        k,
        run.backbone,
        tuple(ScoredWords.of(gains, words) for words in greedy),
        tuple(ScoredWords.of(gains, words) for words in beam),
        ScoredWords.of(gains, pair),
        float(np.nanmean(abs(pairs - pairs.T))),
        submodularity,
        time.perf_counter() - started,
    )


# -- tables, values and the plot ------------------------------------------------------------------


def search_tables(draws: Sequence[SearchDraw]) -> list[Table]:
    """Returns the gains of the searches with a verdict per dataset, and the measured ratios."""
    return [_gains_table(draws), _ratio_table(draws)]


def _gains_table(draws: Sequence[SearchDraw]) -> Table:
    pair, numbers = "every pair", ["k", "greedy", f"beam of {BEAM}"]
    columns = ["dataset", "seed", *numbers, pair, "greedy / best", "greedy's words", "best found"]
    table = Table(
        columns,
        title="Greedy search against beam search and every pair of words",
        caption=f"Gain of k words, {_settings(draws)}",
        numbers=[*columns[1:-2]],
    )
    for name, group in _groups(draws).items():
        rows: list[list[str]] = []
        for draw in group:
            for k in range(1, draw.k + 1):
                greedy, beam = draw.greedy[k - 1], draw.beam[k - 1]
                searches = [greedy, beam, *([draw.best_pair] if k == 2 else [])]
                best = max(searches, key=lambda found: found.gain)
                share = draw.share(draw.greedy) if k == 2 else None
                rows.append(
                    [
                        "" if rows else name,
                        str(draw.seed) if k == 1 else "",
                        str(k),
                        *(f"{found.gain:.4f}" for found in (greedy, beam)),
                        f"{draw.best_pair.gain:.4f}" if k == 2 else "",
                        "" if share is None else f"{100 * share:.1f} %",
                        ", ".join(greedy.words),
                        "the same" if best.words == greedy.words else ", ".join(best.words),
                    ]
                )
        table.add_section(rows)
    table.notes += [verdict(group) for group in _groups(draws).values()]
    return table


def _ratio_table(draws: Sequence[SearchDraw]) -> Table:
    numbers = ["min", "5 %", "median", "sets", "rising", "falling"]
    table = Table(
        ["dataset", "function", "after", *numbers],
        title="Submodularity ratios that were measured",
        caption=f"Over all seeds, {_settings(draws)}",
        numbers=numbers,
    )
    for name, group in _groups(draws).items():
        rows: list[list[str]] = []
        for part in _pooled(group):
            values = part.as_dict()
            ratios = (values[key] for key in ("min", "percentile_5", "median"))
            returns = part.returns
            rows.append(
                [
                    "" if rows else name,
                    part.function,
                    part.after,
                    *("" if ratio is None else f"{ratio:.2f}" for ratio in ratios),
                    f"{len(part.ratios):,}",
                    f"{100 * returns.rising / returns.compared:.1f} %",
                    f"{100 * returns.falling / returns.added:.1f} %",
                ]
            )
        table.add_section(rows)
    table.notes += [
        "A ratio: what the words of a set gain one by one after a sequence, divided by what they "
        "gain together in their best order. Sets have two or three words; those that gain less "
        f"than {100 * SMALL:g} % of the best pair are left out. Utility is the gain with lambda 0.",
        "A submodular function has no ratio below 1. The true submodularity ratio is the minimum "
        "over all sets, so it is at most the smallest one measured.",
        "rising: words that gain more after one word more, which submodularity excludes. falling: "
        "words that lower the function, which the guarantee of greedy search (1 - exp(-ratio) of "
        "the best) excludes.",
    ]
    return table


def verdict(draws: Sequence[SearchDraw]) -> str:
    """Returns in a few sentences what was found on one dataset."""
    name = next(iter(_groups(draws)))
    if all(draw.best_pair.gain <= 0 for draw in draws):
        return f"{name}: no pair of words has a gain above 0."
    function = draws[0].submodularity[0].function
    ratios = [r for part in _pooled(draws) if part.function == function for r in part.ratios]
    swapped = statistics.mean(draw.order_effect for draw in draws)
    return (
        f"{name}: greedy search found the best pair in {_reached(draws, 'greedy')}; beam search in "
        f"{_reached(draws, 'beam')}. Swapping two words changes their gain by {swapped:.2g} on "
        f"average.{_guarantee(ratios)}"
    )


def _reached(draws: Sequence[SearchDraw], name: str) -> str:
    """Returns how often a search found the best pair, and how much of its gain it has at least."""
    searches = [(draw, getattr(draw, name)) for draw in draws]
    found = sum(draw.found_pair(search) for draw, search in searches)
    swapped = sum(draw.found_words(search) for draw, search in searches) - found
    order = f" (in {swapped} its words in the other order)" if swapped else ""
    shares = [share for share in (draw.share(s) for draw, s in searches) if share is not None]
    least = math.floor(1000 * min(shares)) / 10  # rounded down, so that "at least" is true
    draws_text = "1 draw" if len(draws) == 1 else f"{len(draws)} draws"
    return f"{found} of {draws_text}{order}, with at least {least:g} % of its gain"


def _guarantee(ratios: Sequence[float]) -> str:
    """Returns a sentence on what the smallest ratio is worth, if there is one."""
    if not ratios:
        return ""
    smallest = f" The smallest ratio measured is {min(ratios):.2f}"
    if min(ratios) <= 0:
        return f"{smallest}: submodularity guarantees nothing here."
    share = 100 * -math.expm1(-min(ratios))
    return f"{smallest}; the guarantee of greedy search is at most {share:.0f} % of the best gain."


def search_to_csv(draws: Sequence[SearchDraw]) -> str:
    """Returns one line per dataset, pool, seed, search and number of words, in full precision."""
    columns = ["dataset", "pool", "pool_size", "seed", "search", "k", "utility", "redundancy"]
    table = Table([*columns, "gain", "words"])
    for draw in draws:
        searches = {"greedy": draw.greedy, "beam": draw.beam, "pairs": (draw.best_pair,)}
        start = (draw.dataset, draw.pool, str(draw.pool_size), str(draw.seed))
        table.add_section(
            [*start, name, str(len(found.words)), *map(str, _numbers(found)), " ".join(found.words)]
            for name, search in searches.items()
            for found in search
        )
    return table.to_csv()


def _numbers(found: ScoredWords) -> tuple[float, float, float]:
    return found.utility, found.redundancy, found.gain


def search_to_values(draws: Sequence[SearchDraw]) -> dict[str, Any]:
    """Returns everything as plain values: each draw, and each dataset over its draws."""
    return {
        "ablation": "search",
        "beam_width": BEAM,
        "datasets": [
            {
                "dataset": group[0].dataset,
                "pool": group[0].pool,
                "verdict": verdict(group),
                "submodularity": [part.as_dict() for part in _pooled(group)],
            }
            for group in _groups(draws).values()
        ],
        "draws": [draw.as_dict() for draw in draws],
    }


def plot_searches(draws: Sequence[SearchDraw]) -> dict[str, bytes]:
    """Returns the plot of greedy search's steps, utility and gain of each, as SVG and PNG files."""
    panels = []
    for title in ("utility", "gain"):
        lines = []
        for index, (name, group) in enumerate(_groups(draws).items()):
            points = []
            for step in range(min(len(draw.greedy) for draw in group)):
                values = [_step_value(draw.greedy, step, title) for draw in group]
                deviation = statistics.stdev(values) if len(values) > 1 else 0.0
                points.append((step + 1.0, statistics.mean(values), deviation))
            pattern = "dashed" if index // len(FILE_COLOURS) % 2 else "solid"
            lines.append(ErrorBarLine(name, tuple(points), index, pattern))
        ticks = tuple((float(k), str(k)) for k in range(1, CURVE + 1))
        panels.append(Panel(f"{title} of each word", tuple(lines), ticks))
    seeds = max(len(group) for group in _groups(draws).values())
    statistic = "1 seed" if seeds == 1 else f"mean and standard deviation of {seeds} seeds"
    names = list(_groups(draws))
    data = names[0] if len(names) == 1 else f"{len(names)} datasets"
    return plot_panels(
        panels,
        f"Diminishing returns of greedy search, {data}, {_settings(draws)}: {statistic}",
        "words chosen, k",
        "cross-entropy",
    )


def _step_value(search: Sequence[ScoredWords], step: int, name: str) -> float:
    before = getattr(search[step - 1], name) if step else 0.0
    return float(getattr(search[step], name) - before)


def _groups(draws: Sequence[SearchDraw]) -> dict[str, list[SearchDraw]]:
    """Returns the draws of each dataset, by dataset and pool where there are several pools."""
    several = len({draw.pool for draw in draws}) > 1
    groups: dict[str, list[SearchDraw]] = {}
    for draw in draws:
        name = f"{draw.dataset}, {draw.pool}" if several else draw.dataset
        groups.setdefault(name, []).append(draw)
    return groups


def _pooled(draws: Sequence[SearchDraw]) -> list[Submodularity]:
    parts = zip(*(draw.submodularity for draw in draws), strict=True)
    return [Submodularity.pooled(same) for same in parts]


def _settings(draws: Sequence[SearchDraw]) -> str:
    """Returns what all draws share: the backbone, the shots and the pool."""
    parts = []
    for name, text in (
        ("backbone", "{}"),
        ("shots", "{} shots"),
        ("pool_size", "pool of {} words"),
    ):
        values = {getattr(draw, name) for draw in draws}
        if len(values) == 1:
            parts.append(text.format(*values))
    return ", ".join(parts)
