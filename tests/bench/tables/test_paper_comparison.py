"""When the paper's number may stand beside ours, and how our setting differs if not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ipl.bench.paper_numbers import AVERAGE, BACKBONE
from ipl.bench.tables.results import Cell
from tests.helpers.records import paper_records, record
from tests.helpers.result_tables import result_of


def cell(tmp_path: Path, dataset: str = "oxford_pets", **change: Any) -> Cell:
    """Returns the cell of three seeds with the paper's settings but one."""
    of_backbone = change.pop("of_backbone", {})
    runs = [record(dataset, seed=seed, **change) for seed in (1, 2, 3)]
    for run in runs:
        run["backbone"] |= of_backbone
    return result_of(tmp_path, *runs).of(dataset)[0]


def test_the_papers_settings_need_no_reason(tmp_path: Path) -> None:
    for words in (0, 3, "paper"):
        assert cell(tmp_path / str(words), words=words).differences == ()
    plain = cell(tmp_path / "imagenet", "imagenet", words=0, epochs=50)
    assert plain.differences == ()
    assert cell(tmp_path / "all", search="exhaustive").differences == ()
    assert cell(tmp_path / "half", of_backbone={"precision": "fp16"}).differences == ()
    assert cell(tmp_path / "hub", of_backbone={"on_hub": True}).differences == ()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"backbone": "pocket"}, "the backbone is pocket, not CLIP ViT-B/16"),
        ({"of_backbone": {"on_hub": False}}, f"the backbone is {BACKBONE}, not CLIP ViT-B/16"),
        ({"shots": 4}, "shots is 4, not 16"),
        ({"epochs": 20}, "epochs is 20, not 100"),
        ({"views": 8}, "views is 8, not fresh"),
        ({"words": 2}, "words is 2, not paper or 3"),
        ({"lambda_": 0.1}, "lambda is 0.1, not 0.2"),
        ({"pool": "bundled, no-names"}, "pool is bundled, no-names, not bundled"),
        ({"class_template": "{}"}, "class_template is {}, not a photo of a {}, a type of pet."),
        ({"average_mean": 15.0}, "average_mean is 15, which the paper does not have"),
        ({"learner": "promptsrc", "average_mean": 6.5}, "average_mean is 6.5, not 15"),
        ({"of_backbone": {"precision": "bf16"}}, "precision is bf16, not fp16 or fp32"),
        (
            {"data": {"classes": {"base": 5, "novel": 5}, "test_images": {"base": 9, "novel": 9}}},
            "10 classes, not 37; 18 test images, not 3,669",
        ),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_every_difference_is_said(change: dict[str, Any], reason: str, tmp_path: Path) -> None:
    other = cell(tmp_path, **change)
    assert "; ".join(other.differences) == reason
    assert not other.paper_beside
    assert other.paper is not None


def test_other_seeds_and_other_sets(tmp_path: Path) -> None:
    (pets,) = result_of(tmp_path / "a", record(seed=1), record(seed=7)).of("oxford_pets")
    assert pets.differences == ("the seeds are 1, 7, not 1, 2, 3",)
    (one,) = result_of(tmp_path / "one", record(seed=7)).of("oxford_pets")
    assert one.differences == ("the seed is 7, not 1, 2, 3",)
    assert "the paper does not test on scenes" in cell(tmp_path / "b", "scenes").differences


def test_an_average_over_fewer_sets_is_not_the_papers(tmp_path: Path) -> None:
    runs = [run for run in paper_records() if run["dataset"] != "ucf101"]
    (average,) = result_of(tmp_path, *runs).of(AVERAGE)
    assert average.differences == ("10 of the paper's 11 datasets",)
    assert not average.paper_beside
