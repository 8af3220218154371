"""The drawn scenes become files in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from ipl.datasets.benchmark_readers import read_benchmark
from ipl.datasets.completeness import missing_files
from ipl.datasets.scenes import CLASSES


def test_by_name_they_are_unpacked_once_into_the_cache_and_never_into_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPL_CACHE", str(tmp_path / "kept"))
    first = read_benchmark("scenes", tmp_path / "data")
    assert first.name == "scenes"
    assert first.class_names == CLASSES
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    files = [Path(str(item.path)) for item in first.train + first.test]
    assert all(path.is_relative_to(tmp_path / "kept" / "scenes") for path in files)
    files[3].unlink()
    files[5].write_bytes(b"cut off")
    assert read_benchmark("scenes", tmp_path / "data") == first
    assert missing_files(first.train) == []
    with Image.open(files[5]) as image:
        assert image.size == (96, 96)
