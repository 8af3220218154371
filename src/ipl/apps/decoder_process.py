"""Decodes images in processes of their own, which are killed when one takes too long.

The memory of such a process is limited too, so that a hostile image costs the service neither.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
import warnings
from contextlib import suppress
from pathlib import Path
from threading import Lock, Timer
from typing import IO, Any

from PIL import Image

from ipl.apps.image_decoding import check_image_header, decode_image
from ipl.apps.limits import Limits, Refusal
from ipl.backbone.preprocessing import Preprocessing
from ipl.support.child_process import child_environment

COMMAND = "from ipl.apps.decoder_process import main; main()"
LARGE = 4_000_000  # pixels, of all scans; decoding more takes longer than a tenth of a second
SET_ASIDE = 202  # the status of a reply without an image, because it is large
BUG = 500  # the status of a reply with a traceback


class DecoderEndedError(Exception):
    """A decoder process that ended without a reply."""


class DecoderProcess:
    """A process that decodes one image after the other, seen from the one that started it."""

    def __init__(self, limits: Limits, preprocessing: Preprocessing) -> None:
        self.seconds = limits.decode_seconds
        self._process = subprocess.Popen(
            [sys.executable, "-c", COMMAND],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=child_environment(OPENBLAS_NUM_THREADS="1"),  # each would reserve memory
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._replies = self._process.stdin, self._process.stdout
        settings = {
            "max_pixels": limits.max_pixels,
            "bytes": limits.decode_bytes,
            "preprocessing": preprocessing.as_dict(),
        }
        with suppress(OSError):  # it has ended already; there will be no reply
            self._requests.write(json.dumps(settings).encode() + b"\n")
            self._requests.flush()
        if not self._replies.readline():
            self.stop()
            raise RuntimeError("The process that decodes images cannot be started.")

    @property
    def alive(self) -> bool:
        """Returns whether the process can take another image."""
        return self._process.poll() is None

    def decode(self, data: bytes, large: bool = True) -> Image.Image | None:
        """Returns the image in these bytes as `decode_image` does; raises Refusal.

        Without `large` it returns None for a large image. After a time-out the process has ended;
        if it ends by itself, DecoderEndedError is raised.
        """
        overdue = []

        def end() -> None:
            overdue.append(True)
            self._process.kill()

        timer = Timer(self.seconds, end)
        timer.start()
        try:
            self._requests.write(b"%d %d\n" % (len(data), large) + data)
            self._requests.flush()
            reply = json.loads(self._replies.readline())
            pixels = self._replies.read(reply.get("bytes", 0))
        except (OSError, ValueError):  # it has ended, and its reply is not complete
            reply = {}
        finally:
            timer.cancel()
            timer.join()
        if overdue:
            self._process.wait()
            raise Refusal(413, f"image: it took longer than {self.seconds:g} s to decode.")
        if not reply:
            self.stop()
            raise DecoderEndedError
        if reply["status"] == BUG:
            raise RuntimeError(reply["sentence"])
        if reply["status"] == SET_ASIDE:
            return None
        if reply["status"] != 200:
            raise Refusal(reply["status"], reply["sentence"])
        return Image.frombytes("RGB", tuple(reply["size"]), pixels)

    def stop(self) -> None:
        """Ends the process at once."""
        self._process.kill()
        self._process.wait()
        for stream in (self._requests, self._replies):
            with suppress(OSError):  # what was still to be sent
                stream.close()


class DecoderPool:
    """Decoder processes for several threads: as many as are needed at a time."""

    def __init__(self, limits: Limits, preprocessing: Preprocessing) -> None:
        self.limits, self.preprocessing = limits, preprocessing
        self._idle: list[DecoderProcess] = []
        self._lock = Lock()

    def start(self) -> None:
        """Starts the first process, so that one that cannot be started is noticed."""
        self._idle.append(self._take())

    def decode(self, data: bytes, large: bool = True) -> Image.Image | None:
        """Returns the image in these bytes as `DecoderProcess.decode` does; raises Refusal."""
        with suppress(DecoderEndedError):  # perhaps it was ending before it got the image
            return self._decode(data, large)
        try:
            return self._decode(data, large)
        except DecoderEndedError:
            raise Refusal(422, "image: the image is damaged; the decoder ended.") from None

    def _decode(self, data: bytes, large: bool) -> Image.Image | None:
        process = self._take()
        try:
            return process.decode(data, large)
        finally:
            with self._lock:
                self._idle.append(process)

    def close(self) -> None:
        """Ends all processes; none may be decoding."""
        while self._idle:
            self._idle.pop().stop()

    def _take(self) -> DecoderProcess:
        with self._lock:
            while self._idle:
                process = self._idle.pop()
                if process.alive:
                    return process
                process.stop()
        return DecoderProcess(self.limits, self.preprocessing)


def main() -> None:
    """Decodes images from standard input until it is closed."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the service ends this process when it is done
        signal.signal(number, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    requests = sys.stdin.buffer
    replies = os.fdopen(os.dup(1), "wb")
    settings = json.loads(requests.readline())
    preprocessing = Preprocessing(**settings["preprocessing"])
    _limit_memory(settings["bytes"])
    _reply(replies, {"status": 200})
    silence = os.open(os.devnull, os.O_WRONLY)  # libraries in C complain about damaged images
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    while line := requests.readline():
        size, large = map(int, line.split())
        data = requests.read(size)
        try:
            if not large and check_image_header(data, settings["max_pixels"]) > LARGE:
                _reply(replies, {"status": SET_ASIDE})
                continue
            image = decode_image(data, settings["max_pixels"], preprocessing)
            pixels = image.tobytes()
            _reply(replies, {"status": 200, "size": image.size, "bytes": len(pixels)}, pixels)
        except Refusal as refusal:
            _reply(replies, {"status": refusal.status, "sentence": refusal.sentence})
        except Exception:
            _reply(replies, {"status": BUG, "sentence": traceback.format_exc()})


def _reply(replies: IO[bytes], values: dict[str, Any], pixels: bytes = b"") -> None:
    replies.write(json.dumps(values).encode() + b"\n" + pixels)
    replies.flush()


def _limit_memory(size: int) -> None:
    """Limits what this process may take beyond what it has now, on Linux."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[5])  # of data and stack
        limit = pages * resource.getpagesize() + size
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
