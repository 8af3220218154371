"""The disk cache: keys, what comes back, damage, full disks, clearing, several processes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from ipl.support.cache import KINDS, Cache, cache_folder, key_of
from ipl.support.progress import Reporter

KEY = key_of(of="a test")
ARRAYS = {"feature": np.arange(512, dtype=np.float32)}
FACTS = {"words": ["furry", "é"], "loss": 0.1}


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache", Reporter(quiet=True))


def path_of(cache: Cache, key: str = KEY, kind: str = "images") -> Path:
    return cache.folder / kind / key[:2] / key


def has(cache: Cache, kind: str, arrays: dict[str, Any], facts: dict[str, Any]) -> bool:
    """Returns whether the entry has these very bits."""
    entry = cache.get(kind, KEY)
    return (
        entry is not None
        and entry.facts == facts
        and {name: (a.dtype, a.shape, a.tobytes()) for name, a in entry.arrays.items()}
        == {name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()}
    )


def test_folder_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("IPL_CACHE", "~/own")
    assert cache_folder() == Cache().folder == tmp_path / "home" / "own"
    monkeypatch.setenv("IPL_CACHE", "")
    assert cache_folder() == tmp_path / "xdg" / "ipl"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/folder")
    assert cache_folder() == tmp_path / "home" / ".cache" / "ipl"


def test_bits_come_back(cache: Cache) -> None:
    assert cache.get("selections", KEY) is None
    assert not cache.folder.exists()  # looking makes nothing
    odd = np.array([0.0, -0.0, np.nan, np.inf, 1e-45], dtype=np.float32)
    odd.view(np.uint32)[2] = 0x7FC00123  # a NaN with something in it
    arrays = {
        "odd": odd,
        "transposed": np.arange(6, dtype=np.float16).reshape(2, 3).T,
        "yes": np.array([True, False]),
        "scalar": np.array(3.5),
        "empty": np.zeros((0, 512), dtype=np.float32),
    }
    cache.put("selections", KEY, {}, {"of": "before"})
    cache.put("selections", KEY, arrays, FACTS)
    assert has(cache, "selections", arrays, FACTS)
    assert cache.reporter.warnings == []


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut by one": lambda data: data[:-1],
    "no facts": lambda data: save(ARRAYS),
    "facts that are a list": lambda data: save(ARRAYS, {"facts": "[]"}),
    "facts far too deep": lambda data: save(ARRAYS, {"facts": "[" * 100_000}),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_entry_is_missing_and_removed(
    cache: Cache, damage: Callable[[bytes], bytes]
) -> None:
    cache.put("images", KEY, ARRAYS, FACTS)
    path = path_of(cache)
    path.write_bytes(damage(path.read_bytes()))
    assert cache.get("images", KEY) is None
    assert cache.get("images", KEY) is None  # now it is simply not there
    (warning,) = cache.reporter.warnings
    assert str(path) in warning
    cache.put("images", KEY, ARRAYS, FACTS)
    assert has(cache, "images", ARRAYS, FACTS)


def test_a_full_disk(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.put("selections", KEY, ARRAYS, {})

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", fail)
        for number in range(5):
            cache.put("images", key_of(number=number), ARRAYS, {})
    (warning,) = cache.reporter.warnings
    assert "No space left" in warning
    cache.put("images", KEY, ARRAYS, {})  # it has given up; another Cache has not
    assert cache.usage()["images"] == (0, 0)
    assert has(cache, "selections", ARRAYS, {})  # reading goes on
    assert list(cache.folder.rglob(".*")) == []
    again = Cache(cache.folder)
    again.put("images", KEY, ARRAYS, {})
    assert has(again, "images", ARRAYS, {})


def test_clear_removes_entries_and_leaves_other_files_alone(cache: Cache) -> None:
    for kind in KINDS:
        cache.put(kind, KEY, ARRAYS, {})
    sizes = {kind: path_of(cache, kind=kind).stat().st_size for kind in KINDS}
    assert cache.usage() == {kind: (1, size) for kind, size in sizes.items()}
    path_of(cache).with_name(f".{KEY[:40]}.0123abcd.tmp").write_text("of a killed process")
    foreign = {
        f"pictures/{KEY[:2]}/{KEY}",  # a folder that is no kind
        "images/holiday.jpg",
        f"images/{KEY[:2]}/{KEY[:63]}",
        f"images/holiday/{KEY}",
    }
    for name in foreign:
        path = cache.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    assert cache.clear() == (len(KINDS), sum(sizes.values()))
    left = {p.relative_to(cache.folder).as_posix() for p in cache.folder.rglob("*") if p.is_file()}
    assert left == foreign


def test_entries_expire_or_are_dropped(cache: Cache) -> None:
    old, new = key_of(of="old"), key_of(of="new")
    for kind, key in (("trainings", old), ("trainings", new), ("images", old)):
        cache.put(kind, key, ARRAYS, {})
    for kind in ("trainings", "images"):
        os.utime(path_of(cache, old, kind), (0, 0))
    cache.expire("trainings", 3600)
    assert not cache.has("trainings", old)
    assert cache.has("trainings", new)
    assert cache.has("images", old)
    os.utime(path_of(cache, new, "trainings"), (4e9, 4e9))  # the clock has gone back
    cache.expire("trainings", 3600)
    for _ in range(2):
        cache.drop("trainings", new)
    assert not cache.has("trainings", new)
