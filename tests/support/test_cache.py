"""The disk cache: keys, what comes back, damage, full disks, clearing, several processes."""

from __future__ import annotations

import enum
import errno
import hashlib
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from ipl.support.cache import KINDS, Cache, CacheEntry, cache_folder, key_of
from ipl.support.errors import IplError
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


def sealed(payload: bytes, version: int = 2, name: str = f"images/{KEY} ") -> bytes:
    """Returns an entry whose checksum is right, whatever it holds."""
    checksum = hashlib.sha256(payload).hexdigest()
    return f"ipl-cache {version} {name}{checksum}\n".encode() + payload


def same(entry: CacheEntry | None, arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> bool:
    assert entry is not None
    assert entry.facts == facts
    assert set(entry.arrays) == set(arrays)
    for name, array in arrays.items():
        assert entry.arrays[name].dtype == array.dtype
        assert entry.arrays[name].shape == array.shape
        assert entry.arrays[name].tobytes() == array.tobytes()
    return True


def refuse(path: Any, *_: Any, **__: Any) -> None:
    raise PermissionError(errno.EACCES, "Permission denied", str(path))


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
    monkeypatch.delenv("IPL_CACHE")
    assert cache_folder() == tmp_path / "xdg" / "ipl"
    for nothing in ("", "relative/folder"):
        monkeypatch.setenv("XDG_CACHE_HOME", nothing)
        assert cache_folder() == tmp_path / "home" / ".cache" / "ipl"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == tmp_path / "home" / ".cache" / "ipl"


def test_a_user_without_a_home_gets_no_folder_called_tilde(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("IPL_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert cache_folder().is_absolute()
    assert "~" not in str(cache_folder())


def test_a_relative_folder_does_not_move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    cache = Cache(Path("kept"))
    cache.put("images", KEY, ARRAYS, {})
    monkeypatch.chdir("elsewhere")
    assert same(cache.get("images", KEY), ARRAYS, {})
    assert not (tmp_path / "elsewhere" / "kept").exists()


def test_tests_never_see_the_users_cache() -> None:
    assert not str(cache_folder()).startswith(os.path.expanduser("~/.cache"))
    assert not cache_folder().exists()
    code = "from ipl.support.cache import cache_folder; print(cache_folder())"
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert seen.stdout.strip() == str(cache_folder())


# -- keys -----------------------------------------------------------------------------------------


def test_key_is_the_hash_of_canonical_json() -> None:
    text = '{"a":[1,2.5,null,true],"b":{"c":"\\u00e9","d":-0.1}}'
    expected = hashlib.sha256(text.encode()).hexdigest()
    assert key_of(b={"d": -0.1, "c": "é"}, a=(1, 2.5, None, True)) == expected
    assert key_of(a=[1, 2.5, None, True], b={"c": "é", "d": -0.1}) == expected


@pytest.mark.parametrize("seed", ["0", "1"])
def test_key_in_another_process(seed: str) -> None:
    code = (
        "from ipl.support.cache import key_of; print(key_of(z={'b': 1, 'a': [0.1]}, y='é', x=None))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONUTF8": "1"}
    seen = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, check=True
    )
    assert seen.stdout.decode().strip() == key_of(x=None, y="é", z={"a": [0.1], "b": 1})


def test_different_values_have_different_keys() -> None:
    values = [1, 1.0, True, "1", None, [1], [[1]], {"1": 1}, 0, False, "", [], {}, "null"]
    assert len({key_of(value=value) for value in values}) == len(values)
    assert key_of(a=1) != key_of(b=1)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (Path("a"), "part is a .*Path"),
        (b"a", "part is a bytes"),
        ({1, 2}, "part is a set"),
        ({1: "a"}, "part has the key 1"),
        (float("nan"), "part is nan"),
        (float("inf"), "part is inf"),
        (np.float32(1), "part is a float32"),
        (np.zeros(2), "part is a ndarray"),
        ([0, {"deep": object()}], r"part\[1\].deep is a object"),
        (enum.Enum("E", "A").A, "part is a E"),
    ],
)
def test_values_that_json_cannot_hold(value: Any, named: str) -> None:
    with pytest.raises(TypeError, match=named):
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


def test_views_are_kept_as_they_look(cache: Cache) -> None:
    grid = np.arange(12, dtype=np.float32).reshape(3, 4)
    views = {"turned": grid.T, "every other": grid[:, ::2], "back": grid[::-1], "row": grid[1]}
    cache.put("images", KEY, views, {})
    entry = cache.get("images", KEY)
    assert entry is not None
    for name, view in views.items():
        assert np.array_equal(entry.arrays[name], view)


def test_arrays_can_be_written_to(cache: Cache) -> None:
    cache.put("images", KEY, ARRAYS, {})
    entry = cache.get("images", KEY)
    assert entry is not None
    entry.arrays["feature"][0] = 7  # torch.from_numpy warns of arrays that cannot
    assert same(cache.get("images", KEY), ARRAYS, {})


def test_facts_alone_and_nothing_at_all(cache: Cache) -> None:
    facts = {"deep": {"list": [1, 0.1, None, True, "\u2028\ud800\n"]}, "": ""}
    cache.put("selections", KEY, {}, facts)
    assert same(cache.get("selections", KEY), {}, facts)
    cache.put("selections", KEY, {}, {})
    assert same(cache.get("selections", KEY), {}, {})


def test_the_last_one_counts_and_kinds_are_apart(cache: Cache) -> None:
    for kind in KINDS:
        cache.put(kind, KEY, {}, {"of": "before"})
        cache.put(kind, KEY, {}, {"of": kind})
    for kind in KINDS:
        assert same(cache.get(kind, KEY), {}, {"of": kind})


def test_nothing_is_made_by_looking(cache: Cache, reporter: Reporter) -> None:
    assert cache.get("images", KEY) is None
    assert cache.usage() == dict.fromkeys(KINDS, (0, 0))
    assert list(cache.entries("words")) == []
    assert cache.clear() == (0, 0)
    assert not cache.folder.exists()
    assert reporter.warnings == []


def test_the_file_is_what_it_is_said_to_be(cache: Cache) -> None:
    cache.put("images", KEY, ARRAYS, FACTS)
    assert sorted(p.name for p in cache.folder.rglob("*")) == sorted(["images", PART, KEY])
    payload = save(ARRAYS, {"facts": json.dumps(FACTS, sort_keys=True, separators=(",", ":"))})
    assert entry_path(cache).read_bytes() == sealed(payload)


def test_wrong_use_is_a_bug_not_a_miss(cache: Cache) -> None:
    for call in (cache.get, lambda k, _: list(cache.entries(k)), lambda k, _: cache.clear(k)):
        with pytest.raises(ValueError, match="kind is 'pictures'; allowed are images, words"):
            call("pictures", KEY)
    for key in ("", "../../etc/passwd", KEY[:63], KEY.upper(), KEY + "\n"):
        with pytest.raises(ValueError, match="SHA-256"):
            cache.get("images", key)
        with pytest.raises(ValueError, match="SHA-256"):
            cache.put("images", key, {}, {})
    with pytest.raises(TypeError, match="at is a object"):
        cache.put("images", KEY, {}, {"at": object()})
    assert not cache.folder.exists()


def test_reading_an_entry_lists_no_folder(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.put("images", KEY, ARRAYS, {})
    with monkeypatch.context() as patch:
        for name in ("scandir", "listdir"):
            patch.setattr(os, name, None)  # its cost would grow with the cache
        assert same(cache.get("images", KEY), ARRAYS, {})


def test_one_entry_can_be_dropped(cache: Cache) -> None:
    cache.put("trainings", KEY, ARRAYS, FACTS)
    cache.drop("trainings", KEY)
    assert cache.get("trainings", KEY) is None
    cache.drop("trainings", KEY)  # nothing there is nothing to say


# -- damage ---------------------------------------------------------------------------------------


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut by one": lambda data: data[:-1],
    "half a header": lambda data: data[:30],
    "one byte longer": lambda data: data + b"\0",
    "one bit in the array": lambda data: data[:-5] + bytes([data[-5] ^ 1]) + data[-4:],
    "one bit in the facts": lambda data: data.replace(b"furry", b"funny"),
    "a pickle": lambda data: b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94.",
    "no name": lambda data: sealed(data.partition(b"\n")[2], name=""),
    "no safetensors": lambda data: sealed(b"hello"),
    "a header without end": lambda data: sealed(struct.pack("<Q", 1 << 60) + b"{}"),
    "no facts": lambda data: sealed(save(ARRAYS)),
    "facts that are a list": lambda data: sealed(save(ARRAYS, {"facts": "[]"})),
    "facts with NaN": lambda data: sealed(save(ARRAYS, {"facts": '{"loss": NaN}'})),
    "facts far too deep": lambda data: sealed(save(ARRAYS, {"facts": "[" * 100_000})),
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


def test_a_folder_in_its_place(cache: Cache, reporter: Reporter) -> None:
    path = entry_path(cache)
    path.mkdir(parents=True)
    assert list(cache.entries("images")) == []
    assert cache.get("images", KEY) is None
    assert len(reporter.warnings) == 1
    assert str(path) in reporter.warnings[0]
    cache.put("images", KEY, ARRAYS, {})
    assert same(cache.get("images", KEY), ARRAYS, {})


def test_a_folder_in_its_place_with_something_in_it_stays(cache: Cache, reporter: Reporter) -> None:
    path = entry_path(cache)
    path.mkdir(parents=True)
    (path / "mine.txt").write_text("mine")
    assert cache.get("images", KEY) is None
    cache.put("images", KEY, ARRAYS, {})  # cannot, and says so
    assert len(reporter.warnings) == 2
    assert cache.clear() == (0, 0)
    assert (path / "mine.txt").read_text() == "mine"


def test_an_entry_that_cannot_be_read(
    cache: Cache, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
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
    assert "permission denied" in reporter.warnings[0]
    assert not entry_path(cache).exists()


def test_damage_that_cannot_be_removed(
    cache: Cache, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.put("images", KEY, ARRAYS, {})
    entry_path(cache).write_bytes(b"damaged")
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        assert cache.get("images", KEY) is None
        assert len(reporter.warnings) == 1
        with pytest.raises(IplError, match="Removed 0 .*, but 1 could not be removed.*denied"):
            cache.clear()


@pytest.mark.faults
@pytest.mark.parametrize(("kind", "key"), [("images", key_of(another=1)), ("words", KEY)])
def test_an_entry_with_the_name_of_another_is_refused(
    cache: Cache, reporter: Reporter, kind: str, key: str
) -> None:
    cache.put("images", KEY, ARRAYS, FACTS)
    path = entry_path(cache, key, kind)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(entry_path(cache).read_bytes())
    assert [listed.facts for listed in cache.entries(kind) if listed.key == key] == [{}]
    assert cache.get(kind, key) is None
    assert not path.exists()
    (warning,) = reporter.warnings
    assert warning.endswith(f"{key}: it is the entry of another key; it is computed again.")
    assert same(cache.get("images", KEY), ARRAYS, FACTS)


@pytest.mark.parametrize(("version", "name"), [(17, f"images/{KEY} "), (17, ""), (1, "")])
def test_another_version_is_silently_replaced(
    cache: Cache, reporter: Reporter, version: int, name: str
) -> None:
    path = entry_path(cache)
    path.parent.mkdir(parents=True)
    path.write_bytes(sealed(b"of another version", version, name))
    assert cache.get("images", KEY) is None
    assert path.exists()
    assert [listed.facts for listed in cache.entries("images")] == [{}]
    cache.put("images", KEY, ARRAYS, FACTS)
    assert same(cache.get("images", KEY), ARRAYS, FACTS)
    assert reporter.warnings == []


# -- folders that cannot be written ---------------------------------------------------------------


@pytest.mark.parametrize("where", ["cache", f"cache/images/{PART}"])
def test_a_file_in_the_way(tmp_path: Path, cache: Cache, reporter: Reporter, where: str) -> None:
    (tmp_path / where).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / where).write_text("mine")
    for number in range(3):
        assert cache.get("images", KEY) is None
        cache.put("images", KEY, ARRAYS, {"number": number})
    (warning,) = reporter.warnings
    assert str(cache.folder) in warning
    assert cache.usage()["images"] == (0, 0)
    assert list(cache.entries("images")) == []
    assert cache.clear() == (0, 0)
    assert (tmp_path / where).read_text() == "mine"


@pytest.mark.parametrize(
    ("call", "number"),
    [
        ("tempfile.mkstemp", errno.ENOSPC),
        ("os.replace", errno.EACCES),
        ("pathlib.Path.mkdir", errno.EROFS),  # not os.mkdir, which Python 3.10 binds early
    ],
)
def test_a_disk_that_is_full_or_read_only(
    cache: Cache, reporter: Reporter, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    cache.put("words", KEY, ARRAYS, {})

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(call, fail)
        for n in range(5):
            cache.put("images", key_of(n=n), ARRAYS, {})
    (warning,) = reporter.warnings
    assert os.strerror(number).lower() in warning
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


def test_a_folder_that_cannot_be_entered_is_empty(cache: Cache, reporter: Reporter) -> None:
    far = Cache(cache.folder / ("x" * 300), reporter)  # no system has such names
    for _ in range(3):
        assert far.get("images", KEY) is None
    assert reporter.warnings == []  # thousands of images must not give thousands of warnings
    far.put("images", KEY, ARRAYS, {})
    far.put("images", KEY, ARRAYS, {})
    assert len(reporter.warnings) == 1


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder(cache: Cache, reporter: Reporter) -> None:
    cache.put("images", KEY, ARRAYS, {})
    entry_path(cache).parent.chmod(0o500)
    try:
        cache.put("images", KEY, ARRAYS, {"new": 1})
        cache.put("images", KEY, ARRAYS, {"new": 2})
        assert len(reporter.warnings) == 1
        assert same(cache.get("images", KEY), ARRAYS, {})
    finally:
        entry_path(cache).parent.chmod(0o700)


# -- listing and clearing -------------------------------------------------------------------------


def test_usage_and_entries(cache: Cache) -> None:
    keys = sorted(key_of(number=number) for number in range(5))
    for number, key in enumerate(keys):
        cache.put("selections", key, ARRAYS, {"number": number})
    cache.put("words", KEY, {}, FACTS)
    listed = list(cache.entries("selections"))
    assert [key for key, _, _, _ in listed] == keys
    assert [facts["number"] for _, _, _, facts in listed] == list(range(5))
    for key, path, size, _ in listed:
        assert path == entry_path(cache, key, "selections")
        assert path.stat().st_size == size
    assert cache.usage() == {
        "images": (0, 0),
        "words": (1, entry_path(cache, kind="words").stat().st_size),
        "selections": (5, sum(one.bytes for one in listed)),
        "trainings": (0, 0),
    }


def test_files_that_vanish_while_listed(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = sorted(key_of(number=number) for number in range(4))
    for key in keys:
        cache.put("images", key, ARRAYS, {})
    listing = cache.entries("images")
    assert next(listing).key == keys[0]
    entry_path(cache, keys[1]).unlink()
    assert [one.key for one in listing] == keys[2:]
    real = os.unlink

    def unlink(path: Any) -> None:
        if str(path) == str(entry_path(cache, keys[3])):
            real(path)  # another process was faster
        real(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", unlink)
        count, _ = cache.clear()
    assert count == 2  # what we removed, not what the other did
    assert cache.usage()["images"] == (0, 0)


def test_clear_removes_one_kind_or_all(cache: Cache) -> None:
    for kind in KINDS:
        for number in range(3):
            cache.put(kind, key_of(number=number), ARRAYS, {})
    usage = cache.usage()
    assert cache.clear("words") == usage["words"]
    assert cache.usage() == {**usage, "words": (0, 0)}
    assert not (cache.folder / "words").exists()
    others = [usage[kind] for kind in KINDS if kind != "words"]
    assert cache.clear() == tuple(map(sum, zip(*others, strict=True)))
    assert list(cache.folder.iterdir()) == []
    cache.put("images", KEY, ARRAYS, {})
    assert same(cache.get("images", KEY), ARRAYS, {})


def test_clear_leaves_everything_else_alone(cache: Cache) -> None:
    for kind in KINDS:
        cache.put(kind, KEY, ARRAYS, {})
    foreign = {
        "notes.txt",
        KEY,
        f"{PART}/{KEY}",
        f"pictures/{PART}/{KEY}",  # a folder that is no kind
        "images/holiday.jpg",
        f"images/{KEY}",
        f"images/{PART}/photo.jpg",
        f"images/{PART}/.hidden",
        f"images/{PART}/{KEY}.bak",
        f"images/{PART}/{KEY[:63]}",
        f"images/{PART}/.{KEY[:40]}.1234567",
        f"images/{PART}/sub/{KEY}",
        f"images/holiday/{KEY}",
        f"images/zz/{KEY}",
        f"images/{'00' if PART != '00' else '01'}/{KEY}",  # not where its name belongs
    }
    for name in foreign:
        path = cache.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    (cache.folder / "images" / "an empty one").mkdir()
    assert [count for count, _ in cache.usage().values()] == [1] * len(KINDS)
    assert cache.clear()[0] == len(KINDS)
    left = {p.relative_to(cache.folder).as_posix() for p in cache.folder.rglob("*") if p.is_file()}
    assert left == foreign
    assert (cache.folder / "images" / "an empty one").is_dir()
    assert not (cache.folder / "selections").exists()


def test_clear_does_not_follow_links(cache: Cache, tmp_path: Path) -> None:
    outside = tmp_path / "outside" / PART
    outside.mkdir(parents=True)
    (outside / KEY).write_text("mine")
    (cache.folder / "images").mkdir(parents=True)
    (cache.folder / "images" / PART).symlink_to(outside)
    (cache.folder / "words" / PART).mkdir(parents=True)
    (cache.folder / "words" / PART / KEY).symlink_to(outside / KEY)
    assert cache.clear() == (0, 0)
    assert (outside / KEY).read_text() == "mine"
    assert (cache.folder / "images" / PART).is_symlink()


def test_clear_removes_leftovers_of_a_killed_writer(cache: Cache) -> None:
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from ipl.support.cache import Cache\n"
        "os.replace = lambda *a: os.kill(os.getpid(), signal.SIGKILL)\n"
        "Cache(Path(sys.argv[1])).put('images', sys.argv[2], {}, {'a': 1})\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(cache.folder), KEY], check=False)
    assert done.returncode == -9
    assert len(list(entry_path(cache).parent.glob(".*"))) == 1
    assert cache.get("images", KEY) is None
    assert cache.usage()["images"] == (0, 0)
    assert cache.clear() == (0, 0)
    assert list(cache.folder.iterdir()) == []


def test_a_folder_cleared_under_the_writer(
    cache: Cache, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = os.replace, []

    def replace(source: Any, target: Any) -> None:
        if not calls:
            Cache(cache.folder).clear()  # takes the temporary file and the folder away
        calls.append(target)
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        cache.put("images", KEY, ARRAYS, {})
    assert len(calls) == 2
    assert same(cache.get("images", KEY), ARRAYS, {})
    assert reporter.warnings == []


def test_all_but_image_features_are_put_on_disk_at_once(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync, synced = os.fsync, []
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(file), fsync(file)))
    counts = {}
    for kind in KINDS:
        synced.clear()
        cache.put(kind, KEY, ARRAYS, FACTS)
        counts[kind] = len(synced)
    assert counts == {"images": 0, "words": 2, "selections": 2, "trainings": 2}


def test_entries_expire(cache: Cache) -> None:
    old, new = key_of(of="old"), key_of(of="new")
    for kind, key in (("trainings", old), ("trainings", new), ("images", old)):
        cache.put(kind, key, ARRAYS, {})
    for kind in ("trainings", "images"):
        os.utime(entry_path(cache, old, kind), (0, 0))
    cache.expire("trainings", 3600)
    assert not cache.has("trainings", old)
    assert cache.has("trainings", new)
    assert cache.has("images", old)
    Cache(cache.folder / "none").expire("trainings", 0)
    assert not (cache.folder / "none").exists()


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

folder, writer, job = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
cache = Cache(folder, Loud(quiet=True))
for turn in range(50):
    if job == "clear":
        cache.clear()
        continue
    value = 1000 * writer + turn
    key = key_of(number=0 if job == "same" else value)
    array = np.full(5000, value, dtype=np.float32)
    cache.put("images", key, {"feature": array}, {"value": value})
    entry = cache.get("images", key)  # whole, whoever wrote it
    assert len(entry.arrays["feature"]) == 5000
    assert (entry.arrays["feature"] == entry.facts["value"]).all()
    assert cache.usage()["images"][0] >= 1
"""


def writer(folder: Path, number: int, job: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(folder), str(number), job]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("job", ["same", "different"])
def test_processes_that_write_at_once(cache: Cache, reporter: Reporter, job: str) -> None:
    for running in [writer(cache.folder, number, job) for number in range(3)]:
        _, said = running.communicate(timeout=120)
        assert running.returncode == 0, said
    assert cache.usage()["images"][0] == (1 if job == "same" else 150)
    for listed in cache.entries("images"):
        entry = cache.get("images", listed.key)
        assert entry is not None
        assert (entry.arrays["feature"] == entry.facts["value"]).all()
    assert list(cache.folder.rglob(".*")) == []
    assert reporter.warnings == []


def test_a_process_that_clears_while_others_read(cache: Cache, reporter: Reporter) -> None:
    for number in range(200):
        cache.put("words", key_of(number=number), ARRAYS, {})
    clearing = writer(cache.folder, 0, "clear")
    while clearing.poll() is None:
        assert all(listed.facts == {} for listed in cache.entries("words"))
        cache.usage()
        cache.get("words", key_of(number=199))
    assert clearing.communicate()[1] == ""
    assert clearing.returncode == 0
    assert cache.usage()["words"] == (0, 0)
    assert reporter.warnings == []
