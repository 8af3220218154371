"""The disk cache: damage of every kind, full disks, folders that cannot be written."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import save

from ipl.support.cache import Cache, key_of
from ipl.support.errors import IplError
from tests.helpers.cache import ARRAYS, FACTS, KEY, PART, Ear, entry_path, refuse, same, sealed

# -- damage ---------------------------------------------------------------------------------------


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "zeros": lambda data: bytes(len(data)),
    "cut by one": lambda data: data[:-1],
    "cut in half": lambda data: data[: len(data) // 2],
    "only a header": lambda data: data[:77],
    "half a header": lambda data: data[:30],
    "one byte longer": lambda data: data + b"\0",
    "one bit in the array": lambda data: data[:-5] + bytes([data[-5] ^ 1]) + data[-4:],
    "one bit in the facts": lambda data: data.replace(b"furry", b"funny"),
    "another checksum": lambda data: data[:12] + b"0" * 64 + data[76:],
    "another name": lambda data: b"cpl" + data[3:],
    "no line end": lambda data: data.replace(b"\n", b" ", 1),
    "a pickle": lambda data: b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94.",
    "no safetensors": lambda data: sealed(b"hello"),
    "nothing behind": lambda data: sealed(b""),
    "safetensors too short": lambda data: sealed(data[77:-4]),
    "a header without end": lambda data: sealed(struct.pack("<Q", 1 << 60) + b"{}"),
    "a header that is a list": lambda data: sealed(struct.pack("<Q", 2) + b"[]"),
    "no facts": lambda data: sealed(save(ARRAYS)),
    "facts elsewhere": lambda data: sealed(save(ARRAYS, {"other": "{}"})),
    "facts that are no JSON": lambda data: sealed(save(ARRAYS, {"facts": "{'a': 1}"})),
    "facts that are a list": lambda data: sealed(save(ARRAYS, {"facts": "[]"})),
    "facts with NaN": lambda data: sealed(save(ARRAYS, {"facts": '{"loss": NaN}'})),
    "facts far too deep": lambda data: sealed(save(ARRAYS, {"facts": "[" * 100_000})),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_entry_is_none_and_goes(
    cache: Cache, ear: Ear, damage: Callable[[bytes], bytes]
) -> None:
    other = key_of(another=1)
    for key in (KEY, other):
        cache.put("images", key, ARRAYS, FACTS)
    path = entry_path(cache)
    whole = path.read_bytes()
    damaged = damage(whole)
    assert damaged != whole
    path.write_bytes(damaged)
    assert len(list(cache.entries("images"))) == 2  # a listing does not stumble
    assert cache.get("images", KEY) is None
    assert not path.exists()
    (heard,) = ear.heard
    assert str(path) in heard
    assert heard.endswith("it is computed anew.")
    assert cache.get("images", KEY) is None
    assert len(ear.heard) == 1  # now it is simply not there
    assert same(cache.get("images", other), ARRAYS, FACTS)
    cache.put("images", KEY, ARRAYS, FACTS)
    assert same(cache.get("images", KEY), ARRAYS, FACTS)


def test_a_folder_in_its_place(cache: Cache, ear: Ear) -> None:
    path = entry_path(cache)
    path.mkdir(parents=True)
    assert list(cache.entries("images")) == []
    assert cache.get("images", KEY) is None
    assert len(ear.heard) == 1
    assert str(path) in ear.heard[0]
    cache.put("images", KEY, ARRAYS, {})
    assert same(cache.get("images", KEY), ARRAYS, {})


def test_a_folder_in_its_place_with_something_in_it_stays(cache: Cache, ear: Ear) -> None:
    path = entry_path(cache)
    path.mkdir(parents=True)
    (path / "mine.txt").write_text("mine")
    assert cache.get("images", KEY) is None
    cache.put("images", KEY, ARRAYS, {})  # cannot, and says so
    assert len(ear.heard) == 2
    assert cache.clear() == (0, 0)
    assert (path / "mine.txt").read_text() == "mine"


def test_an_entry_that_cannot_be_read(
    cache: Cache, ear: Ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.put("images", KEY, ARRAYS, {})
    real = open

    def open_others(path: Any, *rest: Any, **more: Any) -> Any:
        return (refuse if str(path) == str(entry_path(cache)) else real)(path, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr("builtins.open", open_others)
        ((_, _, _, facts),) = cache.entries("images")
        assert facts == {}
        assert cache.get("images", KEY) is None
    assert "permission denied" in ear.heard[0]
    assert not entry_path(cache).exists()


def test_damage_that_cannot_be_removed(
    cache: Cache, ear: Ear, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.put("images", KEY, ARRAYS, {})
    entry_path(cache).write_bytes(b"damaged")
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        assert cache.get("images", KEY) is None
        assert len(ear.heard) == 1
        with pytest.raises(IplError, match="Removed 0 cache entries; 1 could not be.*denied"):
            cache.clear()


@pytest.mark.parametrize("version", [b"0", b"2", b"17"])
def test_another_version_is_silently_replaced(cache: Cache, ear: Ear, version: bytes) -> None:
    path = entry_path(cache)
    path.parent.mkdir(parents=True)
    path.write_bytes(sealed(b"what the future holds", version))
    assert cache.get("images", KEY) is None
    assert path.exists()
    assert [listed.facts for listed in cache.entries("images")] == [{}]
    cache.put("images", KEY, ARRAYS, FACTS)
    assert same(cache.get("images", KEY), ARRAYS, FACTS)
    assert ear.heard == []


# -- folders that cannot be written ---------------------------------------------------------------


@pytest.mark.parametrize("where", ["cache", "cache/images", f"cache/images/{PART}"])
def test_a_file_in_the_way(tmp_path: Path, cache: Cache, ear: Ear, where: str) -> None:
    (tmp_path / where).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / where).write_text("mine")
    for number in range(3):
        assert cache.get("images", KEY) is None
        cache.put("images", KEY, ARRAYS, {"number": number})
    (heard,) = ear.heard
    assert str(cache.folder) in heard
    assert cache.usage()["images"] == (0, 0)
    assert list(cache.entries("images")) == []
    assert cache.clear() == (0, 0)
    assert (tmp_path / where).read_text() == "mine"


@pytest.mark.parametrize("call", ["tempfile.mkstemp", "os.replace", "os.mkdir"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_disk_that_is_full_or_read_only(
    cache: Cache, ear: Ear, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    cache.put("words", KEY, ARRAYS, {})

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(call, fail)
        for n in range(5):
            cache.put("images", key_of(n=n), ARRAYS, {})
    (heard,) = ear.heard
    assert os.strerror(number).lower() in heard
    assert str(cache.folder) in heard
    cache.put("images", KEY, ARRAYS, {})  # it has given up; another Cache has not
    assert cache.get("images", KEY) is None
    assert same(cache.get("words", KEY), ARRAYS, {})  # reading goes on
    assert cache.usage()["images"] == (0, 0)
    assert list(cache.folder.rglob(".*")) == []
    again = Cache(cache.folder, ear)
    again.put("images", KEY, ARRAYS, {})
    assert same(again.get("images", KEY), ARRAYS, {})
    assert len(ear.heard) == 1


def test_a_folder_that_cannot_be_entered_is_empty(cache: Cache, ear: Ear) -> None:
    far = Cache(cache.folder / ("x" * 300), ear)  # no system has such names
    for _ in range(3):
        assert far.get("images", KEY) is None
    assert ear.heard == []  # thousands of images must not give thousands of warnings
    far.put("images", KEY, ARRAYS, {})
    far.put("images", KEY, ARRAYS, {})
    assert len(ear.heard) == 1


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder(cache: Cache, ear: Ear) -> None:
    cache.put("images", KEY, ARRAYS, {})
    entry_path(cache).parent.chmod(0o500)
    try:
        cache.put("images", KEY, ARRAYS, {"new": 1})
        cache.put("images", KEY, ARRAYS, {"new": 2})
        assert len(ear.heard) == 1
        assert same(cache.get("images", KEY), ARRAYS, {})
    finally:
        entry_path(cache).parent.chmod(0o700)
