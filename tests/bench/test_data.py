"""What `all` stands for, and what is refused because its images are not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ipl.bench.data import check_data, find_datasets
from ipl.bench.plan import Plan
from ipl.bench.run import expand
from ipl.support.errors import ConfigError, DataError
from tests.helpers.records import record_of, write_records


def plan(**values: Any) -> Plan:
    small = {"protocol": "base-to-novel", "datasets": "all", "seeds": 1, "shots": 1}
    return Plan.from_values({**small, **values})


def test_all_are_those_that_are_complete(root: Path) -> None:
    discovery = find_datasets(plan(), root)
    assert set(discovery.plan.datasets) == {"eurosat", "dtd"}
    assert len(discovery.notes) == 9  # of eleven published sets
    assert all(note.endswith("It is left out.") for note in discovery.notes)
    assert find_datasets(plan(datasets="dtd,all"), root).plan.datasets[0] == "dtd"


def check(root: Path, **values: Any) -> None:
    found = find_datasets(plan(**values), root)
    check_data(expand(found.plan), root, found.paths, root / "out")


def test_named_datasets_that_are_not_there_are_refused(root: Path) -> None:
    with pytest.raises(DataError, match="has no folder of sun397 and food101; `ipl data check`"):
        check(root, datasets="dtd,sun397,food101")
    with pytest.raises(DataError, match="has no folder of imagenet; `ipl data check`"):
        check(root, protocol="cross-dataset", datasets="dtd")
    with pytest.raises(DataError, match=r"pacs/photos: no folder .*; available domains: night"):
        check(root, protocol="domain", source="pacs/photos", datasets="all")
    with pytest.raises(DataError, match="eurosat has the class 'beach', which dtd does not have"):
        check(root, protocol="domain", source="dtd", datasets="eurosat")
    check(root, datasets="dtd,eurosat,scenes", seeds="1,2,3")


def test_data_of_finished_runs_may_be_gone(root: Path, tmp_path: Path) -> None:
    runs = expand(plan(datasets="sun397", arms="zero-shot,plain"))
    records = [record_of(run, {"base": 0.5, "novel": 0.5}) for run in runs]
    write_records(tmp_path, *records)
    check_data(runs, root, {}, tmp_path)
    write_records(tmp_path, {**records[1], "status": "failed", "error": "no reason"})
    with pytest.raises(DataError, match="has no folder of sun397"):
        check_data(runs, root, {}, tmp_path)


def test_shots_that_are_not_there_are_refused(own_root: Path) -> None:
    for name in ("dtd/images/canyon", "eurosat/2750/castle"):
        (own_root / name / "0.png").unlink()
    both = {"datasets": "dtd,eurosat", "arms": "plain"}
    check(own_root, **both, seeds=4)  # draws the other image
    check(own_root, **{**both, "arms": "zero-shot"})  # draws none
    message = (
        r"^dtd: 1 of the 2 training images that 1 shot and seed 1 draw are missing, first: "
        r"\S+/canyon/0.png; eurosat: 1 of the 3 .*\. All images exist with --seeds 4\.$"
    )
    with pytest.raises(DataError, match=message):
        check(own_root, **both, seeds="4,1")
    with pytest.raises(DataError, match=r"2 shots and seed 4 draw .*exist with --shots 1\.$"):
        check(own_root, **both, seeds=4, shots=2)
    with pytest.raises(DataError, match=r"`ipl data check` counts what is missing\.$"):
        check(own_root, **both)


@pytest.mark.parametrize("index", [0, 2])
def test_a_missing_shot_or_test_image_is_named(own_root: Path, index: int) -> None:
    for image in (own_root / "dtd/images/island").glob(f"[{index}{index + 1}].png"):
        image.rename(own_root / f"moved-{image.name}")
    discovery = find_datasets(plan(), own_root)
    assert discovery.plan.datasets == ("eurosat",)
    (note,) = (note for note in discovery.notes if "dtd" in note)
    assert "island" in note
    assert "missing" in note


def test_all_stands_for_nothing(own_root: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"exist: there is no folder of imagenet, .* and ucf101\.$"):
        find_datasets(plan(), tmp_path)
    for name in ("dtd/images/bridge", "eurosat/2750/lake"):
        (own_root / name / "2.png").unlink()
    with pytest.raises(DataError, match=r"dtd and eurosat are missing \(dtd \(test\): 1 of 8 "):
        find_datasets(plan(), own_root)
    with pytest.raises(DataError, match="no dataset that it could stand for"):
        find_datasets(plan(protocol="domain", source="pacs/photo"), tmp_path)
    with pytest.raises(ConfigError, match="data is '.*'; there is no such folder"):
        find_datasets(plan(), tmp_path / "nowhere")


def test_all_targets_of_a_source(root: Path) -> None:
    discovery = find_datasets(plan(protocol="cross-dataset", source="dtd"), root)
    assert discovery.plan.datasets == ("eurosat",)
    discovery = find_datasets(plan(protocol="domain", source="pacs/photo"), root)
    assert discovery.plan.datasets == ("pacs/night", "pacs/sketch")
