"""Writing whole or not at all: files, folders, failures half-way, several writers at once."""

from __future__ import annotations

import errno
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ipl.support.errors import IplError
from ipl.support.files import replace_folder, sha256_text, write_bytes, write_json, write_text


def _contents(root: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in sorted(root.rglob("*"))
    }


def _fail_at(call: int, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> list[int]:
    """Makes the n-th rename from now on fail; returns a counter of renames."""
    count, real = [0], os.replace

    def replace(source: Any, target: Any, **options: Any) -> None:
        count[0] += 1
        if count[0] == call:
            raise error
        real(source, target, **options)

    monkeypatch.setattr(os, "replace", replace)
    return count


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_sha256_text() -> None:
    # FIPS 180-2, B.1, and the same of "é" as UTF-8 by sha256sum.
    assert sha256_text("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256_text("é") == "4a99557e4033c3539de2eb65472017cad5f9557f7a0625a09f1c3f6e2ba69c4c"


def test_write_makes_folders_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c.bin"
    write_bytes(path, b"one")
    write_bytes(path, b"two")
    assert _contents(tmp_path) == {"a": None, "a/b": None, "a/b/c.bin": b"two"}


def test_text_and_json_are_utf8(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "é\n")
    assert (tmp_path / "a.txt").read_bytes() == "é\n".encode()
    value = {"é": [1, 2.5, None, True], "b": {"c": "\u2028"}}
    write_json(tmp_path / "a.json", value)
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert json.loads(text) == value
    assert "é" in text
    assert text.endswith("}\n")


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_modes_follow_the_umask(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        write_bytes(tmp_path / "a", b"")
        with replace_folder(tmp_path / "f") as work:
            write_bytes(work / "b", b"")
    finally:
        os.umask(before)
    for name, full in (("a", 0o666), ("f", 0o777), ("f/b", 0o666)):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == full & ~umask


@pytest.mark.faults
@pytest.mark.parametrize("error", [FULL, KeyboardInterrupt()], ids=["full disk", "Ctrl-C"])
def test_a_failed_write_leaves_the_old_file_alone(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_bytes(tmp_path / "a", b"old")
    _fail_at(1, monkeypatch, error)
    expected = IplError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected) as caught:
        write_bytes(tmp_path / "a", b"new")
    assert _contents(tmp_path) == {"a": b"old"}
    if expected is IplError:
        assert str(tmp_path / "a") in str(caught.value)
        assert "No space left on device" in str(caught.value)


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"mine")
    with pytest.raises(IplError, match="Cannot write .*a/b"):
        write_bytes(tmp_path / "a" / "b", b"")
    with pytest.raises(IplError, match="Cannot write .*a/b"), replace_folder(tmp_path / "a" / "b"):
        pass
    assert _contents(tmp_path) == {"a": b"mine"}


def _make(path: Path, content: bytes) -> None:
    with replace_folder(path) as work:
        (work / "one").write_bytes(content)
        (work / "two").write_bytes(content)


def test_a_folder_appears_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "f"
    with replace_folder(path) as work:
        (work / "one").write_bytes(b"1")
        assert not path.exists()
    assert _contents(tmp_path) == {"deep": None, "deep/f": None, "deep/f/one": b"1"}


def test_a_folder_replaces_another(tmp_path: Path) -> None:
    _make(tmp_path / "f", b"old")
    (tmp_path / "f" / "three").write_bytes(b"old")
    _make(tmp_path / "f", b"new")
    assert _contents(tmp_path) == {"f": None, "f/one": b"new", "f/two": b"new"}


@pytest.mark.faults
@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("error", [ValueError("x"), FULL, KeyboardInterrupt()])
def test_a_failing_block_changes_nothing(error: BaseException, there: bool, tmp_path: Path) -> None:
    if there:
        _make(tmp_path / "f", b"old")
    before = _contents(tmp_path)

    def fail_half_way() -> None:
        with replace_folder(tmp_path / "f") as work:
            (work / "one").write_bytes(b"half")
            raise error

    with pytest.raises(IplError if isinstance(error, OSError) else type(error)):
        fail_half_way()
    assert _contents(tmp_path) == before


@pytest.mark.faults
@pytest.mark.parametrize("error", [FULL, KeyboardInterrupt()], ids=["full disk", "Ctrl-C"])
@pytest.mark.parametrize("step", [1, 2])
def test_a_failing_swap_brings_the_old_folder_back(
    step: int, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _make(tmp_path / "f", b"old")
    before = _contents(tmp_path)
    count = _fail_at(step, monkeypatch, error)
    with pytest.raises(IplError if isinstance(error, OSError) else KeyboardInterrupt):
        _make(tmp_path / "f", b"new")
    assert count[0] >= step
    assert _contents(tmp_path) == before


def test_a_link_to_a_folder_keeps_leading_there(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    _make(tmp_path / "link", b"new")
    assert sorted(os.listdir(tmp_path)) == ["link", "real"]  # nothing is left behind
    assert (tmp_path / "real" / "one").read_bytes() == b"new"


def test_several_writers_leave_one_whole_folder(tmp_path: Path) -> None:
    def write(number: int) -> str | None:
        try:
            _make(tmp_path / "f", b"%d" % number)
        except IplError as error:  # another one was faster: that may be said
            return str(error)
        return None

    with ThreadPoolExecutor(8) as threads:
        said = list(threads.map(write, range(200)))
    assert None in said
    assert sorted(os.listdir(tmp_path)) == ["f"]
    assert (tmp_path / "f" / "one").read_bytes() == (tmp_path / "f" / "two").read_bytes()
