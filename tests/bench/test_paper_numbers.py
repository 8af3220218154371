"""The paper's numbers are as printed where they follow from each other, else recomputed."""

from __future__ import annotations

from ipl.bench import paper_numbers as paper

HUNDREDTH = 0.011  # numbers were rounded before and after
THREE = {(name, words) for name in ("coop", "cocoop", "maple") for words in (False, True)}


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
