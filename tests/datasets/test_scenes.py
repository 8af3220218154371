"""The drawn scenes as a dataset: in a folder of their own, or in the cache by name."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from ipl.datasets import scenes as scenes_module
from ipl.datasets.benchmark_readers import read_benchmark
from ipl.datasets.check import missing_files
from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.scenes import scenes_dataset


def test_the_drawn_scenes_are_drawn_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = partial(scenes_dataset, train=1, test=1)
    monkeypatch.setattr("ipl.datasets.scenes.scenes_dataset", few)
    first = read_benchmark("scenes", tmp_path)
    assert first.name == "scenes"
    assert len(first.train) == len(first.test) == 20
    stamps = [i.path.stat().st_mtime_ns for i in first.train]
    first.test[3].path.unlink()
    assert read_benchmark("scenes", tmp_path) == first
    assert [i.path.stat().st_mtime_ns for i in first.train] == stamps
    assert missing_files(first.test) == []


def test_by_name_they_are_drawn_into_the_cache_and_never_into_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Path] = []

    def note(folder: Path, redraw: bool) -> Dataset:
        asked.append(folder)
        items = tuple(Item(folder / f"{label}.png", label) for label in (0, 1))
        return Dataset("drawn scenes", ("mountain", "beach"), items, items)

    monkeypatch.setattr(scenes_module, "scenes_dataset", note)
    monkeypatch.setenv("IPL_CACHE", str(tmp_path / "kept"))
    assert read_benchmark("scenes", tmp_path / "data").name == "scenes"
    assert asked == [tmp_path / "kept" / "scenes"]
