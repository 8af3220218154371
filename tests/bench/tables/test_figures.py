"""Figures of a bench: drawn where the records have the numbers, and only there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ipl.bench.tables import figures
from ipl.bench.tables.figures import (
    draw_figures,
    plot_gains,
    plot_returns,
    plot_setting,
    returns_table,
)
from ipl.display.plots import Panel
from tests.helpers.records import record, search
from tests.helpers.result_tables import result_table, result_tables


@pytest.fixture
def panels(monkeypatch: pytest.MonkeyPatch) -> list[Panel]:
    """Returns a list that takes the panels in place of a plot."""
    drawn: list[Panel] = []

    def plot(given: list[Panel], *names: str) -> dict[str, bytes]:
        drawn.extend(given)
        return {}

    monkeypatch.setattr(figures, "plot_panels", plot)
    return drawn


def _few_shot(dataset: str, learner: str, words: int, shots: int, *accuracies: float) -> list[Any]:
    return [
        record(dataset, learner, words, seed, {dataset: accuracy}, "few-shot", shots=shots)
        for seed, accuracy in enumerate(accuracies, 1)
    ]


def test_a_learning_curve_for_each_method_and_dataset(tmp_path: Path, panels: list[Panel]) -> None:
    runs = [record("dtd", "zero-shot", 0, 1, {"dtd": 0.4}, "few-shot")]
    runs += [record("eurosat", "zero-shot", 0, 1, {"eurosat": 0.2}, "few-shot")]
    for dataset in ("dtd", "eurosat"):
        for shots, accuracy in ((1, 0.5), (4, 0.7)):
            runs += _few_shot(dataset, "coop", 0, shots, accuracy, accuracy + 0.02)
    runs += _few_shot("dtd", "coop", 2, 4, 0.75)
    assert plot_setting(result_table(tmp_path, *runs), "shots") is not None
    assert [panel.title for panel in panels] == ["dtd", "eurosat", "average of 2 datasets"]
    assert panels[0].x_ticks == ((0.0, "1"), (2.0, "4"))
    zero_shot, plain, words = panels[0].lines
    assert (zero_shot.label, zero_shot.has_dots) == ("zero-shot CLIP", False)
    assert [(x, round(y, 6)) for x, y, _ in zero_shot.points] == [(0.0, 40.0), (2.0, 40.0)]
    assert (plain.label, plain.pattern) == ("CoOp", "dashed")
    assert [(x, round(y, 6)) for x, y, _ in plain.points] == [(0.0, 51.0), (2.0, 71.0)]
    assert plain.points[0][2] == pytest.approx(2**0.5)
    assert (words.label, words.points) == ("CoOp + IPL", ((2.0, 75.0, 0.0),))


def test_no_curve_over_one_value(tmp_path: Path) -> None:
    table = result_table(tmp_path, record(words=3))
    assert draw_figures([table]) == []
    # A number of words that the data decides is no point.
    table = result_table(tmp_path / "paper", record(words=0), record(words="paper"))
    assert plot_setting(table, "words") is None


def test_words_and_interval_have_a_panel_for_each_measure(
    tmp_path: Path, panels: list[Panel]
) -> None:
    runs = [record(words=0)]
    runs += [
        record(words=k, interval=t, accuracy={"base": 0.5 + k / 10, "novel": 0.5 + t / 100})
        for k in (1, 2)
        for t in (5, 10)
    ]
    table = result_table(tmp_path, *runs)
    plot_setting(table, "words")
    assert [panel.title for panel in panels] == ["base classes", "novel classes", "harmonic mean"]
    lines = {line.label: line for line in panels[0].lines}
    assert set(lines) == {"CoOp", "CoOp + IPL (t 5)", "CoOp + IPL (t 10)"}
    assert lines["CoOp"].points == ((0.0, 80.0, 0.0),)
    assert [(x, y) for x, y, _ in lines["CoOp + IPL (t 5)"].points] == [(1.0, 60.0), (2.0, 70.0)]
    panels.clear()
    plot_setting(table, "interval")
    lines = {line.label: line for line in panels[1].lines}
    assert set(lines) == {"CoOp", "CoOp + IPL (words 1)", "CoOp + IPL (words 2)"}
    assert not lines["CoOp"].has_dots  # a learner without words has no interval
    assert [y for _, y, _ in lines["CoOp + IPL (words 2)"].points] == pytest.approx([55, 60])


def _searched(dataset: str, seed: int, gains: tuple[float, ...], **more: Any) -> dict[str, Any]:
    found = search(tuple(1.0 for _ in gains), gains=gains)
    made = record(dataset, more.pop("learner", "coop"), len(gains), seed, **more)
    return made | {"selection": found}


def test_returns_are_means_over_seeds_of_the_longest_searches(
    tmp_path: Path, panels: list[Panel]
) -> None:
    table = result_table(
        tmp_path,
        _searched("dtd", 1, (1.0, 0.2)),
        _searched("dtd", 1, (1.0,), learner="kgcoop"),  # the same search, cut short
        _searched("dtd", 2, (2.0, 0.4)),
        _searched("dtd", 3, (3.0,)),
        _searched("oxford_pets", 1, (0.5, -0.1)),
    )
    assert plot_returns(table) is not None
    pets, dtd = panels  # as in the paper's tables
    assert (pets.title, dtd.title) == ("oxford_pets", "dtd")
    gain, utility = dtd.lines
    assert gain.points[0] == (1.0, pytest.approx(2.0), pytest.approx(1.0))
    assert gain.points[1][:2] == (2.0, pytest.approx(0.3))
    assert utility.points[1][1] == pytest.approx(0.4)  # 0.1 of penalty
    rows = returns_table(table).rows
    assert rows[0] == ("oxford_pets", "1", "+0.5000", "+0.5000", "1")
    assert rows[3] == ("", "2", "+0.3000", "+0.4000", "2")


def test_searches_with_different_settings_are_not_mixed(
    tmp_path: Path, panels: list[Panel]
) -> None:
    table = result_table(
        tmp_path,
        _searched("dtd", 1, (9.0,), shots=1),
        _searched("dtd", 1, (1.0,), shots=4),
        _searched("dtd", 1, (2.0,), shots=16),
        _searched("dtd", 2, (3.0,), shots=4),
    )
    plot_returns(table)
    assert [panel.title for panel in panels] == ["dtd, 4 shots"]  # most seeds
    assert panels[0].lines[0].points[0][1] == 2.0


def test_comparisons_of_few_runs_are_marked(tmp_path: Path) -> None:
    files = plot_gains(result_table(tmp_path, record(words=0), record(words=3)))
    assert files is not None
    texts = re.findall(r"<!-- (.*?) -->", files["svg"].decode())
    assert "everything (plain → words), too few runs" in texts


def test_drawings_have_names_sections_and_descriptions(tmp_path: Path) -> None:
    runs = [run for shots in (1, 2) for run in _few_shot("dtd", "coop", 0, shots, 0.5)]
    (drawing,) = draw_figures(result_tables(tmp_path, *runs))
    assert (drawing.name, drawing.section) == ("shots-few-shot", "Few-shot over all classes")
    assert set(drawing.files) == {"svg", "png"}
