"""The study of searches against plain loops over whole sentences and set functions made by hand."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from io import StringIO
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from rich.console import Console
from torch.nn.functional import normalize

from ipl.backbone.backbone import Backbone
from ipl.bench import search_study
from ipl.bench.planned_runs import Planned, plan_runs
from ipl.bench.recipe import BenchRecipe
from ipl.bench.run import Run
from ipl.bench.runner import RunEnvironment
from ipl.bench.search_study import (
    MarginalReturns,
    SearchDraw,
    SentenceGains,
    Submodularity,
    Words,
    beam_search,
    best_pair,
    marginal_returns,
    measure_submodularity,
    pair_gains,
    plot_searches,
    search_tables,
    search_to_csv,
    search_to_values,
    study_searches,
    submodularity_ratios,
    verdict,
)
from ipl.support.errors import ConfigError
from ipl.support.progress import Reporter
from ipl.words.greedy import greedy_search
from ipl.words.modes import Search
from ipl.words.objective import Objective
from ipl.words.scorer import SentenceScorer
from tests.helpers.reference_loss import NAMES, POOL, Images, plain_loss, prompts_with


def constructed(
    utility: Callable[[Words], float], size: int, lambda_: float = 0.0
) -> SentenceGains:
    """Returns the gains of words whose utility is known, all as similar to each other."""

    def score(selected: Sequence[str], candidates: Sequence[str]) -> torch.Tensor:
        start = [int(word) for word in selected]
        return torch.tensor([10 - utility((*start, int(word))) for word in candidates]).double()

    scorer = SimpleNamespace(loss=lambda words: 10.0 - utility(()), score=score)
    words = [str(index) for index in range(size)]
    same = torch.ones(size, 1)
    return SentenceGains(cast(SentenceScorer, scorer), words, Objective(lambda_), same)


# -- searches -------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["paper", "reference"])
def test_pairs_are_those_of_a_plain_loop(pocket: Backbone, few_images: Images, preset: str) -> None:
    objective = Objective(0.3, preset)
    scorer = SentenceScorer(pocket, NAMES, *few_images)
    embeddings = objective.embed_words(pocket, POOL.words)
    gains = SentenceGains(scorer, POOL.words, objective, embeddings)
    pairs = pair_gains(gains)
    without = plain_loss(pocket, few_images, [f"a photo of a {name}" for name in NAMES])
    e = normalize(pocket.encode_texts(list(POOL.words)), dim=-1)
    expected = np.full((len(POOL), len(POOL)), np.nan)
    for i, j in permutations(range(len(POOL)), 2):
        loss = plain_loss(pocket, few_images, prompts_with([POOL.words[i], POOL.words[j]]))
        expected[i, j] = without - loss - 0.3 * float(e[i] @ e[j])
    np.testing.assert_allclose(pairs, expected, atol=3e-4)
    assert best_pair(pairs) == divmod(int(np.nanargmax(expected)), len(POOL))
    # the third word's redundancy is the sum of two cosines, or their mean
    gains.compute((2, 5), [7])
    cosines = [float(e[7] @ e[2]), float(e[7] @ e[5])]
    third = sum(cosines) if preset == "paper" else sum(cosines) / 2
    assert gains.redundancy((2, 5, 7)) == pytest.approx(float(e[2] @ e[5]) + third, abs=1e-4)


@pytest.mark.parametrize("preset", ["paper", "reference"])
def test_a_beam_of_one_is_the_greedy_search(
    pocket: Backbone, few_images: Images, preset: str
) -> None:
    objective = Objective(0.3, preset)
    scorer = SentenceScorer(pocket, NAMES, *few_images)
    gains = SentenceGains(scorer, POOL.words, objective, objective.embed_words(pocket, POOL.words))
    found = beam_search(gains, 4, 1)
    selection = greedy_search(scorer, POOL, 4, objective, Search("exhaustive"))
    assert tuple(POOL.words[word] for word in found[-1]) == selection.words
    assert [len(words) for words in found] == [1, 2, 3, 4]
    total = sum(step.gain for step in selection.steps)
    assert gains.gain(found[-1]) == pytest.approx(total, abs=1e-4)
    widest = beam_search(gains, 2, len(POOL))[-1]  # every first word stays in the beam
    assert gains.gain(widest) >= gains.gain(found[1])


def test_a_beam_finds_what_greedy_search_misses() -> None:
    single: dict[Words, float] = {(0,): 3.0, (1,): 2.0, (2,): 1.0}
    gains = constructed(lambda words: 9.0 if words == (2, 1) else single.get(words[:1], 0.0), 4)
    assert beam_search(gains, 2, 1)[-1] == (0, 1)  # of words that add nothing, the first
    assert beam_search(gains, 2, 2)[-1] == (0, 1)
    assert beam_search(gains, 2, 3)[-1] == (2, 1) == best_pair(pair_gains(gains))


def test_a_beam_keeps_one_order_of_the_same_words() -> None:
    """Only (0, 2, 3) is good: a beam of two that kept (0, 1) and (1, 0) would miss it."""
    worth = {(0, 1): 5.0, (1, 0): 4.0, (0, 2): 3.0, (0, 2, 3): 9.0}
    gains = constructed(lambda words: worth.get(words, 2.0 - min(words, default=0)), 4)
    assert beam_search(gains, 3, 2)[-1] == (0, 2, 3)


# -- submodularity --------------------------------------------------------------------------------


def test_ratios_of_known_functions() -> None:
    weights = (0.5, 1.0, 2.0, 4.0)
    modular = submodularity_ratios(lambda words: sum(weights[w] for w in words), (0,), (1, 2, 3))
    assert modular == pytest.approx([1.0] * 4)  # three pairs and a triple
    growing = submodularity_ratios(lambda words: float(len(words) ** 2), (), range(4))
    assert growing == pytest.approx([0.5] * 6 + [1 / 3] * 4)
    later = submodularity_ratios(lambda words: float(len(words) ** 2), (0,), (1, 2), (2,))
    assert later == pytest.approx([6 / 8])
    shrinking = submodularity_ratios(lambda words: len(words) ** 0.5, (), range(4))
    assert min(shrinking) == pytest.approx(2 / 2**0.5)


def test_sets_that_gain_too_little_have_no_ratio_and_the_best_order_counts() -> None:
    worth = {(0,): 1.0, (1,): 1.0, (0, 1): 4.0, (1, 0): 0.5}

    def function(words: Words) -> float:
        return worth.get(words, 0.0)

    assert submodularity_ratios(function, (), (0, 1), (2,)) == [0.5]
    assert submodularity_ratios(function, (), (0, 1), (2,), threshold=4.0) == []
    assert submodularity_ratios(lambda words: -1.0 * len(words), (), (0, 1, 2)) == []


def test_returns_of_known_functions() -> None:
    assert marginal_returns(lambda words: float(len(words)), (), range(3)) == MarginalReturns(
        6, 0, 3, 0
    )
    growing = marginal_returns(lambda words: float(len(words) ** 2), (3,), range(3))
    assert growing == MarginalReturns(6, 6, 3, 0)
    falling = marginal_returns(lambda words: -float(len(words) ** 2), (), range(3))
    assert falling == MarginalReturns(6, 0, 3, 3)
    noisy = marginal_returns(lambda words: 1e-7 * len(words) ** 2, (), range(3), noise=1e-6)
    assert noisy.rising == 0
    assert growing + falling == MarginalReturns(12, 6, 6, 3)


def test_what_is_measured() -> None:
    """Utility 2 ** k doubles with every word; redundancy, 1 for each pair, outgrows it."""
    gains = constructed(lambda words: 2.0 ** len(words) - 1, 8, lambda_=0.5)
    pair_gains(gains)
    greedy = beam_search(gains, 3, 1)[-1]
    parts = measure_submodularity(gains, greedy, {0, 1, 2}, seed=1)
    assert [(part.function, part.after) for part in parts] == [
        ("gain", "no word"),
        ("gain", "words"),
        ("utility", "no word"),
        ("utility", "words"),
    ]
    gain, utility = parts[0], parts[2]
    triples = 7 * 6 * 5 // 6  # of three good words and four drawn ones
    assert len(utility.ratios) == 8 * 7 // 2 + triples
    assert sorted(set(utility.ratios)) == pytest.approx([3 / 7, 2 / 3])
    assert sorted(set(gain.ratios)) == pytest.approx([3 / 5.5, 2 / 2.5])
    assert utility.returns == MarginalReturns(56, 56, 8, 0)
    # after the words L the same function only begins later: the same ratios
    assert sorted(set(np.round(parts[3].ratios, 6))) == pytest.approx([3 / 7, 2 / 3], abs=1e-6)
    assert measure_submodularity(gains, greedy, {0, 1, 2}, seed=1) == parts
    without = constructed(lambda words: float(len(words)), 8)
    pair_gains(without)
    beam_search(without, 3, 1)
    alone = measure_submodularity(without, (0, 1, 2), {0, 1}, seed=1)
    assert {part.function for part in alone} == {"utility"}  # with lambda 0 it is the gain
    assert {round(ratio, 6) for part in alone for ratio in part.ratios} == {1.0}


# -- the study ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plan(
    root: Path, quick: Mapping[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Planned]:
    """Returns a maker of plans: plan(words=2)."""

    def make(pool: object = None, **more: object) -> Planned:
        settings = {**quick, "words": 2, "seeds": "1,2", **more}
        del settings["words_file"]
        recipe = BenchRecipe(settings=settings, vary=("pool", (pool or str(root / "words.txt"),)))
        return plan_runs(recipe, root, tmp_path_factory.mktemp("out"))

    return make


@pytest.fixture(scope="module")
def draws(plan: Callable[..., Planned], root: Path, one_thread: None) -> tuple[SearchDraw, ...]:
    """Returns a study that measures fewer sets than usual."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_study, "BASES", 1)
        patch.setattr(search_study, "DRAWN", 1)
        return study_searches(plan(), RunEnvironment(str(root), device="cpu"))


@pytest.fixture
def studied(monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """Returns the runs that are studied from now on, without anything being computed."""
    runs: list[Run] = []
    monkeypatch.setattr(search_study, "_study", lambda run, *rest: runs.append(run))
    return runs


def test_the_study_of_a_dataset(draws: tuple[SearchDraw, ...]) -> None:
    assert [(draw.dataset, draw.seed, draw.pool_size) for draw in draws] == [
        ("eurosat", 1, 6),
        ("eurosat", 2, 6),
    ]
    for draw in draws:
        assert [len(found.words) for found in draw.greedy] == [1, 2, 3, 4, 5, 6]
        assert [len(found.words) for found in draw.beam] == [1, 2]
        # a beam of eight on six words keeps every first word, so it scores every pair
        assert draw.beam[1] == draw.best_pair
        assert draw.best_pair.gain >= draw.greedy[1].gain
        assert draw.order_effect > 0
        share = draw.share(draw.greedy)
        assert share is None or share <= 1
    values = search_to_values(draws)
    assert values["draws"][0]["found_best_pair"]["beam"] is True
    (dataset,) = values["datasets"]
    parts = [draw["submodularity"][0]["sets"] for draw in values["draws"]]
    assert dataset["submodularity"][0]["sets"] == sum(parts)
    rows = list(csv.DictReader(StringIO(search_to_csv(draws))))
    assert len(rows) == 2 * (6 + 2 + 1)
    assert float(rows[1]["gain"]) == draws[0].greedy[1].gain
    gains, ratios = (table.to_markdown() for table in search_tables(draws))
    assert ", ".join(draws[0].greedy[1].words) in gains
    assert dataset["verdict"].split(" (")[0].split("%")[0] in gains
    assert "falling" in ratios


def test_the_plot(draws: tuple[SearchDraw, ...]) -> None:
    files = plot_searches(draws)
    assert files["png"].startswith(b"\x89PNG")
    assert plot_searches(draws)["svg"] == files["svg"]
    assert plot_searches([*draws, replace(draws[0], dataset="dtd")])["svg"] != files["svg"]


def test_the_verdict(draws: tuple[SearchDraw, ...]) -> None:
    draw = draws[0]
    first, best = replace(draw.greedy[1], gain=0.8), replace(draw.best_pair, gain=1.0)
    part = Submodularity("gain", "no word", (0.5, 2.0), MarginalReturns())
    missed = replace(
        draw,
        greedy=(draw.greedy[0], replace(first, words=("dark", "sand"))),
        beam=(draw.beam[0], replace(best, words=("stone", "wall"))),
        best_pair=replace(best, words=("wall", "stone")),
        order_effect=0.25,
        submodularity=(part,),
    )
    assert verdict([missed]) == (
        "eurosat: greedy search found the best pair in 0 of 1 draw, with at least 80 % of its "
        "gain; beam search in 0 of 1 draw (in 1 its words in the other order), with at least 100 % "
        "of its gain. Swapping two words changes their gain by 0.25 on average. The smallest ratio "
        "measured is 0.50; the guarantee of greedy search is at most 39 % of the best gain."
    )
    worse = replace(missed, submodularity=(replace(part, ratios=(-1.0, 2.0)),))
    assert verdict([missed, worse]).endswith("-1.00: submodularity guarantees nothing here.")
    useless = replace(missed, best_pair=replace(best, gain=-0.1))
    assert verdict([useless]) == "eurosat: no pair of words has a gain above 0."


def test_learners_do_not_matter_but_words_and_shots_do(
    plan: Callable[..., Planned], environment: RunEnvironment, studied: list[Run]
) -> None:
    study_searches(plan(learners="coop,kgcoop", words="0,2", seeds=1), environment)
    assert [run.words for run in studied] == [2]
    for more in ({"words": "2,3"}, {"shots": "1,2"}):
        with pytest.raises(ConfigError, match="takes one number of words and one of shots"):
            study_searches(plan(**more, epochs=4), environment)


@pytest.mark.parametrize("words", ["auto", 0, 1])
def test_a_number_of_words_that_cannot_be_studied(
    words: object, plan: Callable[..., Planned], environment: RunEnvironment
) -> None:
    with pytest.raises(ConfigError, match=f"words is {words}; .* needs a number from 2 to 6"):
        study_searches(plan(words=words, arms="words"), environment)


def test_pools_that_are_too_small_or_large(
    plan: Callable[..., Planned],
    environment: RunEnvironment,
    studied: list[Run],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    message = "The pool random-4 has 4 words; a study of 2 words needs 5 or more"
    with pytest.raises(ConfigError, match=message):
        study_searches(plan("random-4"), environment)
    monkeypatch.setattr(search_study, "MANY", 5)
    reporter = Reporter(quiet=True, console=Console(file=StringIO()))
    study_searches(plan(), environment, reporter)
    assert len(studied) == 2
    (warning,) = reporter.warnings  # once for both seeds
    assert "6 words have 30 ordered pairs, with 3 classes 90 prompts for each seed" in warning
