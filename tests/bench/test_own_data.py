"""Data of the user's own in the bench: names for paths, what is refused, and whole runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ipl.bench.data import BenchData, check_data, find_datasets
from ipl.bench.engines.local import LocalEngine
from ipl.bench.grid import run_grid
from ipl.bench.plan import Plan
from ipl.bench.planned_runs import Planned, plan_runs
from ipl.bench.recipe import BenchRecipe
from ipl.bench.runner import RunEnvironment
from ipl.support.errors import ConfigError, DataError
from tests.helpers.class_folders import write_class_folders

NAMES = ("beach", "castle", "desert", "forest", "lake")
WITHOUT_WORDS = {"words": 0, "seeds": 1, "epochs": 1, "views": 0}


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """Returns a folder of three images for each of five classes."""
    write_class_folders(tmp_path / "here" / "mine", "painted", NAMES)
    return tmp_path / "here" / "mine"


def write_table(path: Path, folder: Path) -> Path:
    """Writes a CSV file of a folder's images, the last one of each class as a test image."""
    lines = ["path,label,split"]
    for name in NAMES:
        for index in range(3):
            part = "train" if index < 2 else "test"
            lines.append(f"{(folder / name).relative_to(path.parent)}/{index}.png,{name},{part}")
    path.write_text("\n".join(lines) + "\n")
    return path


def plan(**values: Any) -> Plan:
    return Plan.from_values({"protocol": "base-to-novel", "shots": 1, "seeds": 1, **values})


def planned(out: Path, data: Path | None = None, **values: Any) -> Planned:
    small = {"protocol": "base-to-novel", "shots": 1, **WITHOUT_WORDS}
    found = plan_runs(BenchRecipe().override({**small, **values}), data, out)
    check_data(found.runs, data, found.paths, out)
    return found


def recorded(plan: Planned, out: Path, root: str = "") -> list[dict[str, Any]]:
    """Returns the records of the runs, in their order."""
    environment = RunEnvironment(root, device="cpu", paths=plan.paths)
    result = run_grid(plan.runs, out, LocalEngine(environment))
    assert not result.failed
    return [json.loads((out / "records" / f"{run.id}.json").read_bytes()) for run in plan.runs]


# -- names for paths ------------------------------------------------------------------------------


def test_a_path_gets_a_name_and_published_names_stay(
    root: Path, mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = write_table(tmp_path / "my table.csv", mine)
    entries = ["eurosat", f"{mine}/", str(table), "pacs/photo", "scenes", str(mine)]
    discovery = find_datasets(plan(datasets=entries), root)
    assert discovery.plan.datasets == ("eurosat", "mine", "my-table", "pacs/photo", "scenes")
    assert discovery.paths == {"mine": str(mine), "my-table": str(table)}
    monkeypatch.chdir(tmp_path)
    crossed = plan(protocol="cross-dataset", source="here/mine", datasets="my table.csv")
    here = find_datasets(crossed, None)
    assert (here.plan.source, here.plan.datasets) == ("mine", ("my-table",))
    assert here.paths == discovery.paths


def test_a_domain_below_the_root_is_no_path_of_its_own(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    for data in (root, Path()):
        discovery = find_datasets(plan(datasets="pacs/photo"), data)
        assert (discovery.plan.datasets, discovery.paths) == (("pacs/photo",), {})
    alone = find_datasets(plan(datasets="pacs/photo"), None)
    assert (alone.plan.datasets, list(alone.paths)) == (("photo",), ["photo"])


def test_names_can_begin_the_name_of_a_file(mine: Path) -> None:
    for name, expected in (
        ("..a b", "a-b"),
        ("---", "data"),
        ("é_x", "é_x"),
        ("x" * 90, "x" * 60),
    ):
        folder = mine.with_name(name)
        folder.mkdir()
        assert find_datasets(plan(datasets=[str(folder)]), None).plan.datasets == (expected,)


def test_names_that_are_taken(mine: Path, tmp_path: Path) -> None:
    for name in ("dtd", "average"):
        (tmp_path / name).mkdir()
        with pytest.raises(ConfigError, match=f"would be called '{name}'"):
            find_datasets(plan(datasets=[str(tmp_path / name)]), None)
    (tmp_path / "mine").mkdir()
    with pytest.raises(ConfigError, match=r"here/mine and .*mine are both called 'mine'"):
        find_datasets(plan(datasets=[str(mine), str(tmp_path / "mine")]), None)
    across = {"protocol": "cross-dataset", "source": str(mine)}
    with pytest.raises(ConfigError, match="datasets contains 'mine', which is the source"):
        find_datasets(plan(**across, datasets=[f"{mine}/"]), None)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ("minee", "no dataset 'minee', nor a folder or CSV file of that name"),
        ([""], "no dataset '', nor a folder"),
        ("dtd", "data is missing; it must be the folder that contains dtd"),
    ],
)
def test_without_a_root_only_paths_and_scenes_are_known(entries: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        find_datasets(plan(datasets=entries), None)
    assert find_datasets(plan(datasets="scenes"), None).plan.datasets == ("scenes",)


# -- what is refused before anything runs ---------------------------------------------------------


def test_too_few_classes_or_images(mine: Path, tmp_path: Path) -> None:
    write_class_folders(tmp_path / "three", "night", NAMES[:3])
    with pytest.raises(ConfigError, match="three has 3 classes; .* need at least 4"):
        planned(tmp_path, datasets=str(tmp_path / "three"))
    with pytest.raises(DataError, match=r"mine \(base\): with 3 shots of each class, all 9 images"):
        planned(tmp_path, datasets=str(mine), shots="1,3")
    for index in (1, 2):
        (mine / "castle" / f"{index}.png").unlink()
    with pytest.raises(DataError, match="with 1 shot, no image of the class 'castle' is left"):
        planned(tmp_path, datasets=str(mine))
    with pytest.raises(DataError, match="three has no class 'forest', which mine has"):
        planned(tmp_path, protocol="domain", source=str(mine), datasets=str(tmp_path / "three"))


def test_per_dataset_settings_go_by_the_name(mine: Path, tmp_path: Path) -> None:
    settings = {"protocol": "base-to-novel", "datasets": str(mine), **WITHOUT_WORDS}
    with pytest.raises(DataError, match="all 9 images are drawn"):
        planned(tmp_path, datasets=str(mine), shots=16)
    fewer = BenchRecipe(settings=settings, per_dataset={"mine": {"shots": 2}})
    assert {run.shots for run in plan_runs(fewer, None, tmp_path).runs} == {2}


def test_images_that_a_table_lists_and_are_not_there(mine: Path, tmp_path: Path) -> None:
    table = write_table(tmp_path / "list.csv", mine)
    (mine / "lake" / "0.png").unlink()
    with pytest.raises(DataError, match=r"list \(training\): 1 of 10 images are missing.*lake/0"):
        planned(tmp_path, datasets=str(table))


def test_no_training_image_takes_the_place_of_test_images_that_are_missing(
    mine: Path, tmp_path: Path
) -> None:
    table = write_table(tmp_path / "list.csv", mine)
    for name in NAMES:
        (mine / name / "2.png").unlink()
    with pytest.raises(DataError, match=r"list: all its test images are missing, first: .*2\.png"):
        BenchData.read("list", "", str(table))


# -- runs -----------------------------------------------------------------------------------------


def hashes(records: list[dict[str, Any]]) -> list[Mapping[str, Any]]:
    names = ("split_sha256", "shots_sha256", "target_sha256")
    return [{name: record["data"][name] for name in names} for record in records]


def test_base_to_novel_on_a_folder(mine: Path, tmp_path: Path) -> None:
    (mine / "lake" / "notes.txt").write_text("not an image")
    wanted = planned(tmp_path / "out", datasets=str(mine))
    records = recorded(wanted, tmp_path / "out")
    for run, record in zip(wanted.runs, records, strict=True):
        assert run.id.startswith("mine-")
        assert record["dataset"] == "mine"
        assert record["data"]["test_images"] == {"base": 3 * 2, "novel": 2 * 3}
        assert "notes.txt" in "".join(record["notes"])
        assert str(mine.parent) not in json.dumps(record["settings"])
    assert records[0]["settings"]["templates"] == {"mine": "a photo of a {}."}
    again = planned(tmp_path / "out", datasets=str(mine))
    assert again.runs == wanted.runs
    moved = mine.rename(tmp_path / "mine")  # neither ids nor hashes know where it is
    there = planned(tmp_path / "out", datasets=str(moved))
    assert there.runs == wanted.runs
    assert hashes(recorded(there, tmp_path / "moved")) == hashes(records)
    (moved / "lake" / "0.png").unlink()
    with pytest.raises(DataError, match="are of other images called 'mine', or images were added"):
        planned(tmp_path / "out", datasets=str(moved))
    assert planned(tmp_path / "another", datasets=str(moved)).runs == wanted.runs


def test_a_target_that_has_changed_is_told(mine: Path, tmp_path: Path) -> None:
    write_class_folders(tmp_path / "other", "night", NAMES)
    values = {"protocol": "domain", "source": str(mine), "datasets": str(tmp_path / "other")}
    values["arms"] = "zero-shot"
    recorded(planned(tmp_path / "out", **values), tmp_path / "out")
    (tmp_path / "other" / "lake" / "0.png").unlink()
    with pytest.raises(
        DataError, match="other images called 'other', or images were added or removed since"
    ):
        planned(tmp_path / "out", **values)


def test_own_source_and_targets(mine: Path, tmp_path: Path, root: Path) -> None:
    write_class_folders(tmp_path / "other", "night", NAMES)
    names = f"{tmp_path / 'other'},pacs/sketch"
    wanted = planned(
        tmp_path / "out", root, protocol="domain", source=str(mine), datasets=names, shots=2
    )
    for record in recorded(wanted, tmp_path / "out", str(root)):
        assert list(record["accuracy"]) == ["mine", "other", "pacs/sketch"]
        assert record["data"]["test_images"] == {"mine": 5, "other": 15, "pacs/sketch": 15}
