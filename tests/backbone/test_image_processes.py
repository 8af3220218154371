"""Processes that read image files: what they answer, and what they leave to the caller."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageFile

from ipl.backbone import feature_store, image_processes
from ipl.backbone.backbone import Backbone
from ipl.backbone.encode_images import CentreCrops, decoders, encode_batches, encode_files
from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.image_processes import ImageProcesses, hash_file, processes_for
from ipl.datasets.images import ImageSource, open_image
from ipl.support.cache import Cache
from ipl.support.child_process import child_environment

pytestmark = pytest.mark.skipif(
    not hasattr(os, "memfd_create"), reason="this system shares memory in another way"
)


@pytest.fixture(scope="module")
def processes(pocket: Backbone) -> Iterator[ImageProcesses]:
    """Returns two processes."""
    started = ImageProcesses(pocket.preprocessing, 2)
    yield started
    started.close()


@pytest.fixture
def images(tmp_path: Path) -> list[Path]:
    """Returns 20 images of different sizes; one is broken, one missing, one turned."""
    stream = np.random.default_rng(0)
    paths = [tmp_path / f"{index} ü.png" for index in range(20)]
    for index, path in enumerate(paths):
        pixels = stream.integers(0, 256, (100 + index, 120, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path)
    paths[3].write_bytes(b"no image")
    paths[7].unlink()
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.open(paths[9]).save(paths[9], exif=exif)
    return paths


def test_crops_and_hashes_are_those_of_this_process(
    pocket: Backbone, images: list[Path], processes: ImageProcesses
) -> None:
    for start in range(0, len(images), image_processes.AT_ONCE):
        part = images[start : start + image_processes.AT_ONCE]
        hashes, crops = processes.hash(part), processes.cut(part)
        for path, known, crop in zip(part, hashes, crops, strict=True):
            assert known == (hash_file(path) if path.exists() else None)
            if path in (images[3], images[7]):
                assert crop is None
            else:
                assert np.array_equal(crop, pocket.preprocessing.evaluate(open_image(path)))


def test_features_are_those_of_threads(
    pocket: Backbone, images: list[Path], processes: ImageProcesses, tmp_path: Path
) -> None:
    asked = [*images, images[0]]
    alone = FeatureStore(pocket).encode(asked)
    cache = Cache(tmp_path / "cache")
    helped = FeatureStore(pocket, cache).encode(asked, processes=processes)
    again = FeatureStore(pocket, cache).encode(asked, processes=processes)
    for found in (helped, again):
        assert torch.equal(found.features, alone.features)
        assert (found.indices, found.unreadable) == (alone.indices, alone.unreadable)
    assert len(alone.unreadable) == 2


def test_what_this_process_can_read_is_read(
    pocket: Backbone,
    images: list[Path],
    processes: ImageProcesses,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Pillow may be set up to read more here than in a new process."""
    path = images[0]
    path.write_bytes(path.read_bytes()[:-3000])
    assert processes.cut([path]) == [None]
    (refused,) = encode_batches(pocket, [path], processes=processes)
    assert refused.unreadable == (f"{path}: the file is truncated",)
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    (found,) = encode_batches(pocket, [path], processes=processes)
    assert found.images == len(found.indices) == 1


def test_crops_from_processes_are_kept(
    pocket: Backbone, images: list[Path], processes: ImageProcesses
) -> None:
    crops = CentreCrops(pocket, 1 << 30)
    (expected,) = encode_batches(pocket, images, crops=crops, processes=processes)
    for path in images:
        if path not in (images[3], images[7]):
            path.unlink()
    again = encode_files(pocket, images, crops=crops)
    assert torch.equal(again.features, expected.features)


def test_the_time_that_processes_have_worked(
    pocket: Backbone, images: list[Path], processes: ImageProcesses
) -> None:
    before = processes.cpu_seconds()
    assert before > 0
    for _ in range(3):
        processes.cut(images[:3])
    assert before < processes.cpu_seconds() < before + 10


def test_images_in_memory_are_opened_here(pocket: Backbone, processes: ImageProcesses) -> None:
    image = Image.new("RGB", (60, 80), "red")
    (found,) = encode_batches(pocket, [image] * 3, processes=processes)
    assert torch.equal(found.features, encode_files(pocket, [image] * 3).features)


def test_a_large_image_is_left_to_the_caller(
    pocket: Backbone, tmp_path: Path, processes: ImageProcesses
) -> None:
    path = tmp_path / "large.png"
    edge = int(image_processes.MOST_PIXELS**0.5) + 1
    Image.new("L", (edge, edge), 7).save(path)
    assert processes.cut([path]) == [None]
    (crop,) = CentreCrops(pocket).cut([path], processes)
    assert isinstance(crop, np.ndarray)
    assert (crop == 7).all()


def test_what_a_killed_process_had_to_do_is_done_here(pocket: Backbone, images: list[Path]) -> None:
    processes = ImageProcesses(pocket.preprocessing, 2)
    try:
        kill_all(processes, 2)
        assert processes.cut(images[:2]) == [None, None]
        assert processes.hash(images[:2]) == [None, None]
        assert processes.cpu_seconds() == 0
        (found,) = encode_batches(pocket, images, processes=processes)
    finally:
        processes.close()
    assert torch.equal(found.features, encode_files(pocket, images).features)


def test_a_process_that_is_killed_while_it_reads(pocket: Backbone, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.png"
    os.mkfifo(pipe)  # nobody writes to it, so the process waits
    processes = ImageProcesses(pocket.preprocessing, 1)
    try:
        process = processes._idle.get()
        processes._idle.put(process)
        killer = threading.Timer(0.5, process._process.kill)
        killer.start()
        assert processes.cut([pipe]) == [None]
        assert not killer.is_alive()
        assert processes.cut([pipe]) == [None]
    finally:
        processes.close()


def kill_all(processes: ImageProcesses, count: int) -> None:
    taken = [processes._idle.get() for _ in range(count)]
    for each in taken:
        each._process.kill()
        each._process.wait()
        processes._idle.put(each)


def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    script = """
import time
from ipl.backbone.image_processes import ImageProcesses
from ipl.backbone.preprocessing import Preprocessing
processes = ImageProcesses(Preprocessing(32, 32, (0.5,) * 3, (0.5,) * 3), 1)
processes.hash([])
print(processes._idle.get()._process.pid, flush=True)
time.sleep(60)
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, env=child_environment()
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    os.kill(child, signal.SIGINT)  # Ctrl-C reaches the whole group, and is for the parent
    time.sleep(0.2)
    assert is_running(child)
    parent.kill()
    parent.communicate()
    for _ in range(100):
        if not is_running(child):
            return
        time.sleep(0.1)
    pytest.fail("The process is still running.")


def is_running(pid: int) -> bool:
    """Returns whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_a_store_asks_for_processes_for_the_files_that_it_has_to_read(
    pocket: Backbone, images: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    @contextmanager
    def give(*given: object) -> Iterator[None]:
        asked.append(given)
        yield

    monkeypatch.setattr(feature_store, "processes_for", give)
    store = FeatureStore(pocket)
    store.encode(images[:2])
    in_memory = ImageSource("memory", lambda: Image.new("RGB", (64, 64)))
    store.encode([*images[:5], in_memory])
    assert asked == [(count, pocket.preprocessing, "cpu", decoders()) for count in (2, 3)]


def test_only_many_images_for_a_gpu_are_worth_processes(
    pocket: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_processes, "MANY", 3)
    monkeypatch.setattr(image_processes, "ENOUGH", 2)
    for images, device, cores, expected in (
        (3, "cuda", 2, True),
        (2, "cuda", 2, False),
        (3, "cuda", 1, False),
        (3, "cpu", 2, False),
    ):
        with processes_for(images, pocket.preprocessing, device, cores) as processes:
            assert (processes is not None) == expected

    def refuse(*_: object) -> None:
        raise OSError("not allowed")

    monkeypatch.setattr(os, "memfd_create", refuse)
    with processes_for(3, pocket.preprocessing, "cuda", 2) as processes:
        assert processes is None
    monkeypatch.delattr(os, "memfd_create")  # as on macOS and Windows
    with processes_for(3, pocket.preprocessing, "cuda", 2) as processes:
        assert processes is None
