"""When the paper's number may stand beside ours, why not, and what words bring."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recorded import BUNDLED, SENTENCE, paper_records, record, write_records

from ipl.bench.records import read_records
from ipl.bench.tables.cells import AVERAGE, Cell
from ipl.bench.tables.result_table import ResultTable, build_tables


def table(tmp_path: Path, *records: dict[str, Any]) -> ResultTable:
    (found,) = build_tables(read_records([write_records(tmp_path, *records)])[0])
    return found


def entry(tmp_path: Path, dataset: str = "oxford_pets", **change: Any) -> Cell:
    """Returns the entry of three seeds with the paper's settings but one."""
    runs = [record(dataset, seed=seed, **change) for seed in (1, 2, 3)]
    return table(tmp_path, *runs).entries[0]


def test_the_papers_settings_need_no_reason(tmp_path: Path) -> None:
    for words in (0, 3, "auto"):
        assert entry(tmp_path / str(words), words=words).differs == ()
    plain = entry(tmp_path / "imagenet", "imagenet", words=0, epochs=50)
    assert plain.differs == ()
    assert entry(tmp_path / "folder", backbone="models/CLIP-ViT-base-patch16/").differs == ()
    assert entry(tmp_path / "all", search="exhaustive").differs == ()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"backbone": "pocket"}, "the backbone is pocket, not CLIP ViT-B/16"),
        ({"shots": 4}, "shots is 4, not 16"),
        ({"epochs": 20}, "epochs is 20, not 100"),
        ({"interval": 5}, "interval is 5, not 10"),
        ({"lr": 0.01}, "lr is 0.01, not 0.002"),
        ({"views": 8}, "views is 8, not fresh"),
        ({"words": 2}, "words is 2, not auto or 3"),
        ({"lambda_": 0.1}, "lambda is 0.1, not 0.2"),
        ({"preset": "reference"}, "preset is reference, not paper"),
        (
            {"template": "{cls}: {words}"},
            f"template is {{cls}}: {{words}}, not {SENTENCE}",
        ),
        ({"search": "lazy"}, "search is lazy, which is approximate"),
        (
            {"pool": {**BUNDLED, "no_names": True}},
            "the pool of words is bundled without names, not the bundled one",
        ),
        (
            {"data": {"classes": {"base": 5, "novel": 5}, "test_images": {"base": 9, "novel": 9}}},
            "5 base classes, not 19; 5 novel classes, not 18; 18 test images, not 3,669",
        ),
        (
            {"data": {"classes": {"base": 19, "novel": 18}}},
            "the number of test images was not recorded",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_every_difference_is_said(change: dict[str, Any], reason: str, tmp_path: Path) -> None:
    found = entry(tmp_path, **change)
    assert "; ".join(found.differs) == reason
    assert not found.comparable
    assert found.paper is not None


def test_without_words_their_settings_are_no_difference(tmp_path: Path) -> None:
    assert entry(tmp_path, words=0, lambda_=0.9, search="lazy", interval=3).differs == ()


def test_other_seeds_and_other_sets(tmp_path: Path) -> None:
    (found, _) = table(tmp_path / "a", record(seed=1), record(seed=7)).entries
    assert found.differs == ("the seeds are 1, 7, not 1, 2, 3",)
    assert "the paper does not test on scenes" in entry(tmp_path / "b", "scenes").differs


def test_an_average_over_fewer_sets_is_not_the_papers(tmp_path: Path) -> None:
    runs = [run for run in paper_records() if run["dataset"] != "ucf101"]
    (average,) = table(tmp_path, *runs).of(AVERAGE)
    assert average.differs == ("10 of the paper's 11 datasets",)
    assert not average.comparable


def test_gains_are_over_pairs(tmp_path: Path) -> None:
    runs = []
    for dataset in ("eurosat", "oxford_pets"):
        for seed in (1, 2, 3):
            with_words = {"base": 0.8, "novel": 0.6 + 0.01 * seed}
            runs.append(record(dataset, seed=seed, accuracy=with_words))
            runs.append(record(dataset, words=0, seed=seed, accuracy={"base": 0.8, "novel": 0.6}))
    del runs[1]  # a run without its counterpart is no pair
    (gain,) = table(tmp_path, *runs).gains
    assert (gain.arm.label, gain.over.label) == ("CoOp + IPL", "CoOp")
    assert {measure: test.pairs for measure, test in gain.tests.items()} == {
        "base": 5,
        "novel": 5,
        "hm": 5,
    }
    assert gain.tests["base"].difference == 0
    assert gain.tests["base"].p == 1
    assert gain.tests["novel"].difference == pytest.approx((2 + 3 + 1 + 2 + 3) / 5)
    assert gain.tests["novel"].p == pytest.approx(2 / 32)
    assert gain.differs == ()


def test_a_gain_says_what_else_differs(tmp_path: Path) -> None:
    (gain,) = table(tmp_path, record(words=0), record(views=8)).gains
    assert gain.differs == ("views",)


def test_rows_are_paired_with_their_own_kind(tmp_path: Path) -> None:
    runs = [record(words=words, shots=shots) for words in (0, "auto") for shots in (4, 16)]
    gains = table(tmp_path, *runs, record(learner="maple", words=0)).gains
    assert [(gain.arm.label, gain.over.label) for gain in gains] == [
        ("CoOp + IPL (shots 4)", "CoOp (shots 4)"),
        ("CoOp + IPL (shots 16)", "CoOp (shots 16)"),
    ]
