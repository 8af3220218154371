"""The drawn scenes: what the archive holds, and how they become files in a folder."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest
from PIL import Image

from ipl.datasets.benchmark_readers import read_benchmark
from ipl.datasets.check import missing_files
from ipl.datasets.readers import read_dataset
from ipl.datasets.scenes import ARCHIVE, CLASSES, scenes_dataset


def test_unpacked_the_archive_is_a_dataset_in_four_styles(tmp_path: Path) -> None:
    with ZipFile(ARCHIVE) as archive:
        archive.extractall(tmp_path)
    painted = read_dataset(tmp_path / "painted")
    assert set(painted.class_names) == set(CLASSES)
    assert len(painted.train) == len(painted.test) == 20 * 24
    images = {item.path for item in painted.train + painted.test}
    for style in ("sketch", "pixel art", "night"):
        domain = read_dataset(tmp_path / style)
        assert domain.class_names == painted.class_names
        assert len(domain.train) == 20 * 4
        images |= {item.path for item in domain.train}
    contents = {Path(str(path)).read_bytes() for path in images}
    assert len(contents) == len(images) == 1200
    for path in images:
        with Image.open(str(path)) as image:
            image.load()
            assert (image.format, image.mode, image.size) == ("JPEG", "RGB", (96, 96))


def test_a_few_in_a_folder(tmp_path: Path) -> None:
    few = scenes_dataset(tmp_path, train=2, test=1, classes=("lake", "starry night"))
    assert few.class_names == ("lake", "starry night")
    names = [Path(str(path)).relative_to(tmp_path).as_posix() for path, _ in few.train + few.test]
    assert names[:3] == ["train/lake/000.jpg", "train/lake/001.jpg", "train/starry night/000.jpg"]
    assert names[4:] == ["test/lake/024.jpg", "test/starry night/024.jpg"]
    assert [label for _, label in few.train] == [0, 0, 1, 1]
    read = read_dataset(tmp_path)
    assert (read.train, read.test) == (few.train, few.test)


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
    stamps = [path.stat().st_mtime_ns for path in files]
    files[3].unlink()
    files[5].write_bytes(b"cut off")
    assert read_benchmark("scenes", tmp_path / "data") == first
    assert missing_files(first.train) == []
    with Image.open(files[5]) as image:
        assert image.size == (96, 96)
    again = [path.stat().st_mtime_ns for path in files]
    assert [i for i, (a, b) in enumerate(zip(stamps, again, strict=True)) if a != b] in (
        [3, 5],
        [5],  # where a clock is coarse
    )
