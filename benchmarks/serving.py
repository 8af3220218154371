"""Measures the web service under many clients: requests per second, and the time of each.

    python benchmarks/serving.py --clients 64 --seconds 30
    python benchmarks/serving.py --before OTHER/src    # and the same with another version

A prompt is learnt from the drawn scenes, and `ipl serve` serves it with PocketCLIP in a separate
process for each engine. Each client sends one image after the other over a connection that stays
open, the next as soon as the last one was answered. Clients and server share the processors of this
machine. The servers are measured in turns, several rounds, so that whatever else the machine does
slows all of them; the ratios are to the first one.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from itertools import cycle
from pathlib import Path

import numpy as np

from ipl import PromptClassifier
from ipl.datasets.images import open_image
from ipl.datasets.scenes import cached_scenes, scenes_dataset

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
    for item in cached_scenes().test[:: 480 // IMAGES]:
        file = BytesIO()
        open_image(item.path).resize((edge, edge)).save(file, "JPEG", quality=90)
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
def server(
    run: Path, options: list[str], source: str | None = None
) -> Iterator[tuple[str, int, int]]:
    """Yields the host, port and process id of a server, and stops it at the end.

    `source` is the folder of another version of the package.
    """
    command = [sys.executable, "-m", "ipl", "serve", str(run), "--port", "0", *options]
    environment = {**os.environ, **({"PYTHONPATH": source} if source else {})}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
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


async def counters(host: str, port: int) -> dict[str, float]:
    """Returns how many images and batches the server has classified."""
    reader, writer = await asyncio.open_connection(host, port)
    _, body = await exchange(reader, writer, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    writer.close()
    found = re.findall(r"^ipl_(images|batches)\S* (\S+)$", body.decode(), re.MULTILINE)
    return {name: float(value) for name, value in found}


def peak_mib(process: int) -> float:
    """Returns the largest resident memory of a process so far, on Linux."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


def processor_seconds(process: int) -> float:
    """Returns the processor time of a process and those that it started so far, on Linux."""
    total = 0
    for number in [process, *_children(process)]:
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def _children(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


@dataclass
class Measured:
    """What several rounds with one server came to."""

    name: str
    address: tuple[str, int, int]  # host, port, process
    result: LoadResult = field(default_factory=LoadResult)
    seconds: float = 0.0
    computed: float = 0.0  # seconds of processor time
    rounds: list[float] = field(default_factory=list)  # requests per second

    def measure(self, clients: int, seconds: float, asked: list[bytes]) -> None:
        """Adds a round."""
        host, port, process = self.address
        before, images = processor_seconds(process), asyncio.run(counters(host, port))["images"]
        result = asyncio.run(load(host, port, clients, seconds, asked))
        images = asyncio.run(counters(host, port))["images"] - images
        self.computed += (processor_seconds(process) - before) / max(1, images)
        self.result.seconds += result.seconds
        self.result.statuses += result.statuses
        self.seconds += seconds
        self.rounds.append(len(result.seconds) / seconds)

    @property
    def errors(self) -> int:
        """Returns how many requests were not answered with 200."""
        return sum(self.result.statuses.values()) - self.result.statuses["200"]

    def line(self, first: Measured) -> str:
        """Returns a row of the table, with ratios to another server."""
        p50, p99 = np.percentile(self.result.seconds, [50, 99])
        host, port, process = self.address
        counts = asyncio.run(counters(host, port))
        ratio = np.median(np.divide(self.rounds, first.rounds))
        cost = 1000 * self.computed / len(self.rounds)
        saved = first.computed / self.computed
        return (
            f"{self.name:12} {len(self.result.seconds) / self.seconds:10.0f} {ratio:7.2f} "
            f"{p50:7.2f} {p99:7.2f} {self.errors:7} {counts['images'] / counts['batches']:12.1f} "
            f"{cost:13.1f} {saved:7.2f} {peak_mib(process):8.0f}"
        )


def main() -> None:
    """Prints the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=30, help="of each server, in all rounds")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--edge", type=int, default=96, help="pixels along an image's edge")
    parser.add_argument("--learner", default="coop")
    parser.add_argument("--engines", default="torch,onnx", help="separated by commas")
    parser.add_argument("--before", help="the src folder of another version, measured first")
    parser.add_argument("options", nargs="*", help="after --: options of ipl serve")
    given = parser.parse_args()
    asked, engines = make_requests(given.edge), given.engines.split(",")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as servers:
        run = learn(Path(folder), given.learner)
        rows = []
        if given.before:
            started = server(run, given.options, given.before)
            rows.append(Measured("before", servers.enter_context(started)))
        for engine in engines:
            started = server(run, ["--engine", engine, *given.options])
            rows.append(Measured(engine, servers.enter_context(started)))
        for _ in range(given.rounds):
            for row in rows:
                row.measure(given.clients, given.seconds / given.rounds, asked)
        print(
            f"{given.clients} clients, {given.seconds:g} s, {given.edge} x {given.edge} px, "
            f"{given.learner}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}"
        )
        print(
            f"{'':12} {'requests/s':>10} {'ratio':>7} {'p50, s':>7} {'p99, s':>7} {'errors':>7} "
            f"{'images/batch':>12} {'CPU, ms/image':>13} {'ratio':>7} {'peak MiB':>8}"
        )
        for row in rows:
            print(row.line(rows[0]))
    sys.exit(any(row.errors for row in rows))


if __name__ == "__main__":
    main()
