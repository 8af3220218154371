"""Unpacking: whole or not at all, inside its folder, and never over what is there."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import zipfile
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest

from ipl.datasets import archive as archive_room
from ipl.datasets.archive import unpack
from ipl.support.errors import DataError, IplError

FILES = {"pets/images/a.jpg": b"a" * 3000, "pets/b.txt": b"", "README": b"hello"}


def _member(name: str, data: bytes = b"", **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data


def _tar(path: Path, *members: tuple[tarfile.TarInfo, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as tarred:
        for info, data in members:
            tarred.addfile(info, io.BytesIO(data))
    return path


def _zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, data in files.items():
            zipped.writestr(name, data)
    return path


def _below(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }


def _refused(made: Path, said: str, error: type[IplError] = DataError) -> None:
    """Checks that an archive is refused, and that nothing is left of the attempt."""
    target = made.parent / "target"
    target.mkdir(exist_ok=True)
    before = sorted(p.name for p in made.parent.iterdir())
    with pytest.raises(error, match=said):
        unpack(made, target)
    assert list(target.iterdir()) == []
    assert sorted(p.name for p in made.parent.iterdir()) == before


@pytest.mark.parametrize(
    ("name", "there"),
    [("x.zip", True), ("x.tar", False), ("x.tgz", True), ("x.tar.bz2", False), ("x.tar.xz", False)],
)
def test_what_was_packed_comes_out(name: str, there: bool, tmp_path: Path) -> None:
    if name.endswith("zip"):
        packed = _zip(tmp_path / name, {"pets/": b"", **FILES})
    else:
        kind = {"tar": "", "tgz": "gz"}.get(name.split(".")[-1], name.split(".")[-1])
        folder = _member("./pets", type=tarfile.DIRTYPE)
        members = [folder, *(_member(f"./{n}", data) for n, data in FILES.items())]
        packed = _tar(tmp_path / name, *members, mode=f"w:{kind}")
    target = tmp_path / "data" / "root"
    if there:
        target.mkdir(parents=True)
        (target / "other").write_bytes(b"mine")
    assert unpack(packed, target) == [target / "README", target / "pets"]
    assert _below(target) == {**FILES, **({"other": b"mine"} if there else {})}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data", name]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    packed = _zip(tmp_path / "x.zip", FILES)
    (tmp_path / "pets").mkdir()
    with pytest.raises(DataError, match="pets already exists; nothing is overwritten"):
        unpack(packed, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["pets", "x.zip"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("zip", "/etc/x"),
        ("zip", "a\\..\\..\\x"),
        ("zip", "C:\\x"),
        ("tar", "../x"),
        ("tar", "a/../../x"),
        ("tar", "\\\\host\\share\\x"),
    ],
)
def test_paths_that_leave_the_folder(kind: str, name: str, tmp_path: Path) -> None:
    good = ("good.jpg", b"good")
    if kind == "zip":
        packed = _zip(tmp_path / "x.zip", dict([good, (name, b"bad")]))
    else:
        packed = _tar(tmp_path / "x.tgz", _member(*good), _member(name, b"bad"))
    _refused(packed, "would leave the folder")


LINK = {"type": tarfile.SYMTYPE}


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ([_member("l", linkname="/etc/passwd", **LINK)], "'l' -> '/etc/passwd' leaves"),
        ([_member("l", linkname="../target2", **LINK)], "leaves the folder"),
        ([_member("l", linkname="nowhere", **LINK)], "leaves the folder"),
        ([_member("l", linkname="l", **LINK)], "leaves the folder"),
        (
            [_member("d", linkname=".", **LINK), _member("l", linkname="d/../..", **LINK)],
            "leaves the folder",
        ),
        (
            [_member("d", linkname="/var", **LINK), _member("d/x", b"x")],
            "'d/x' would go through a link",
        ),
        ([_member("d/x", b"x"), _member("d", linkname=".", **LINK)], "contains 'd' twice"),
        ([_member("h", linkname="/etc/passwd", type=tarfile.LNKTYPE)], "would leave"),
        ([_member("h", linkname="x", type=tarfile.LNKTYPE)], "'h' points to no file in it"),
        ([_member("p", type=tarfile.FIFOTYPE)], "'p' is a device"),
        ([_member("x", b"1"), _member("x", b"2")], "contains 'x' twice"),
        ([_member("x", b"1"), _member("x/y", b"2")], "'x/y' is below a file"),
        ([], "archive is empty"),
    ],
)
def test_members_of_a_tar_that_are_refused(members: Any, said: str, tmp_path: Path) -> None:
    _refused(_tar(tmp_path / "x.tgz", *members), said)


def test_links_inside_the_folder_are_kept(tmp_path: Path) -> None:
    packed = _tar(
        tmp_path / "x.tgz",
        _member("d/x", b"text"),
        _member("d/soft", linkname="../e/y", **LINK),
        _member("e/y", linkname="d/x", type=tarfile.LNKTYPE),
    )
    unpack(packed, tmp_path / "out")
    assert _below(tmp_path / "out") == {"d/x": b"text", "d/soft": b"text", "e/y": b"text"}
    assert os.readlink(tmp_path / "out/d/soft") == "../e/y"


def test_a_link_or_a_device_in_a_zip(tmp_path: Path) -> None:
    for kind, said in ((stat.S_IFLNK, "leaves the folder"), (stat.S_IFIFO, "'l' is a device")):
        info = zipfile.ZipInfo("l")
        info.external_attr = (kind | 0o777) << 16
        with zipfile.ZipFile(tmp_path / "x.zip", "w") as zipped:
            zipped.writestr(info, "/etc/passwd")
        _refused(tmp_path / "x.zip", said)


Usage = namedtuple("Usage", "free")


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_more_than_the_disk_holds(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_room.shutil, "disk_usage", lambda path: Usage(1999))
    files = {"a": b"0" * 1000, "b": b"0" * 1000}
    if kind == "zip":
        packed = _zip(tmp_path / "x.zip", files)
    else:
        packed = _tar(tmp_path / "x.tgz", *(_member(*item) for item in files.items()))
    _refused(packed, "not enough disk space")


def test_a_file_that_is_larger_than_stated(tmp_path: Path) -> None:
    target = archive_room._Target(tmp_path / "x.zip", tmp_path, tmp_path / "out", 10**6)
    with pytest.raises(DataError, match="'big' is larger than stated"):
        target.write("big", io.BytesIO(b"12345"), 4, lambda *_: None)
    with pytest.raises(DataError, match="'short' is truncated"):
        target.write("short", io.BytesIO(b"123"), 4, lambda *_: None)


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tgz", "x.tar.bz2", "x.tar.xz"])
def test_damage_is_found_wherever_it_is(name: str, tmp_path: Path) -> None:
    noise = {f"f{n}": os.urandom(3000) for n in range(4)}
    if name.endswith("zip"):
        packed = _zip(tmp_path / name, noise)
    else:
        kind = {"tar": "", "tgz": "gz"}.get(name.split(".")[-1], name.split(".")[-1])
        members = [_member(*item) for item in noise.items()]
        packed = _tar(tmp_path / name, *members, mode=f"w:{kind}")
    whole = packed.read_bytes()
    packed.write_bytes(whole[: len(whole) // 2])
    _refused(packed, "is damaged")
    # In a plain tar only headers have a sum: break the third one.
    at = 2 * (512 + 3072) + 100 if name == "x.tar" else len(whole) // 2
    packed.write_bytes(whole[:at] + bytes(255 - b for b in whole[at : at + 20]) + whole[at + 20 :])
    _refused(packed, "is damaged")


@pytest.mark.parametrize("data", [b"", b"hello", b"\x1f\x8bhello", b"PK\x03\x04"])
def test_what_is_no_archive(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(data)
    _refused(tmp_path / "x.zip", r"x\.zip is damaged or not an archive \(zip")


def test_what_is_not_there_or_in_the_way(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        unpack(tmp_path / "no.zip", tmp_path)
    with pytest.raises(DataError, match="Is a directory"):
        unpack(tmp_path, tmp_path / "out")
    packed = _zip(tmp_path / "x.zip", FILES)
    with pytest.raises(DataError, match=r"x\.zip is a file, not a folder"):
        unpack(packed, packed)


def test_a_stop_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = _zip(tmp_path / "x.zip", FILES)
    writing = archive_room._Target.write

    def stop(self: Any, name: str, *rest: Any) -> None:
        if name == "README":
            raise KeyboardInterrupt
        writing(self, name, *rest)

    monkeypatch.setattr(archive_room._Target, "write", stop)
    with pytest.raises(KeyboardInterrupt):
        unpack(packed, tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["x.zip"]


def test_a_failing_move_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = _zip(tmp_path / "x.zip", FILES)
    rename = os.rename

    def fail(source: Path, target: Path) -> None:
        if target.name == "pets":
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(archive_room.os, "rename", fail)
    (tmp_path / "out").mkdir()
    with pytest.raises(KeyboardInterrupt):
        unpack(packed, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_full_disk_is_said_plainly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archive_room._Target, "write", full)
    _refused(_zip(tmp_path / "x.zip", FILES), "Cannot unpack into .*: No space left", IplError)
