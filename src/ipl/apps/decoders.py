"""Images from strangers: decoded in a few processes; one that takes too long is killed.

An image gets a quick decoder first. One that turns out to be large or slow goes on to the few
decoders for such images, so that others do not wait for it. Small files go before large ones, and
one client has at most half of the decoders of each kind.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import traceback
import warnings
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from io import BytesIO
from itertools import count
from math import ceil, prod
from pathlib import Path
from typing import Any

import numpy as np

from ipl.backbone.preprocessing import Preprocessing
from ipl.datasets.images import (
    ImageTooLargeError,
    NotAnImageError,
    UnreadableImageError,
    check_image,
    image_formats,
    read_image,
)
from ipl.support.errors import printable
from ipl.support.machine import child_environment, cores

FORMATS = tuple(name for name in image_formats() if name != "PPM")  # that people send
COMMAND = "from ipl.apps.decoders import main; main()"
QUICK = 2 * min(4, cores())  # decoders; one client has half of them
SLOW = 2
DECODE_SECONDS = 5.0  # to decode an image; the process that takes longer is killed
QUICK_SECONDS = 0.5  # until an image counts as slow
LARGE = 4_000_000  # pixels; decoding more takes longer than a tenth of a second
PIXEL_BYTES = 16  # that a pixel takes at most while it is decoded (measured: WebP)
WORKING_BYTES = 64 << 20  # for decoding, beside the image and its file
# A JPEG is decoded at a reduced size that is still so many times the one that the backbone sees;
# what it sees then differs by 3 of 255 at most.
ENOUGH = 4
Array = np.ndarray[Any, Any]


class Refusal(Exception):
    """What is not answered as asked: a status of HTTP and one sentence for the client."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, printable(sentence)


class Places:
    """So many places at a time: small files first, and at most half of them for one client."""

    def __init__(self, places: int) -> None:
        self.free, self.share = places, places // 2
        self._held: Counter[str] = Counter()
        self._waiting: list[tuple[int, int, str, asyncio.Future[None]]] = []
        self._numbers = count()

    @asynccontextmanager
    async def take(self, client: str, size: int) -> AsyncIterator[None]:
        """Waits for a place, and has it until the end of the block."""
        turn = asyncio.get_running_loop().create_future()
        entry = (size, next(self._numbers), client, turn)
        self._waiting.append(entry)
        self._give()
        try:
            await turn
            yield
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)
            else:
                self.free += 1
                self._held[client] -= 1
                self._held += Counter()  # forgets clients that have none
                self._give()

    def _give(self) -> None:
        for entry in sorted(self._waiting, key=lambda entry: entry[:2]):
            *_, client, turn = entry
            if self.free and self._held[client] < self.share and not turn.done():
                self.free -= 1
                self._held[client] += 1
                self._waiting.remove(entry)
                turn.set_result(None)


class Decoders:
    """The processes, seen from the event loop that uses them; they are started when needed."""

    def __init__(self, preprocessing: Preprocessing, max_pixels: int, max_bytes: int) -> None:
        self.crop = preprocessing.crop
        self.settings = {
            "preprocessing": preprocessing.as_dict(),
            "max_pixels": max_pixels,
            "bytes": PIXEL_BYTES * max_pixels + 2 * max_bytes + WORKING_BYTES,
        }
        self._quick, self._slow = Places(QUICK), Places(SLOW)
        self._processes: set[Process] = set()
        self._idle: list[Process] = []

    async def decode(self, data: bytes, client: str) -> Array:
        """What the backbone sees of an image: bytes (crop, crop, 3); raises Refusal."""
        async with self._quick.take(client, len(data)):
            pixels = await self._run(data, QUICK_SECONDS, large=False)
        if pixels is None:
            async with self._slow.take(client, len(data)):
                pixels = await self._run(data, DECODE_SECONDS, large=True)
        if pixels is None:
            raise Refusal(413, f"image: it took longer than {DECODE_SECONDS:g} s to decode.")
        return np.frombuffer(pixels, np.uint8).reshape(self.crop, self.crop, 3)

    async def start(self) -> None:
        """Starts the first process, so that one that cannot be started is noticed."""
        self._idle.append(await self._start())

    async def close(self) -> None:
        """Kills all processes."""
        for process in [*self._processes]:
            await self._kill(process)

    async def _run(self, data: bytes, seconds: float, large: bool) -> bytes | None:
        """The pixels; None if that takes too long, or if the image is large and must not be."""
        while self._idle and self._idle[-1].returncode is not None:
            await self._kill(self._idle.pop())  # somebody else has killed it
        process = self._idle.pop() if self._idle else await self._start()
        reply: dict[str, Any] = {}
        try:
            reply, pixels = await asyncio.wait_for(_ask(process, data, large), seconds)
        except asyncio.TimeoutError:
            return None
        except (OSError, ValueError, EOFError):
            raise Refusal(422, "image: the image is damaged; the decoder ended.") from None
        finally:
            if reply:
                self._idle.append(process)
            else:  # too late, cancelled or ended
                await self._kill(process)
        if reply["status"] == 500:
            raise RuntimeError(reply["sentence"])
        if reply["status"] >= 400:
            raise Refusal(reply["status"], reply["sentence"])
        return pixels or None

    async def _start(self) -> Process:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            COMMAND,
            stdin=PIPE,
            stdout=PIPE,
            env=child_environment(OPENBLAS_NUM_THREADS="1"),  # each thread would reserve memory
        )
        self._processes.add(process)
        assert process.stdin is not None
        assert process.stdout is not None
        ready = b""
        try:
            process.stdin.write(json.dumps(self.settings).encode() + b"\n")
            ready = await process.stdout.readline()
        finally:
            if not ready:  # it has ended, or nobody waits for it any more
                await self._kill(process)
        if not ready:
            raise RuntimeError("The process that decodes images cannot be started.")
        return process

    async def _kill(self, process: Process) -> None:
        self._processes.discard(process)
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _ask(process: Process, data: bytes, large: bool) -> tuple[dict[str, Any], bytes]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"%d %d\n" % (len(data), large) + data)
    await process.stdin.drain()
    reply = json.loads(await process.stdout.readline())
    return reply, await process.stdout.readexactly(reply["bytes"])


# -- in the process -------------------------------------------------------------------------------


def main() -> None:
    """Decodes images from standard input until it is closed."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the service ends this process when it is done
        signal.signal(number, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    settings = json.loads(requests.readline())
    preprocessing, most = Preprocessing(**settings["preprocessing"]), settings["max_pixels"]
    _limit_memory(settings["bytes"])
    alarm = getattr(signal, "alarm", lambda _: None)  # ends this process; not on Windows

    def answer(status: int, sentence: str = "", pixels: bytes = b"") -> None:
        reply = {"status": status, "sentence": sentence, "bytes": len(pixels)}
        replies.write(json.dumps(reply).encode() + b"\n" + pixels)
        replies.flush()

    answer(200)
    silence = os.open(os.devnull, os.O_WRONLY)  # libraries in C complain about damaged images
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    while line := requests.readline():
        size, large = map(int, line.split())
        data = requests.read(size)
        alarm(ceil(DECODE_SECONDS) + 1)  # should the service be killed meanwhile
        try:
            if not large and prod(check_image(data, "image", most, FORMATS)) > LARGE:
                answer(200)
            else:
                answer(200, pixels=decode(data, most, preprocessing).tobytes())
        except NotAnImageError as error:
            names = f"{', '.join(FORMATS[:-1])} and {FORMATS[-1]}"
            answer(415, f"{error}; allowed are {names}.")
        except UnreadableImageError as error:
            answer(413 if isinstance(error, ImageTooLargeError) else 422, f"{error}.")
        except MemoryError:
            answer(413, "image: there is not enough memory to decode it.")
        except Exception:
            answer(500, traceback.format_exc())
        alarm(0)


def decode(data: bytes, max_pixels: int, preprocessing: Preprocessing) -> Array:
    """What the backbone sees of an image; of an animation that is the first frame."""
    side = ENOUGH * preprocessing.resize
    return preprocessing.evaluate(read_image(BytesIO(data), "image", max_pixels, side, FORMATS))


def _limit_memory(size: int) -> None:
    """Limits what this process may take beyond what it has now, on Linux.

    There is no limit if it is larger than the system can count.
    """
    with suppress(ImportError, OSError, ValueError, OverflowError):
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[5])  # of data and stack
        limit = pages * resource.getpagesize() + size
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
