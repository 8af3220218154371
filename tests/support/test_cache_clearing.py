"""The disk cache: listing, clearing, and several processes at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ipl.support.cache import KINDS, Cache, key_of
from tests.helpers.cache import ARRAYS, FACTS, KEY, PART, Ear, entry_path, same

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
        f"images/{PART}/{KEY}",
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
    cache: Cache, ear: Ear, monkeypatch: pytest.MonkeyPatch
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
    assert ear.heard == []


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
for turn in range(150):
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
def test_processes_that_write_at_once(cache: Cache, ear: Ear, job: str) -> None:
    for running in [writer(cache.folder, number, job) for number in range(3)]:
        _, said = running.communicate(timeout=120)
        assert running.returncode == 0, said
    assert cache.usage()["images"][0] == (1 if job == "same" else 450)
    for listed in cache.entries("images"):
        entry = cache.get("images", listed.key)
        assert entry is not None
        assert (entry.arrays["feature"] == entry.facts["value"]).all()
    assert list(cache.folder.rglob(".*")) == []
    assert ear.heard == []


def test_a_process_that_clears_while_others_read(cache: Cache, ear: Ear) -> None:
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
    assert ear.heard == []
