"""The study `ipl ablate search`: how close greedy search comes, and how submodular the gain is.

It trains nothing. On a pool that is small enough, every ordered pair of words is scored, so the
best pair is known and greedy search and beam search can be held against it
(`sentence_gains.py`). `submodularity.py` measures what the guarantee of greedy search assumes.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ipl.backbone.backbone import Backbone
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.labelled_features import encode_items
from ipl.bench.planned_runs import Planned
from ipl.bench.run import Run
from ipl.bench.runner import RunEnvironment, Runner
from ipl.bench.sentence_gains import SentenceGains, Words, beam_search, best_pair, pair_gains
from ipl.bench.submodularity import SMALL, Submodularity, measure_submodularity
from ipl.datasets.dataset import Dataset
from ipl.display.formatting import several
from ipl.display.plot_files import FILE_COLOURS, ErrorBarLine, Panel, plot_panels
from ipl.display.table import Table
from ipl.support.cache import Cache
from ipl.support.errors import ConfigError
from ipl.support.progress import SILENT, Reporter
from ipl.training.fit import read_pool, word_choice
from ipl.words.pool import Pool
from ipl.words.scorer import SentenceScorer, check_room

BEAM = 8  # sequences that beam search keeps
CURVE = 6  # greedy steps in the plot
MANY = 600  # words; a larger pool gets a warning with its cost


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
            f"The pool {name} has {several(len(pool), 'word')}; a study of {k} words needs {k + 3} "
            "or more."
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
    return f"{found} of {several(len(draws), 'draw')}{order}, with at least {least:g} % of its gain"


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
    many_pools = len({draw.pool for draw in draws}) > 1
    groups: dict[str, list[SearchDraw]] = {}
    for draw in draws:
        name = f"{draw.dataset}, {draw.pool}" if many_pools else draw.dataset
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
