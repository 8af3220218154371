"""The disk cache: keys, what comes back, damage, full disks, clearing, several processes."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from ipl.support.cache import KINDS, Cache, CacheEntry, cache_folder, key_of
from ipl.support.progress import Reporter

KEY = key_of(of="a test")
PART = KEY[:2]
ARRAYS = {"feature": np.arange(512, dtype=np.float32)}
FACTS = {"words": ["furry", "é"], "loss": 0.1}


@pytest.fixture
def reporter() -> Reporter:
    return Reporter(quiet=True)


@pytest.fixture
def cache(tmp_path: Path, reporter: Reporter) -> Cache:
    return Cache(tmp_path / "cache", reporter)


def entry_path(cache: Cache, key: str = KEY, kind: str = "images") -> Path:
    return cache.folder / kind / key[:2] / key


def same(entry: CacheEntry | None, arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> bool:
    assert entry is not None
    assert entry.facts == facts
    assert set(entry.arrays) == set(arrays)
    for name, array in arrays.items():
        assert entry.arrays[name].dtype == array.dtype
        assert entry.arrays[name].shape == array.shape
        assert entry.arrays[name].tobytes() == array.tobytes()
    return True


# -- where ----------------------------------------------------------------------------------------


def test_folder_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("IPL_CACHE", str(tmp_path / "own"))
    assert cache_folder() == Cache().folder == tmp_path / "own"
    monkeypatch.setenv("IPL_CACHE", "~/own")
    assert cache_folder() == tmp_path / "home" / "own"
    monkeypatch.setenv("IPL_CACHE", "")
    assert cache_folder() == tmp_path / "xdg" / "ipl"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/folder")
    assert cache_folder() == tmp_path / "home" / ".cache" / "ipl"


# -- keys -----------------------------------------------------------------------------------------


def test_key_is_the_hash_of_canonical_json() -> None:
    text = '{"a":[1,2.5,null,true],"b":{"c":"\\u00e9","d":-0.1}}'
    expected = hashlib.sha256(text.encode()).hexdigest()
    assert key_of(b={"d": -0.1, "c": "é"}, a=(1, 2.5, None, True)) == expected
    assert key_of(a=[1, 2.5, None, True], b={"c": "é", "d": -0.1}) == expected
    for value in (Path("a"), b"a", float("nan"), np.float32(1)):
        with pytest.raises((TypeError, ValueError)):
            key_of(part=value)


# -- what comes back ------------------------------------------------------------------------------


def test_bits_come_back(cache: Cache, reporter: Reporter) -> None:
    odd = np.array([0.0, -0.0, np.nan, np.inf, 1e-45], dtype=np.float32)
    odd.view(np.uint32)[2] = 0x7FC00123  # a NaN with something in it
    arrays = {
        "odd": odd,
        "half": np.arange(4, dtype=np.float16),
        "long": np.array([2**62, -1]),
        "yes": np.array([True, False]),
        "scalar": np.array(3.5),
        "empty": np.zeros((0, 512), dtype=np.float32),
    }
    cache.put("words", KEY, arrays, FACTS)
    assert same(cache.get("words", KEY), arrays, FACTS)
    assert reporter.warnings == []


def test_nothing_is_made_by_looking(cache: Cache, reporter: Reporter) -> None:
    assert cache.get("images", KEY) is None
    assert cache.usage() == dict.fromkeys(KINDS, (0, 0))
    assert list(cache.entries("words")) == []
    assert cache.clear() == (0, 0)
    assert not cache.folder.exists()
    assert reporter.warnings == []


# -- damage ---------------------------------------------------------------------------------------


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut by one": lambda data: data[:-1],
    "no facts": lambda data: save(ARRAYS),
    "facts that are a list": lambda data: save(ARRAYS, {"facts": "[]"}),
    "facts far too deep": lambda data: save(ARRAYS, {"facts": "[" * 100_000}),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_entry_is_none_and_goes(
    cache: Cache, reporter: Reporter, damage: Callable[[bytes], bytes]
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
    (warning,) = reporter.warnings
    assert str(path) in warning
    assert warning.endswith("it is computed again.")
    assert cache.get("images", KEY) is None
    assert len(reporter.warnings) == 1  # now it is simply not there
    assert same(cache.get("images", other), ARRAYS, FACTS)
    cache.put("images", KEY, ARRAYS, FACTS)
    assert same(cache.get("images", KEY), ARRAYS, FACTS)


# -- folders that cannot be written ---------------------------------------------------------------


def test_a_file_in_the_way(cache: Cache, reporter: Reporter) -> None:
    cache.folder.write_text("mine")
    for number in range(3):
        assert cache.get("images", KEY) is None
        cache.put("images", KEY, ARRAYS, {"number": number})
    (warning,) = reporter.warnings
    assert str(cache.folder) in warning
    assert cache.usage()["images"] == (0, 0)
    assert list(cache.entries("images")) == []
    assert cache.clear() == (0, 0)
    assert cache.folder.read_text() == "mine"


def test_a_full_disk(cache: Cache, reporter: Reporter, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.put("words", KEY, ARRAYS, {})

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", fail)
        for n in range(5):
            cache.put("images", key_of(n=n), ARRAYS, {})
    (warning,) = reporter.warnings
    assert "no space left" in warning
    assert str(cache.folder) in warning
    cache.put("images", KEY, ARRAYS, {})  # it has given up; another Cache has not
    assert cache.get("images", KEY) is None
    assert same(cache.get("words", KEY), ARRAYS, {})  # reading goes on
    assert cache.usage()["images"] == (0, 0)
    assert list(cache.folder.rglob(".*")) == []
    again = Cache(cache.folder, reporter)
    again.put("images", KEY, ARRAYS, {})
    assert same(again.get("images", KEY), ARRAYS, {})
    assert len(reporter.warnings) == 1


# -- listing and clearing -------------------------------------------------------------------------


def test_entries_are_listed_and_cleared_by_kind(cache: Cache) -> None:
    keys = sorted(key_of(number=number) for number in range(5))
    for number, key in enumerate(keys):
        cache.put("selections", key, ARRAYS, {"number": number})
    cache.put("words", keys[0], {}, {"of": "before"})
    cache.put("words", keys[0], {}, FACTS)
    listed = list(cache.entries("selections"))
    assert [(each.key, each.facts["number"]) for each in listed] == [
        *zip(keys, range(5), strict=True)
    ]
    assert all(each.path.stat().st_size == each.bytes for each in listed)
    usage = {
        "images": (0, 0),
        "words": (1, entry_path(cache, keys[0], "words").stat().st_size),
        "selections": (5, sum(each.bytes for each in listed)),
        "trainings": (0, 0),
    }
    assert cache.usage() == usage
    assert cache.clear("words") == usage["words"]
    assert cache.usage() == {**usage, "words": (0, 0)}
    assert cache.clear() == usage["selections"]
    assert cache.usage() == dict.fromkeys(KINDS, (0, 0))
    cache.put("images", KEY, ARRAYS, {})
    assert same(cache.get("images", KEY), ARRAYS, {})


def test_clear_leaves_other_files_alone(cache: Cache) -> None:
    for kind in KINDS:
        cache.put(kind, KEY, ARRAYS, {})
    entry_path(cache).with_name(f".{KEY[:40]}.0123abcd.tmp").write_text("of a killed process")
    foreign = {
        f"{PART}/{KEY}",
        f"pictures/{PART}/{KEY}",  # a folder that is no kind
        "images/holiday.jpg",
        f"images/{PART}/photo.jpg",
        f"images/{PART}/{KEY[:63]}",
        f"images/holiday/{KEY}",
    }
    for name in foreign:
        path = cache.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    assert cache.clear()[0] == len(KINDS)
    left = {p.relative_to(cache.folder).as_posix() for p in cache.folder.rglob("*") if p.is_file()}
    assert left == foreign


def test_entries_expire_or_are_dropped(cache: Cache) -> None:
    old, new = key_of(of="old"), key_of(of="new")
    for kind, key in (("trainings", old), ("trainings", new), ("images", old)):
        cache.put(kind, key, ARRAYS, {})
    for kind in ("trainings", "images"):
        os.utime(entry_path(cache, old, kind), (0, 0))
    cache.expire("trainings", 3600)
    assert not cache.has("trainings", old)
    assert cache.has("trainings", new)
    assert cache.has("images", old)
    for _ in range(2):
        cache.drop("trainings", new)
    assert not cache.has("trainings", new)


# -- several processes ----------------------------------------------------------------------------

WRITER = """
import sys
from pathlib import Path
import numpy as np
from ipl.support.cache import Cache, key_of
from ipl.support.progress import Reporter

class Loud(Reporter):
    def warn(self, message):
        sys.exit(f"warned: {message}")

cache, value = Cache(Path(sys.argv[1]), Loud(quiet=True)), int(sys.argv[2])
for turn in range(50):
    array = np.full(5000, value, dtype=np.float32)
    cache.put("images", key_of(of="all"), {"feature": array}, {"value": value})
    entry = cache.get("images", key_of(of="all"))  # whole, whoever wrote it
    assert len(entry.arrays["feature"]) == 5000
    assert (entry.arrays["feature"] == entry.facts["value"]).all()
"""


def test_processes_that_write_one_entry_at_once(cache: Cache) -> None:
    commands = [[sys.executable, "-c", WRITER, str(cache.folder), str(n)] for n in range(3)]
    for running in [subprocess.Popen(each, stderr=subprocess.PIPE, text=True) for each in commands]:
        _, said = running.communicate(timeout=120)
        assert running.returncode == 0, said
    assert cache.usage()["images"][0] == 1
    assert list(cache.folder.rglob(".*")) == []
