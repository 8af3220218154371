"""Arguments and lists of paths name the images that a person expects."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipl.inference.image_paths import find_images, read_paths
from ipl.support.errors import DataError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Returns a folder with two images, a text file, and a sub-folder without images."""
    for name in ("b.png", "a.jpg", "notes.txt", "a[1].png"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "empty").mkdir()
    return tmp_path


def test_files_folders_and_patterns(folder: Path) -> None:
    everything = [folder / name for name in ("a.jpg", "a[1].png", "b.png")]
    assert sorted(find_images([str(folder)])) == everything
    assert sorted(find_images([f"{folder}/**"])) == [*everything, folder / "notes.txt"]
    assert find_images([f"{folder}/*.jpg", f"{folder}/a.jpg"]) == [folder / "a.jpg"]
    assert find_images([f"{folder}/a[1].png"]) == [folder / "a[1].png"]  # the name of a file
    assert find_images([f"{folder}/notes.txt"]) == [folder / "notes.txt"]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("https://example.org/a.png", "URLs are not opened"),
        ("{folder}/nowhere.png", "No such file"),
        ("{folder}/*.gif", "No image matches"),
        ("{folder}/empty", "contains no images"),
    ],
)
def test_what_names_no_image_is_refused(argument: str, message: str, folder: Path) -> None:
    with pytest.raises(DataError, match=message):
        find_images([argument.format(folder=folder)])


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([b"a\nb c\r\n\n", b"d"], ["a", "b c", "d"]),
        ([b"a\nb\0", b"c\0"], ["a\nb", "c"]),
        ([b"lo", b"ng\nshort"], ["long", "short"]),
        ([], []),
    ],
)
def test_paths_are_separated_by_lines_or_nuls(chunks: list[bytes], expected: list[str]) -> None:
    assert list(read_paths(chunks)) == [Path(name) for name in expected]
