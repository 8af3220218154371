"""When the paper's number may stand beside ours, and how our setting differs if not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ipl.bench.tables.cells import AVERAGE, Cell
from tests.helpers.records import BUNDLED, SENTENCE, paper_records, record
from tests.helpers.result_tables import result_table


def cell(tmp_path: Path, dataset: str = "oxford_pets", **change: Any) -> Cell:
    """Returns the cell of three seeds with the paper's settings but one."""
    runs = [record(dataset, seed=seed, **change) for seed in (1, 2, 3)]
    return result_table(tmp_path, *runs).cells[0]


def test_the_papers_settings_need_no_reason(tmp_path: Path) -> None:
    for words in (0, 3, "auto"):
        assert cell(tmp_path / str(words), words=words).differences == ()
    plain = cell(tmp_path / "imagenet", "imagenet", words=0, epochs=50)
    assert plain.differences == ()
    assert cell(tmp_path / "folder", backbone="models/CLIP-ViT-base-patch16/").differences == ()
    assert cell(tmp_path / "all", search="exhaustive").differences == ()


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
    other = cell(tmp_path, **change)
    assert "; ".join(other.differences) == reason
    assert not other.comparable
    assert other.paper is not None


def test_without_words_their_settings_are_no_difference(tmp_path: Path) -> None:
    assert cell(tmp_path, words=0, lambda_=0.9, search="lazy", interval=3).differences == ()


def test_other_seeds_and_other_sets(tmp_path: Path) -> None:
    (pets, _) = result_table(tmp_path / "a", record(seed=1), record(seed=7)).cells
    assert pets.differences == ("the seeds are 1, 7, not 1, 2, 3",)
    assert "the paper does not test on scenes" in cell(tmp_path / "b", "scenes").differences


def test_an_average_over_fewer_sets_is_not_the_papers(tmp_path: Path) -> None:
    runs = [run for run in paper_records() if run["dataset"] != "ucf101"]
    (average,) = result_table(tmp_path, *runs).of(AVERAGE)
    assert average.differences == ("10 of the paper's 11 datasets",)
    assert not average.comparable
