"""When the paper's number may stand beside ours, and how our setting differs if not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ipl.bench.tables.cells import AVERAGE, Cell
from ipl.bench.tables.paper import TARGETS
from tests.helpers.records import BUNDLED, paper_records, record
from tests.helpers.result_tables import result_table


def cell(tmp_path: Path, dataset: str = "oxford_pets", **change: Any) -> Cell:
    """Returns the cell of three seeds with the paper's settings but one."""
    of_backbone = change.pop("of_backbone", {})
    runs = [record(dataset, seed=seed, **change) for seed in (1, 2, 3)]
    for run in runs:
        run["backbone"] |= of_backbone
    return result_table(tmp_path, *runs).cells[0]


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
        ({"shots": 4}, "shots is 4, not 16"),
        ({"epochs": 20}, "epochs is 20, not 100"),
        ({"views": 8}, "views is 8, not fresh"),
        ({"words": 2}, "words is 2, not paper or 3"),
        ({"lambda_": 0.1}, "lambda is 0.1, not 0.2"),
        ({"pool": {**BUNDLED, "no_names": True}}, "pool is bundled without names, not bundled"),
        ({"class_template": "{}"}, "class_template is {}, not a photo of a {}, a type of pet."),
        ({"average_mean": 15.0}, "average_mean is 15.0, which the paper does not have"),
        ({"of_backbone": {"precision": "bf16"}}, "precision is bf16, not fp16 or fp32"),
        ({"of_backbone": {"weights_sha256": None}}, "the hash of the weights was not recorded"),
        (
            {"data": {"classes": {"base": 5, "novel": 5}, "test_images": {"base": 9, "novel": 9}}},
            "5 base classes, not 19; 5 novel classes, not 18; 18 test images, not 3,669",
        ),
        (
            {"data": {"classes": {"base": 19, "novel": 18}}},
            "the number of test images was not recorded",
        ),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_every_difference_is_said(change: dict[str, Any], reason: str, tmp_path: Path) -> None:
    other = cell(tmp_path, **change)
    assert "; ".join(other.differences) == reason
    assert not other.comparable
    assert other.paper is not None


@pytest.mark.parametrize(
    ("name", "on_hub", "place"),
    [
        ("models/CLIP-ViT-base-patch16/", False, "the folder models/CLIP-ViT-base-patch16/"),
        ("mine/clip-vit-base-patch16", True, "mine/clip-vit-base-patch16"),
    ],
)
def test_weights_under_another_name_are_not_taken_for_the_published_ones(
    name: str, on_hub: bool, place: str, tmp_path: Path
) -> None:
    other = cell(tmp_path, backbone=name, of_backbone={"on_hub": on_hub})
    assert other.differences == (
        f"the weights are those of {place}, and whether they are the published ones was not "
        "checked",
    )


def test_targets_are_the_papers_only_with_its_source(tmp_path: Path) -> None:
    def cells(source: str, targets: tuple[str, ...], classes: int | None = None) -> list[Cell]:
        accuracy = dict.fromkeys((source, *targets), 0.5)
        runs = [
            record(source, "maple", 2, seed, accuracy, "cross-dataset", lambda_=0.1)
            for seed in (1, 2, 3)
        ]
        for run in runs:
            run["data"]["classes"][source] = classes or run["data"]["classes"][source]
        return list(result_table(tmp_path / f"{source}{classes}", *runs).cells)

    whole = cells("imagenet", TARGETS)
    assert all(cell.comparable for cell in whole)
    assert [cell.paper for cell in whole if cell.dataset == "dtd"] == [{"accuracy": 45.73}]
    part = cells("imagenet", ("dtd",), 100)[1]
    assert part.dataset == "dtd"
    assert part.differences == ("100 classes of imagenet, not 1,000",)
    source = "the paper's source is imagenet, not eurosat"
    for other in cells("eurosat", ("dtd", "food101")):
        assert other.differences[0] == source
        assert other.differences.count(source) == 1


def test_other_seeds_and_other_sets(tmp_path: Path) -> None:
    (pets, _) = result_table(tmp_path / "a", record(seed=1), record(seed=7)).cells
    assert pets.differences == ("the seeds are 1, 7, not 1, 2, 3",)
    (one, _) = result_table(tmp_path / "one", record(seed=7)).cells
    assert one.differences == ("the seed is 7, not 1, 2, 3",)
    assert "the paper does not test on scenes" in cell(tmp_path / "b", "scenes").differences


def test_an_average_over_fewer_sets_is_not_the_papers(tmp_path: Path) -> None:
    runs = [run for run in paper_records() if run["dataset"] != "ucf101"]
    (average,) = result_table(tmp_path, *runs).of(AVERAGE)
    assert average.differences == ("10 of the paper's 11 datasets",)
    assert not average.comparable
