"""Processes that read image files for this one: they hash files, and open images and cut them.

Many threads that decode images hold each other up, and a GPU waits for them. A process gets paths,
and leaves crops in memory that both see. What it cannot do, or did not live to do, is left to the
caller.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import signal
import stat
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from ipl.backbone.preprocessing import Preprocessing
from ipl.datasets.images import UnreadableImageError, open_image
from ipl.support.child_process import child_environment

COMMAND = "from ipl.backbone.image_processes import main; main()"
MANY, ENOUGH = 2048, 8  # with fewer images or cores it does not pay to start processes
AT_ONCE = 8  # images of a request
MOST_PIXELS = 16_000_000  # a larger image is left to the caller, whose threads share their memory
HASH, CROP, TIME = "hash", "crop", "time"

Crop = np.ndarray[Any, Any]  # bytes (height, width, 3)
HashedFile = tuple[tuple[int, ...], str]  # what changes when the file is written, and its SHA-256


class _EndedError(Exception):
    """A process that ended without an answer."""


class ImageProcesses:
    """Processes that any thread may ask; with as many threads, each has one to itself.

    Parameters
    ----------
    preprocessing : Preprocessing
        How crops are cut.
    count : int
        The number of processes.

    Raises
    ------
    OSError
        If the system does not allow them.
    """

    def __init__(self, preprocessing: Preprocessing, count: int) -> None:
        self._idle: SimpleQueue[_ImageProcess] = SimpleQueue()
        with ExitStack() as started:
            for _ in range(count):
                process = _ImageProcess(preprocessing)
                started.callback(process.stop)
                self._idle.put(process)
            self._stop = started.pop_all()

    def hash(self, paths: Sequence[Path]) -> list[HashedFile | None]:
        """Returns the state and hash of at most AT_ONCE files; None where the caller has to try."""
        return self._ask(HASH, paths)

    def cut(self, paths: Sequence[Path]) -> list[Crop | None]:
        """Returns the centres of at most AT_ONCE images; None where the caller has to try."""
        return self._ask(CROP, paths)

    def cpu_seconds(self) -> float:
        """Returns the CPU time of all processes so far; none may be working."""
        return float(sum(self._ask(TIME)[0] for _ in range(self._idle.qsize())))

    def close(self) -> None:
        """Ends the processes; none may be working."""
        self._stop.close()

    def _ask(self, task: str, paths: Sequence[Path] = ()) -> list[Any]:
        process = self._idle.get()
        try:
            return process.ask(task, paths)
        except _EndedError:
            return [0.0] if task == TIME else [None] * len(paths)
        finally:
            self._idle.put(process)


class _ImageProcess:
    """One process, seen from the one that started it."""

    def __init__(self, preprocessing: Preprocessing) -> None:
        self._shape = (preprocessing.crop, preprocessing.crop, 3)
        self._size = 3 * preprocessing.crop**2
        if not hasattr(os, "memfd_create"):
            raise OSError("Only Linux has memory that processes share in this way.")
        shared = os.memfd_create("ipl-crops")
        try:
            os.ftruncate(shared, AT_ONCE * self._size)
            self._memory = mmap.mmap(shared, AT_ONCE * self._size)
            self._process = subprocess.Popen(
                [sys.executable, "-c", COMMAND, str(shared)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # libraries in C complain about damaged images
                env=child_environment(OPENBLAS_NUM_THREADS="1"),
                pass_fds=[shared],
            )
        finally:
            os.close(shared)
        with suppress(OSError):  # it has ended already; there will be no answer
            self._send(preprocessing.as_dict())

    def ask(self, task: str, paths: Sequence[Path]) -> list[Any]:
        """Returns the answers to a request; raises _EndedError if there is none."""
        assert self._process.stdout is not None
        try:
            self._send([task, *map(str, paths)])
            answers = json.loads(self._process.stdout.readline())
        except (OSError, ValueError):  # it has ended, and its answer is not complete
            raise _EndedError from None
        if task == TIME:
            return list(answers)
        if task == HASH:
            return [found and (tuple(found[0]), found[1]) for found in answers]
        return [self._crop(index) if is_cut else None for index, is_cut in enumerate(answers)]

    def stop(self) -> None:
        """Ends the process at once."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # what was still to be sent
                if stream is not None:
                    stream.close()
        with suppress(BufferError):  # a thread still reads what it was told
            self._memory.close()

    def _send(self, values: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(values).encode() + b"\n")
        self._process.stdin.flush()

    def _crop(self, index: int) -> Crop:
        pixels = np.frombuffer(self._memory, np.uint8, self._size, index * self._size)
        crop: Crop = pixels.reshape(self._shape).copy()
        return crop


@contextmanager
def processes_for(
    images: int, preprocessing: Preprocessing, device: str, count: int
) -> Iterator[ImageProcesses | None]:
    """Yields processes if there are many images, a GPU that waits for them, and cores enough.

    Otherwise it yields None: a few threads hardly hold each other up.

    Parameters
    ----------
    images : int
        The images that will be read.
    preprocessing : Preprocessing
        How crops are cut.
    device : str
        The kind of device that encodes them, such as cuda.
    count : int
        The number of processes.
    """
    processes = None
    if images >= MANY and count >= ENOUGH and device == "cuda":
        with suppress(OSError):
            processes = ImageProcesses(preprocessing, count)
    try:
        yield processes
    finally:
        if processes is not None:
            processes.close()


def hash_file(path: Path) -> HashedFile:
    """Returns what changes when a file is written, and the SHA-256 of its content.

    Raises OSError, or ValueError if it is not a regular file.
    """
    stamp, digest = stamp_of(path), hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return stamp, digest.hexdigest()


def stamp_of(path: Path) -> tuple[int, ...]:
    """Returns what changes when a file is written; raises as `hash_file` does."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):  # a device may have no end
        raise ValueError(f"{path} is not a regular file")
    return status.st_mtime_ns, status.st_size, status.st_ino


# -- the process itself ---------------------------------------------------------------------------


def main() -> None:
    """Answers requests from standard input until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    warnings.simplefilter("ignore")
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no answer
    memory = mmap.mmap(int(sys.argv[1]), 0)
    preprocessing = Preprocessing(**json.loads(requests.readline()))
    while line := requests.readline():
        task, *names = json.loads(line)
        paths = [Path(name) for name in names]
        found: list[Any] = [time.process_time()]
        if task == HASH:
            found = [_hash(path) for path in paths]
        elif task == CROP:
            found = [_cut(path, preprocessing, memory, index) for index, path in enumerate(paths)]
        answers.write(json.dumps(found).encode() + b"\n")
        answers.flush()


def _hash(path: Path) -> HashedFile | None:
    try:
        return hash_file(path)
    except (OSError, ValueError):
        return None


def _cut(path: Path, preprocessing: Preprocessing, memory: mmap.mmap, index: int) -> bool:
    """Writes the centre of an image to its place in memory; returns whether it could be read.

    What is said about an image that cannot be read, the caller says: its Pillow may be set up
    to read more.
    """
    try:
        pixels = preprocessing.evaluate(open_image(path, MOST_PIXELS))
    except UnreadableImageError:
        return False
    memory[index * pixels.nbytes : (index + 1) * pixels.nbytes] = pixels.tobytes()
    return True
