"""The study of searches: what it computes, refuses, and says."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ipl.bench import search_study, submodularity
from ipl.bench.planned_runs import Planned, plan_runs
from ipl.bench.recipe import BenchRecipe
from ipl.bench.run import Run
from ipl.bench.runner import RunEnvironment
from ipl.bench.search_study import (
    SearchDraw,
    plot_searches,
    search_tables,
    search_to_csv,
    search_to_values,
    study_searches,
    verdict,
)
from ipl.bench.submodularity import MarginalReturns, Submodularity
from ipl.support.errors import ConfigError
from ipl.support.progress import Reporter


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
        patch.setattr(submodularity, "BASES", 1)
        patch.setattr(submodularity, "DRAWN", 1)
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


@pytest.mark.parametrize("words", ["auto", 1])
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
