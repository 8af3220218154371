"""Writing whole or not at all: files, folders, failures half-way, several writers at once."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ipl.support.errors import DataError, FolderInUseError, IplError
from ipl.support.files import (
    claim_folder,
    read_text,
    recover_folder,
    replace_folder,
    to_json,
    write_bytes,
    write_text,
)
from tests.helpers.files import contents
from tests.helpers.forked import kill_at

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _make(path: Path, content: bytes, overwrite: bool = True) -> None:
    with replace_folder(path, overwrite) as new:
        (new / "one").write_bytes(content)
        (new / "two").write_bytes(content)


def _killed_at(step: int, action: Callable[[], object]) -> bool:
    """Does something in a process that is killed before its n-th step; False if it has fewer."""
    child = os.fork()
    if child == 0:
        try:
            kill_at(step)
            action()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) in (0, -signal.SIGKILL)
    return os.WIFSIGNALED(status)


def _fail(error: BaseException, *_: Any) -> None:
    raise error


# -- text -----------------------------------------------------------------------------------------


def test_control_characters_of_strangers_reach_no_file(tmp_path: Path) -> None:
    text = "a\x1b]0;title\x07 \x9b31mred\u202e\n\tb"
    write_text(tmp_path / "a", text)
    assert (tmp_path / "a").read_text() == "a]0;title 31mred\n\tb"
    assert to_json({"a": "\x1b\x9b é"}) == '{\n  "a": "\\u001b\\u009b é"\n}'


def test_only_regular_files_are_read_and_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "missing"):
        with pytest.raises(DataError, match=str(path)):
            read_text(path)
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        with pytest.raises(IplError, match=name):
            write_text(tmp_path / name, "x")
    assert (tmp_path / "pipe").is_fifo()


# -- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [FULL, KeyboardInterrupt()], ids=["full disk", "Ctrl-C"])
def test_a_failed_write_leaves_the_old_file_alone(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_bytes(tmp_path / "a", b"old")
    monkeypatch.setattr(os, "replace", partial(_fail, error))
    with pytest.raises(IplError if error is FULL else KeyboardInterrupt):
        write_bytes(tmp_path / "a", b"new")
    assert contents(tmp_path) == {"a": b"old"}


def test_links_lead_where_they_did(tmp_path: Path) -> None:
    (tmp_path / "there" / "folder").mkdir(parents=True)
    for name in ("file", "folder"):
        (tmp_path / name).symlink_to(Path("there", name))
    write_text(tmp_path / "file", "now")
    _make(tmp_path / "folder", b"now")
    assert (tmp_path / "file").is_symlink()
    assert (tmp_path / "there" / "file").read_text() == "now"
    assert (tmp_path / "there" / "folder" / "one").read_bytes() == b"now"
    assert sorted(os.listdir(tmp_path / "there")) == ["file", "folder"]


# -- folders --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("error", "there"), [(FULL, True), (KeyboardInterrupt(), False)])
def test_a_failing_block_changes_nothing(error: BaseException, there: bool, tmp_path: Path) -> None:
    if there:
        _make(tmp_path / "f", b"old")
    before = contents(tmp_path)

    def fail_half_way() -> None:
        with replace_folder(tmp_path / "f") as new:
            (new / "one").write_bytes(b"half")
            raise error

    with pytest.raises(IplError if error is FULL else KeyboardInterrupt):
        fail_half_way()
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("call", "error"), [(1, FULL), (2, FULL), (3, FULL), (3, KeyboardInterrupt())]
)
def test_a_failing_swap_brings_the_old_folder_back(
    call: int, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _make(tmp_path / "f", b"old")
    before, calls, replace = contents(tmp_path), list[Any](), os.replace

    def fail(source: Any, target: Any) -> None:
        calls.append(source)
        if len(calls) == call:
            raise error
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(IplError if error is FULL else KeyboardInterrupt):
        _make(tmp_path / "f", b"new")
    assert len(calls) >= call
    assert contents(tmp_path) == before


@pytest.mark.faults
def test_a_folder_that_is_killed_at_any_step_is_old_or_new(tmp_path: Path) -> None:
    """A kill between the two renames leaves it at neither path, until the next one looks."""
    path, step, outcomes = tmp_path / "f", 1, list[tuple[bool, bytes]]()
    _make(path, b"old")
    while _killed_at(step, lambda: _make(path, b"new")):
        there = path.exists()
        recover_folder(path)
        content = (path / "one").read_bytes()
        assert contents(path) == {"one": content, "two": content}
        outcomes.append((there, content))
        _make(path, b"old")
        assert sorted(os.listdir(tmp_path)) == ["f"]  # nothing of the killed one is left
        step += 1
    assert {*outcomes} == {(True, b"old"), (False, b"new"), (True, b"new")}


def test_a_claimed_folder_cannot_be_written_by_others(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "f"
    with ThreadPoolExecutor(1) as thread:
        with claim_folder(path):
            with pytest.raises(FolderInUseError, match="f"):
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
        with pytest.raises(IplError, match="current folder"):
            _make(path, b"new")
    _make(Path("below"), b"new")
    assert (tmp_path / "here" / "below" / "one").read_bytes() == b"new"


def test_a_folder_is_not_replaced_unasked(tmp_path: Path) -> None:
    (tmp_path / "f").mkdir()
    _make(tmp_path / "f", b"first", overwrite=False)
    with pytest.raises(IplError, match="f"):
        _make(tmp_path / "f", b"second", overwrite=False)
    (tmp_path / "file").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(IplError, match="file"):
            _make(tmp_path / "file", b"new", overwrite)
    assert contents(tmp_path) == {
        "f": None,
        "f/one": b"first",
        "f/two": b"first",
        "file": b"mine",
    }
