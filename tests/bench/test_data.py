"""What `all` stands for, and what is refused because its images are not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ipl.bench.data import check_data, find_datasets
from ipl.bench.plan import Plan
from ipl.support.errors import ConfigError, DataError
from tests.helpers.records import record_of, write_records


def plan(**values: Any) -> Plan:
    small = {"protocol": "base-to-novel", "datasets": "all", "seeds": 1, "shots": 1}
    return Plan.from_values({**small, **values})


def test_all_are_those_that_are_complete(root: Path) -> None:
    found, notes, _ = find_datasets(plan(), root)
    assert set(found.datasets) == {"eurosat", "dtd"}
    assert len(notes) == 9  # of eleven published sets
    assert find_datasets(plan(datasets="dtd,all"), root)[0].datasets[0] == "dtd"


def check(root: Path, **values: Any) -> None:
    found, _, paths = find_datasets(plan(**values), root)
    check_data(found.runs(), root, paths, root / "out")


def test_named_datasets_that_are_not_there_are_refused(root: Path) -> None:
    with pytest.raises(DataError, match="sun397: no folder .*; the data is available from"):
        check(root, datasets="dtd,sun397,food101")
    with pytest.raises(DataError, match="imagenet: no folder"):
        check(root, protocol="cross-dataset", datasets="dtd")
    with pytest.raises(DataError, match=r"pacs/photos: no folder .*; available domains: night"):
        check(root, protocol="domain", source="pacs/photos", datasets="all")
    with pytest.raises(DataError, match="eurosat has the class 'beach', which dtd does not have"):
        check(root, protocol="domain", source="dtd", datasets="eurosat")
    check(root, datasets="dtd,eurosat,scenes", seeds="1,2,3")


def test_data_of_finished_runs_may_be_gone(root: Path, tmp_path: Path) -> None:
    runs = plan(datasets="sun397", arms="zero-shot,plain").runs()
    records = [record_of(run, {"base": 0.5, "novel": 0.5}) for run in runs]
    write_records(tmp_path, *records)
    check_data(runs, root, {}, tmp_path)
    write_records(tmp_path, {**records[1], "status": "failed", "error": "no reason"})
    with pytest.raises(DataError, match="sun397: no folder"):
        check_data(runs, root, {}, tmp_path)


def test_shots_that_are_not_there_are_refused(own_root: Path) -> None:
    (own_root / "eurosat/2750/castle/0.png").unlink()
    check(own_root, datasets="dtd,eurosat", arms="plain", seeds=4)  # draws the other image
    check(own_root, datasets="dtd,eurosat", arms="zero-shot")  # draws none
    with pytest.raises(DataError, match=r"eurosat \(training, 1 shot, seed 1\): 1 of 3 images"):
        check(own_root, datasets="dtd,eurosat", arms="plain", seeds="4,1")


def test_all_stands_for_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no dataset whose test images and shots exist"):
        find_datasets(plan(), tmp_path)
    with pytest.raises(ConfigError, match="data is '.*'; there is no such folder"):
        find_datasets(plan(), tmp_path / "nowhere")


def test_all_targets_of_a_source(root: Path) -> None:
    crossed = find_datasets(plan(protocol="cross-dataset", source="dtd"), root)[0]
    assert crossed.datasets == ("eurosat",)
    domain = find_datasets(plan(protocol="domain", source="pacs/photo"), root)[0]
    assert domain.datasets == ("pacs/night", "pacs/sketch")
