"""The disk cache: where it is, what its keys are, and that everything comes back."""

from __future__ import annotations

import enum
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from ipl.support.cache import KINDS, Cache, cache_folder, key_of
from tests.helpers.cache import ARRAYS, FACTS, KEY, PART, Ear, entry_path, same, sealed

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


def test_bits_come_back(cache: Cache, ear: Ear) -> None:
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
    assert ear.heard == []


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


def test_nothing_is_made_by_looking(cache: Cache, ear: Ear) -> None:
    assert cache.get("images", KEY) is None
    assert cache.usage() == dict.fromkeys(KINDS, (0, 0))
    assert list(cache.entries("words")) == []
    assert cache.clear() == (0, 0)
    assert not cache.folder.exists()
    assert ear.heard == []


def test_the_file_is_what_it_is_said_to_be(cache: Cache) -> None:
    cache.put("images", KEY, ARRAYS, FACTS)
    assert sorted(p.name for p in cache.folder.rglob("*")) == sorted(["images", PART, KEY])
    payload = save(ARRAYS, {"facts": json.dumps(FACTS, sort_keys=True, separators=(",", ":"))})
    assert entry_path(cache).read_bytes() == sealed(payload)


def test_wrong_use_is_a_bug_not_a_miss(cache: Cache) -> None:
    for call in (cache.get, lambda k, _: list(cache.entries(k)), lambda k, _: cache.clear(k)):
        with pytest.raises(ValueError, match="kind is 'images'; allowed are images, words, sel"):
            call("images", KEY)
    for key in ("", "../../etc/passwd", KEY[:63], KEY.upper(), KEY + "\n"):
        with pytest.raises(ValueError, match="SHA-256"):
            cache.get("images", key)
        with pytest.raises(ValueError, match="SHA-256"):
            cache.put("images", key, {}, {})
    with pytest.raises(TypeError, match="at is a object"):
        cache.put("images", KEY, {}, {"at": object()})
    assert not cache.folder.exists()


def test_two_thousand_small_entries_are_read_fast(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [key_of(number=number) for number in range(2000)]
    for key in keys:
        cache.put("images", key, ARRAYS, {})
    with monkeypatch.context() as patch:
        for name in ("scandir", "listdir"):
            patch.setattr(os, name, None)  # a look into folders would grow with the cache
        started = time.perf_counter()
        assert all(cache.get("images", key) is not None for key in keys)
        assert time.perf_counter() - started < 1.0


def test_one_entry_can_be_dropped(cache: Cache) -> None:
    cache.put("trainings", KEY, ARRAYS, FACTS)
    cache.drop("trainings", KEY)
    assert cache.get("trainings", KEY) is None
    cache.drop("trainings", KEY)  # nothing there is nothing to say
