"""Data of the user's own in the bench: names for paths, what is refused, and whole runs."""

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
from tests.helpers.scenes import draw_folder

NAMES = ("beach", "castle", "desert", "forest", "lake")
WITHOUT_WORDS = {"words": 0, "seeds": 1, "epochs": 1, "views": 0}


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """Returns a folder of three images for each of five classes."""
    draw_folder(tmp_path / "here" / "mine", dict.fromkeys(NAMES, 3))
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


class Planned(NamedTuple):
    """Runs, and the paths of the data they need."""

    runs: tuple[Run, ...]
    paths: dict[str, str]


def planned(out: Path, data: Path | None = None, **values: Any) -> Planned:
    found, _, paths = find_datasets(plan(**{**WITHOUT_WORDS, **values}), data)
    runs = found.runs()
    check_data(runs, data, paths, out)
    return Planned(runs, paths)


def recorded(plan: Planned, out: Path) -> list[dict[str, Any]]:
    """Returns the records of the runs, in their order."""
    environment = RunEnvironment("", device="cpu", paths=plan.paths)
    result = run_grid(plan.runs, out, LocalEngine(environment))
    assert not result.failed
    return [json.loads((out / "records" / f"{run.id}.json").read_bytes()) for run in plan.runs]


# -- names for paths ------------------------------------------------------------------------------


def test_a_path_gets_a_name_and_published_names_stay(
    root: Path, mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = write_table(tmp_path / "my table.csv", mine)
    entries = ["eurosat", f"{mine}/", str(table), "pacs/photo", "scenes", str(mine)]
    found, _, paths = find_datasets(plan(datasets=entries), root)
    assert found.datasets == ("eurosat", "mine", "my-table", "pacs/photo", "scenes")
    assert paths == {"mine": str(mine), "my-table": str(table)}
    monkeypatch.chdir(tmp_path)
    crossed = plan(protocol="cross-dataset", source="here/mine", datasets="my table.csv")
    here, _, paths_here = find_datasets(crossed, None)
    assert (here.source, here.datasets) == ("mine", ("my-table",))
    assert paths_here == paths


# -- what is refused before anything runs ---------------------------------------------------------


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


# -- runs -----------------------------------------------------------------------------------------


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
    moved = mine.rename(tmp_path / "mine")  # neither ids nor hashes know where it is
    there = planned(tmp_path / "out", datasets=str(moved))
    assert there.runs == wanted.runs
    assert [one["data"] for one in recorded(there, tmp_path / "moved")] == [
        one["data"] for one in records
    ]
    (moved / "lake" / "0.png").unlink()
    with pytest.raises(DataError, match="are of other images called 'mine', or images were added"):
        planned(tmp_path / "out", datasets=str(moved))
    assert planned(tmp_path / "another", datasets=str(moved)).runs == wanted.runs
