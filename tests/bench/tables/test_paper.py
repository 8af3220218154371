"""The paper's numbers agree with each other as far as they can be recomputed."""

from __future__ import annotations

from statistics import mean

import pytest

from ipl.bench import paper_numbers as paper
from ipl.metrics import harmonic_mean

HUNDREDTH = 0.011  # numbers were rounded before and after
FIVE = ("coop", "cocoop", "kgcoop", "maple", "promptsrc")
ROWS = [(name, words) for name in FIVE for words in (False, True)]
THREE = {(name, words) for name in ("coop", "cocoop", "maple") for words in (False, True)}


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_every_cell_is_there_and_hm_follows_from_base_and_novel(row: tuple[str, bool]) -> None:
    cells = paper.base_to_novel()[row]
    assert set(cells) == {*paper.ELEVEN, "average"}
    for values in cells.values():
        hm = harmonic_mean(values["base"], values["novel"])
        assert values["hm"] == pytest.approx(hm, abs=HUNDREDTH)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_averages_come_from_the_sets(row: tuple[str, bool]) -> None:
    cells = paper.base_to_novel()[row]
    for measure in ("base", "novel"):
        average = mean(cells[name][measure] for name in paper.ELEVEN)
        assert cells["average"][measure] == pytest.approx(average, abs=0.015)


def test_numbers_are_as_printed_unless_they_do_not_follow() -> None:
    recomputed = 0
    for line in paper.rows("base_to_novel"):
        learner = line["method"].removesuffix(" + IPL").lower()
        hm = paper.base_to_novel()[learner, "IPL" in line["method"]][line["dataset"]]["hm"]
        printed, correct = float(line["hm_printed"]), float(line["hm_recomputed"])
        follows = abs(printed - correct) < HUNDREDTH
        assert hm == (printed if follows else correct)
        recomputed += not follows
    assert recomputed == 13
    assert paper.base_to_novel()["cocoop", True]["average"]["hm"] == 77.02
    assert paper.base_to_novel()["promptsrc", False]["stanford_cars"]["hm"] == 76.58


def test_across_datasets_averages_are_over_the_ten_targets() -> None:
    assert set(paper.cross_dataset()) == THREE
    for line in paper.rows("cross_dataset"):
        learner = line["method"].removesuffix(" + IPL").lower()
        values = paper.cross_dataset()[learner, "IPL" in line["method"]]
        assert set(values) == {*paper.ELEVEN, "average"}
        assert values["average"] == {"accuracy": float(line["average_of_ten_recomputed"])}
        assert values["eurosat"] == {"accuracy": float(line["eurosat"])}
