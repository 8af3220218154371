"""What `all` stands for: datasets whose images are there, by protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ipl.bench.data import find_datasets
from ipl.bench.plan import Plan
from ipl.support.errors import ConfigError, DataError


def plan(**values: Any) -> Plan:
    small = {"protocol": "base-to-novel", "datasets": "all", "seeds": 1, "shots": 1}
    return Plan.from_values({**small, **values})


def test_all_are_those_that_are_complete(root: Path) -> None:
    discovery = find_datasets(plan(), root)
    assert set(discovery.plan.datasets) == {"eurosat", "dtd"}
    assert len(discovery.notes) == 9  # of eleven published sets
    assert all(note.endswith("It is left out.") for note in discovery.notes)
    assert find_datasets(plan(datasets="dtd,all"), root).plan.datasets[0] == "dtd"


def test_names_are_taken_as_they_are(root: Path) -> None:
    named = plan(datasets="sun397,scenes")
    discovery = find_datasets(named, root)
    assert discovery.plan == named  # a run will say what is missing
    (note,) = discovery.notes
    assert "has no folder of sun397, so their runs will fail" in note
    (note,) = find_datasets(plan(datasets="dtd,sun397,food101"), root).notes
    assert "has no folder of sun397 and food101, so their runs will fail" in note
    assert not find_datasets(plan(datasets="dtd,eurosat"), root).notes


@pytest.mark.parametrize("index", [0, 2])
def test_a_missing_shot_or_test_image_is_named(own_root: Path, index: int) -> None:
    for image in (own_root / "dtd/images/island").glob(f"[{index}{index + 1}].png"):
        image.rename(own_root / f"moved-{image.name}")
    discovery = find_datasets(plan(), own_root)
    assert discovery.plan.datasets == ("eurosat",)
    (note,) = (note for note in discovery.notes if "dtd" in note)
    assert "island" in note
    assert "missing" in note


def test_across_data_sets_the_source_and_the_variants_are_not_targets(root: Path) -> None:
    discovery = find_datasets(plan(protocol="cross-dataset", source="dtd"), root)
    assert discovery.plan.datasets == ("eurosat",)


def test_the_other_domains_beside_a_domain(root: Path) -> None:
    discovery = find_datasets(plan(protocol="domain", source="pacs/photo"), root)
    assert discovery.plan.datasets == ("pacs/night", "pacs/sketch")


def test_what_is_no_data_set(root: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no dataset 'dtdd'"):
        find_datasets(plan(datasets="dtdd"), root)
    with pytest.raises(ConfigError, match="no dataset 'imagnet'"):
        find_datasets(plan(protocol="domain", source="imagnet"), root)
    with pytest.raises(ConfigError, match="data is '.*'; there is no such folder"):
        find_datasets(plan(), tmp_path / "nowhere")
    with pytest.raises(DataError, match="None of the datasets is complete"):
        find_datasets(plan(), tmp_path)
    with pytest.raises(DataError, match="nor a folder of one"):
        find_datasets(plan(protocol="domain", source="pacs/photo"), tmp_path)


def test_a_source_that_is_not_there_is_told(tmp_path: Path) -> None:
    plan = Plan.from_values({"protocol": "cross-dataset", "datasets": "dtd"})
    note, _ = find_datasets(plan, tmp_path).notes
    assert "The source imagenet is missing" in note
