"""Measures the web service under many clients: requests per second, and the time of each.

    python benchmarks/serving.py --clients 64 --seconds 30

A prompt is learnt from the drawn scenes, and `ipl serve` serves it with PocketCLIP in a separate
process. Each client sends one image after the other over a connection that stays open, the next as
soon as the last one was answered. Clients and server share the processors of this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from itertools import cycle, islice
from pathlib import Path

import numpy as np

from ipl import PromptClassifier
from ipl.datasets.scenes import scenes_dataset
from ipl_scenes import CLASSES, draw

BOUNDARY = b"between-the-parts"
IMAGES = 40
WARM_UP = 2.0  # seconds before anything is counted


@dataclass
class LoadResult:
    """What the clients measured: the seconds of each answer, and how often each status came."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)


def learn(folder: Path, learner: str) -> Path:
    """Returns a saved prompt, learnt in a few seconds."""
    data = scenes_dataset(folder / "scenes", train=2, test=1)
    prompt = PromptClassifier("pocket", learner, 0, shots=2, epochs=1, interval=1, views=0)
    prompt.fit(data).save_pretrained(folder / "run")
    return folder / "run"


def make_requests(edge: int) -> list[bytes]:
    """Returns complete requests, each with a different JPEG image of edge x edge pixels."""
    requests = []
    for index, name in enumerate(islice(cycle(CLASSES), IMAGES)):
        file = BytesIO()
        draw(name, index).resize((edge, edge)).save(file, "JPEG", quality=90)
        requests.append(as_request(file.getvalue()))
    return requests


def as_request(image: bytes) -> bytes:
    """Returns a complete request with an image in a form."""
    part = b'Content-Disposition: form-data; name="image"; filename="x.jpg"\r\n\r\n'
    body = b"--%s\r\n%s%s\r\n--%s--\r\n" % (BOUNDARY, part, image, BOUNDARY)
    head = (
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"
        b"Content-Type: multipart/form-data; boundary=%s\r\n\r\n" % (len(body), BOUNDARY)
    )
    return head + body


@contextmanager
def server(run: Path, options: list[str]) -> Iterator[tuple[str, int, int]]:
    """Yields the host, port and process id of a server, and stops it at the end."""
    command = [sys.executable, "-m", "ipl", "serve", str(run), "--port", "0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        where = re.search(r"http://([\d.]+):(\d+)", said)
        if where is None:
            raise SystemExit(said + process.stderr.read())
        try:
            yield where[1], int(where[2]), process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            rest = process.stderr.read()
    if process.returncode or rest != "Ended.\n":
        raise SystemExit(f"The server ended with {process.returncode}: {rest}")


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
) -> tuple[str, bytes]:
    """Returns the status and the body of one answer."""
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = re.search(r"content-length: (\d+)", head)
    assert length is not None
    return head.split()[1], await reader.readexactly(int(length[1]))


async def client(
    host: str, port: int, asked: list[bytes], begin: float, end: float, result: LoadResult
) -> None:
    """Sends requests until the end; those that were sent before the beginning are not counted."""
    reader, writer = await asyncio.open_connection(host, port)
    for request in cycle(asked):
        started = time.perf_counter()
        if started >= end:
            break
        try:
            status, body = await exchange(reader, writer, request)
            status = status if status != "200" or b'"probability"' in body else "empty"
        except (OSError, EOFError) as error:  # IncompleteReadError is an EOFError
            status = type(error).__name__
            reader, writer = await asyncio.open_connection(host, port)
        if started >= begin:
            result.seconds.append(time.perf_counter() - started)
            result.statuses[status] += 1
    writer.close()


async def load(
    host: str, port: int, clients: int, seconds: float, asked: list[bytes]
) -> LoadResult:
    """Returns what all clients measured in the given time."""
    result, begin = LoadResult(), time.perf_counter() + WARM_UP
    asks = [asked[i % len(asked) :] + asked[: i % len(asked)] for i in range(clients)]
    every = (client(host, port, ask, begin, begin + seconds, result) for ask in asks)
    await asyncio.gather(*every)
    return result


async def health(host: str, port: int) -> dict[str, int]:
    """Returns the counters of the server."""
    reader, writer = await asyncio.open_connection(host, port)
    _, body = await exchange(reader, writer, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    writer.close()
    return dict(json.loads(body))


def peak_mib(process: int) -> float:
    """Returns the largest resident memory of a process so far, on Linux."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


def processor_seconds(process: int) -> float:
    """Returns the processor time of all threads of a process so far, on Linux."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Prints the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--edge", type=int, default=96, help="pixels along an image's edge")
    parser.add_argument("--learner", default="coop")
    parser.add_argument("options", nargs="*", help="after --: options of ipl serve")
    given = parser.parse_args()
    asked = make_requests(given.edge)
    with tempfile.TemporaryDirectory() as folder:
        run = learn(Path(folder), given.learner)
        with server(run, given.options) as (host, port, process):
            before = processor_seconds(process)
            result = asyncio.run(load(host, port, given.clients, given.seconds, asked))
            computed = processor_seconds(process) - before
            health_values = asyncio.run(health(host, port))
            peak = peak_mib(process)
    p50, p99 = np.percentile(result.seconds, [50, 99]) * 1000
    errors = sum(result.statuses.values()) - result.statuses["200"]
    print(
        f"{given.clients} clients, {given.seconds:g} s, {given.edge} x {given.edge} px, "
        f"{given.learner}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}"
    )
    print(
        f"requests/s {len(result.seconds) / given.seconds:.0f}   "
        f"p50 {p50:.0f} ms   p99 {p99:.0f} ms"
    )
    print(f"requests {len(result.seconds)}   errors {errors}   {dict(result.statuses)}")
    print(
        f"images per batch {health_values['images'] / health_values['batches']:.1f}   server: "
        f"{1000 * computed / health_values['images']:.0f} ms of processor time a request, "
        f"{peak:.0f} MiB at its peak"
    )
    sys.exit(errors > 0)


if __name__ == "__main__":
    main()
