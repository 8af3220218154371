"""Figures of a bench: drawn where the records have the numbers, and only there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ipl.bench.tables import figures
from ipl.bench.tables.figures import plot_overhead, plot_returns, plot_setting
from ipl.bench.tables.words_table import find_word_searches
from ipl.display.plots import Panel
from tests.helpers.records import record, search
from tests.helpers.result_tables import result_of


@pytest.fixture
def panels(monkeypatch: pytest.MonkeyPatch) -> list[Panel]:
    """A list that takes the panels in place of a plot."""
    drawn: list[Panel] = []

    def plot(given: list[Panel], *names: str) -> dict[str, bytes]:
        drawn.extend(given)
        return {}

    monkeypatch.setattr(figures, "plot_panels", plot)
    return drawn


def _few_shot(dataset: str, words: int, shots: int, *accuracies: float) -> list[Any]:
    return [
        record(dataset, "coop", words, seed, {dataset: accuracy}, "few-shot", shots=shots)
        for seed, accuracy in enumerate(accuracies, 1)
    ]


def test_accuracy_over_shots(tmp_path: Path, panels: list[Panel]) -> None:
    runs = [
        record(name, "zero-shot", 0, 1, {name: value}, "few-shot")
        for name, value in (("dtd", 0.4), ("eurosat", 0.2))
    ]
    for dataset in ("dtd", "eurosat"):
        for shots, accuracy in ((1, 0.5), (4, 0.7)):
            runs += _few_shot(dataset, 0, shots, accuracy, accuracy + 0.02)
    runs += _few_shot("dtd", 2, 4, 0.75)
    assert plot_setting(result_of(tmp_path, *runs), "shots") is not None
    assert [panel.title for panel in panels] == ["dtd", "eurosat", "average of 2 datasets"]
    assert panels[0].x_ticks == ((0.0, "1"), (2.0, "4"))
    zero_shot, plain, words = panels[0].lines
    assert zero_shot.label == "zero-shot CLIP"
    assert [(x, round(y, 6)) for x, y, _ in zero_shot.points] == [(0.0, 40.0), (2.0, 40.0)]
    assert (plain.label, plain.pattern) == ("CoOp", "dashed")
    assert [(x, round(y, 6)) for x, y, _ in plain.points] == [(0.0, 51.0), (2.0, 71.0)]
    assert plain.points[0][2] == pytest.approx(2**0.5)
    assert (words.label, words.points) == ("CoOp + IPL", ((2.0, 75.0, 0.0),))


def test_no_curve_over_one_value(tmp_path: Path) -> None:
    assert plot_setting(result_of(tmp_path / "one", record(words=3)), "words") is None
    # A number of words that the data decides is no point.
    result = result_of(tmp_path / "paper", record(words=0), record(words="paper"))
    assert plot_setting(result, "words") is None


def test_marginal_gains_are_means_over_datasets_of_means_over_seeds(
    tmp_path: Path, panels: list[Panel]
) -> None:
    def searched(dataset: str, seed: int, gains: tuple[float, ...]) -> dict[str, Any]:
        found = search(tuple(1.0 for _ in gains), gains=gains)
        made = record(dataset, words=len(gains), seed=seed)
        return made | {"selection": found, "chosen": [f"word{n}" for n in range(len(gains))]}

    result = result_of(
        tmp_path,
        searched("dtd", 1, (1.0, 0.2)),
        searched("dtd", 2, (2.0, 0.4)),
        searched("oxford_pets", 1, (0.5,)),
    )
    assert plot_returns(find_word_searches(result.runs)) is not None
    (panel,) = panels
    gain, utility = panel.lines
    assert gain.points[0] == (1.0, pytest.approx(1.0), pytest.approx(0.5**0.5))
    assert gain.points[1] == (2.0, pytest.approx(0.3), 0.0)  # pets have one word
    assert utility.points[1][1] == pytest.approx(0.4)  # 0.1 of penalty


def test_overhead_is_of_training_alone_and_a_mean_over_rows(
    tmp_path: Path, panels: list[Panel]
) -> None:
    def costly(words: int, seed: int, training: float, fit: float, **more: Any) -> dict[str, Any]:
        made = record("dtd", words=words, seed=seed, **more)
        costs = {"seconds": {"fit": fit, "test": 1.0}, "device": "cpu", "peak_memory": 2 * 10**9}
        return made | costs | {"history": {"epochs": [], "seconds": training}}

    result = result_of(
        tmp_path,
        costly(0, 1, 9.0, 10.0),
        costly(0, 2, 11.0, 12.0),
        costly(2, 1, 14.0, 300.0),  # with a search
        costly(2, 2, 16.0, 17.0),  # with words from the cache
        costly(3, 1, 21.0, 22.0),
    )
    assert plot_overhead(result) is not None
    time, memory = panels
    assert time.x_ticks == ((0.0, "CoOp"),)
    plain, words = time.lines
    assert plain.points == ((0.0, 10.0, 0.0),)
    assert words.points == ((0.0, (15.0 + 21.0) / 2, 0.0),)
    assert memory.lines[0].points == ((0.0, 2.0, 0.0),)
