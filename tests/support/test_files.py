"""Writing whole or not at all: files, folders, failures half-way, several writers at once."""

from __future__ import annotations

import errno
import os
import signal
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from ipl.support.errors import FolderInUseError, IplError
from ipl.support.files import (
    check_file_writable,
    claim_folder,
    recover_folder,
    replace_file,
    replace_folder,
    write_bytes,
    write_text,
)
from tests.helpers.forked import kill_at


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


def _fork(action: Callable[[], object]) -> int:
    """Returns the id of a process that does something and ends."""
    child = os.fork()
    if child == 0:
        try:
            action()
        finally:
            os._exit(0)
    return child


def _killed_at(step: int, action: Callable[[], object]) -> bool:
    """Does something in a process that is killed before its n-th step; False if it has fewer."""

    def count_down() -> None:
        kill_at(step)
        action()

    _, status = os.waitpid(_fork(count_down), 0)
    assert os.waitstatus_to_exitcode(status) in (0, -signal.SIGKILL)
    return os.WIFSIGNALED(status)


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="makes processes by forking")
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_modes_follow_the_umask(tmp_path: Path) -> None:
    umask = 0o027
    before = os.umask(umask)
    try:
        write_bytes(tmp_path / "a", b"")
        with replace_folder(tmp_path / "f") as work:
            save_file({"soft": np.zeros(2)}, work / "b")  # which writes private files
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


def _make(path: Path, content: bytes, overwrite: bool = True) -> None:
    with replace_folder(path, overwrite) as work:
        (work / "one").write_bytes(content)
        (work / "two").write_bytes(content)


@pytest.mark.faults
@pytest.mark.parametrize(("error", "there"), [(FULL, True), (KeyboardInterrupt(), False)])
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
@pytest.mark.parametrize(
    ("step", "error"), [(1, FULL), (2, FULL), (3, FULL), (3, KeyboardInterrupt())]
)
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


def test_a_write_leaves_what_others_are_writing(tmp_path: Path) -> None:
    with replace_file(tmp_path / "a") as one:
        one.write_bytes(b"one")
        write_bytes(tmp_path / "a", b"two")
        assert (tmp_path / "a").read_bytes() == b"two"
    assert _contents(tmp_path) == {"a": b"one"}


# -- processes that are killed --------------------------------------------------------------------


@forks
@pytest.mark.faults
def test_a_file_that_is_killed_at_any_step_is_old_or_new(tmp_path: Path) -> None:
    step, contents = 1, set[bytes]()
    write_bytes(tmp_path / "a", b"old")
    while _killed_at(step, lambda: write_bytes(tmp_path / "a", b"new")):
        contents.add((tmp_path / "a").read_bytes())
        write_bytes(tmp_path / "a", b"old")
        step += 1
    assert step > 4
    assert contents == {b"old", b"new"}


def test_a_link_to_a_file_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for name in ("old", "new"):
        (tmp_path / name).symlink_to(Path("there", name))
    (tmp_path / "there" / "old").write_text("before")
    for name in ("old", "new"):
        write_text(tmp_path / name, "now")
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / "there" / name).read_text() == "now"
    assert sorted(path.name for path in (tmp_path / "there").iterdir()) == ["new", "old"]


def test_a_pipe_or_device_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        for write in (partial(write_text, text="x"), check_file_writable):
            with pytest.raises(IplError, match="not a regular file"):
                write(tmp_path / name)
    assert (tmp_path / "pipe").is_fifo()


@forks
@pytest.mark.faults
def test_a_folder_that_is_killed_at_any_step_is_old_or_new(tmp_path: Path) -> None:
    """A kill between the two renames leaves it at neither path, until the next one looks."""
    path, step, outcomes = tmp_path / "f", 1, list[tuple[bool, bytes]]()
    _make(path, b"old")
    while _killed_at(step, lambda: _make(path, b"new")):
        there = path.exists()
        recover_folder(path)
        content = (path / "one").read_bytes()
        assert _contents(path) == {"one": content, "two": content}
        outcomes.append((there, content))
        _make(path, b"old")
        assert sorted(os.listdir(tmp_path)) == ["f"]  # nothing of the killed one is left
        step += 1
    assert {*outcomes} == {(True, b"old"), (False, b"new"), (True, b"new")}
    assert sorted(os.listdir(tmp_path)) == ["f"]


def test_what_was_replaced_does_not_come_back(tmp_path: Path) -> None:
    """Only the old folder is left when a process is killed while it removes that."""
    (tmp_path / ".f.old").mkdir()
    recover_folder(tmp_path / "f")
    assert os.listdir(tmp_path) == []


# -- on disk --------------------------------------------------------------------------------------


def test_everything_is_on_disk_before_it_is_renamed_and_its_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[tuple[str, str]] = []
    fsync, replace = os.fsync, os.replace

    def spy_fsync(handle: int) -> None:
        events.append(("sync", os.readlink(f"/proc/self/fd/{handle}")))
        fsync(handle)

    def spy_replace(source: Any, target: Any) -> None:
        events.append(("rename", str(source)))
        replace(source, target)
        events.append(("done", str(target)))

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("the names of open files are in /proc on Linux")
    monkeypatch.setattr(os, "fsync", spy_fsync)
    monkeypatch.setattr(os, "replace", spy_replace)
    write_text(tmp_path / "a", "text")
    kinds = [kind for kind, _ in events]
    assert kinds == ["sync", "rename", "done", "sync"]
    assert events[0][1] == events[1][1]
    assert events[-1] == ("sync", str(tmp_path))
    events.clear()
    _make(tmp_path / "f", b"new")
    renamed = next(i for i, event in enumerate(events) if event[0] == "rename")
    work = events[renamed][1]
    assert {path for _, path in events[:renamed]} == {work, f"{work}/one", f"{work}/two"}
    assert events[-1] == ("sync", str(tmp_path))
    events.clear()
    write_bytes(tmp_path / "a", b"", sync=False)
    assert [kind for kind, _ in events] == ["rename", "done"]


# -- claims ---------------------------------------------------------------------------------------


def test_a_claimed_folder_cannot_be_written_by_others(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "f"
    with ThreadPoolExecutor(1) as thread:
        with claim_folder(path):
            with pytest.raises(FolderInUseError, match="f is being written by another process"):
                thread.submit(_make, path, b"other").result()
            _make(path, b"mine")  # the one who claimed it may
            with pytest.raises(FolderInUseError):
                thread.submit(_make, path, b"other").result()
            _make(tmp_path / "deep" / "g", b"free")
        thread.submit(_make, path, b"other").result()
    assert (path / "one").read_bytes() == b"other"
    assert sorted(os.listdir(tmp_path / "deep")) == ["f", "g"]


def test_the_current_folder_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here" / "below").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    for path in (Path(), Path(".."), tmp_path / "here", Path("/")):
        with pytest.raises(IplError, match="it is the current folder, or one around it"):
            _make(path, b"new", overwrite=True)
    _make(Path("below"), b"new", overwrite=True)
    assert (tmp_path / "here" / "below" / "one").read_bytes() == b"new"


def test_a_folder_is_not_replaced_unasked(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    _make(tmp_path / "f", b"first", overwrite=False)
    with pytest.raises(IplError, match="Cannot write .*f: Directory not empty"):
        _make(tmp_path / "f", b"second", overwrite=False)
    (tmp_path / "file").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(IplError, match="Cannot write"):
            _make(tmp_path / "file", b"new", overwrite)
    assert _contents(tmp_path) == {
        "f": None,
        "f/one": b"first",
        "f/two": b"first",
        "file": b"mine",
    }
