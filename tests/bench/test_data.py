"""The datasets of a bench: published ones, `all` of them, the user's own, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ipl.bench.data import check_data, find_datasets
from ipl.bench.engines.local import LocalEngine
from ipl.bench.grid import run_grid
from ipl.bench.plan import Plan
from ipl.bench.run import Run
from ipl.bench.runner import RunEnvironment
from ipl.support.errors import ConfigError, DataError
from tests.helpers.records import record_of, write_records
from tests.helpers.scenes import draw_folder

NAMES = ("beach", "castle", "desert", "forest", "lake")


def plan(**values: Any) -> Plan:
    small = {"protocol": "base-to-novel", "datasets": "all", "seeds": 1, "shots": 1}
    return Plan.from_values({**small, **values})


class Planned(NamedTuple):
    """Runs, and the paths of the data they need."""

    runs: tuple[Run, ...]
    paths: dict[str, str]


def planned(out: Path, data: Path | None = None, **values: Any) -> Planned:
    """Returns the runs of a plan, as `ipl bench` finds and checks them."""
    found, _, paths = find_datasets(plan(**values), data)
    check_data(found.runs(), data, paths, out)
    return Planned(found.runs(), paths)


# -- published datasets ---------------------------------------------------------------------------


def test_all_are_those_that_are_complete(root: Path) -> None:
    found, notes, _ = find_datasets(plan(), root)
    assert set(found.datasets) == {"eurosat", "dtd"}
    assert len(notes) == 9  # of eleven published sets
    assert find_datasets(plan(datasets="dtd,all"), root)[0].datasets[0] == "dtd"


def test_named_datasets_that_are_not_there_are_refused(root: Path) -> None:
    with pytest.raises(DataError, match="sun397: no folder .*; the data is available from"):
        planned(root / "out", root, datasets="dtd,sun397,food101")
    with pytest.raises(DataError, match="imagenet: no folder"):
        planned(root / "out", root, protocol="cross-dataset", datasets="dtd")
    with pytest.raises(DataError, match=r"pacs/photos: no folder .*; available domains: night"):
        planned(root / "out", root, protocol="domain", source="pacs/photos", datasets="all")
    with pytest.raises(DataError, match="eurosat has the class 'beach', which dtd does not have"):
        planned(root / "out", root, protocol="domain", source="dtd", datasets="eurosat")
    planned(root / "out", root, datasets="dtd,eurosat,scenes", seeds="1,2,3")


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
    where = own_root / "out", own_root
    planned(*where, datasets="dtd,eurosat", arms="plain", seeds=4)  # draws the other image
    planned(*where, datasets="dtd,eurosat", arms="zero-shot")  # draws none
    with pytest.raises(DataError, match=r"eurosat \(training, 1 shot, seed 1\): 1 of 3 images"):
        planned(*where, datasets="dtd,eurosat", arms="plain", seeds="4,1")


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


# -- data of the user's own -----------------------------------------------------------------------


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """Returns a folder of three images for each of five classes."""
    draw_folder(tmp_path / "here" / "mine", dict.fromkeys(NAMES, 3))
    return tmp_path / "here" / "mine"


def recorded(wanted: Planned, out: Path) -> list[dict[str, Any]]:
    """Returns the records of the runs, in their order."""
    environment = RunEnvironment("", device="cpu", paths=wanted.paths)
    result = run_grid(wanted.runs, out, LocalEngine(environment))
    assert not result.failed
    return [json.loads((out / "records" / f"{run.id}.json").read_bytes()) for run in wanted.runs]


def test_a_path_gets_a_name_and_published_names_stay(
    root: Path, mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "my table.csv"
    table.touch()  # only its name matters here
    entries = ["eurosat", f"{mine}/", str(table), "pacs/photo", "scenes", str(mine)]
    found, _, paths = find_datasets(plan(datasets=entries), root)
    assert found.datasets == ("eurosat", "mine", "my-table", "pacs/photo", "scenes")
    assert paths == {"mine": str(mine), "my-table": str(table)}
    monkeypatch.chdir(tmp_path)
    crossed = plan(protocol="cross-dataset", source="here/mine", datasets="my table.csv")
    here, _, paths_here = find_datasets(crossed, None)
    assert (here.source, here.datasets) == ("mine", ("my-table",))
    assert paths_here == paths


def test_too_few_classes_or_images(mine: Path, tmp_path: Path) -> None:
    draw_folder(tmp_path / "three", dict.fromkeys(NAMES[:3], 3), "night")
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


def test_base_to_novel_on_a_folder(mine: Path, tmp_path: Path) -> None:
    (mine / "lake" / "notes.txt").write_text("not an image")
    wanted = planned(tmp_path / "out", datasets=str(mine), epochs=1, words=1)
    records = recorded(wanted, tmp_path / "out")
    for run, record in zip(wanted.runs, records, strict=True):
        assert run.id.startswith("mine-")
        assert record["dataset"] == "mine"
        assert record["data"]["test_images"] == {"base": 3 * 2, "novel": 2 * 3}
        assert "notes.txt" in "".join(record["notes"])
        assert str(mine.parent) not in json.dumps(record["settings"])
    assert records[0]["settings"]["templates"] == {"mine": "a photo of a {}."}
    moved = mine.rename(tmp_path / "mine")  # neither ids nor hashes know where it is
    there = planned(tmp_path / "out", datasets=str(moved), epochs=1, words=1)
    assert there.runs == wanted.runs
    assert [one["data"] for one in recorded(there, tmp_path / "moved")] == [
        one["data"] for one in records
    ]
    (moved / "lake" / "0.png").unlink()
    with pytest.raises(DataError, match="are of other images called 'mine', or images were added"):
        planned(tmp_path / "out", datasets=str(moved), epochs=1, words=1)
    assert planned(tmp_path / "another", datasets=str(moved), epochs=1, words=1).runs == wanted.runs
