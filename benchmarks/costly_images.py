"""Measures what small files with many pixels cost `ipl predict` and `ipl serve`.

    python benchmarks/costly_images.py
    python benchmarks/costly_images.py --tolerance

A prompt is learnt from the drawn scenes, with PocketCLIP. Each file is classified by `ipl predict`
in a process of its own, then sent to `ipl serve`: once, and 16 times at once while one client
sends ordinary images. With PYTHONPATH set to the `src` of another version, that one is measured.

With `--tolerance` it prints how much a backbone's pixels and features change because JPEGs of more
than 25 million pixels are decoded at a reduced size; and, in the service, also smaller ones.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from io import BytesIO
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from serving import as_request, exchange, learn, make_requests, peak_mib, server

from ipl import Backbone
from ipl.backbone.preprocessing import Preprocessing
from ipl.datasets.images import open_image
from ipl.datasets.scenes import PER_CLASS, cached_scenes

COPIES = 16
SCAN = b"\xff\xda"


def costly_images() -> Iterator[tuple[str, bytes]]:
    """Yields names and contents of files that are small and large once decoded."""
    for millions, edge in ((25, 5000), (177, 13304)):
        grey = Image.fromarray(np.full((edge, edge), 30000, np.uint16))
        yield f"{millions} Mpx, 16-bit PNG", to_bytes(grey, "PNG")
    colour = Image.new("RGB", (13304, 13304), (10, 120, 60))
    yield "177 Mpx, PNG", to_bytes(colour, "PNG")
    yield "177 Mpx, JPEG", to_bytes(colour, "JPEG")
    yield "177 Mpx, progressive JPEG", to_bytes(colour, "JPEG", progressive=True)
    colour = colour.resize((10000, 10000))
    yield "100 Mpx, PNG", to_bytes(colour, "PNG")
    colour = colour.resize((5000, 5000))
    yield "25 Mpx, WebP", to_bytes(colour, "WEBP")
    once = to_bytes(colour.convert("L"), "JPEG", progressive=True)
    more = once[once.rindex(SCAN) : -2] * (100 - once.count(SCAN))
    yield "25 Mpx, JPEG of 100 scans", once[:-2] + more + once[-2:]


def to_bytes(image: Image.Image, kind: str, **options: bool) -> bytes:
    """Returns an image as a file of this kind."""
    file = BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def predict(run: Path, image: Path) -> tuple[float, float, str]:
    """Returns the seconds, the peak memory in MiB and the outcome of `ipl predict`."""
    command = [sys.executable, "-m", "ipl", "predict", str(run), str(image), "--format", "csv"]
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    outcome = "classified" if os.waitstatus_to_exitcode(status) == 0 else "refused"
    return seconds, usage.ru_maxrss / 1024, outcome


async def ask(host: str, port: int, request: bytes) -> tuple[float, str]:
    """Returns the seconds until the answer to a request, and its status."""
    started = time.perf_counter()
    reader, writer = await asyncio.open_connection(host, port)
    status, _ = await exchange(reader, writer, request)
    writer.close()
    return time.perf_counter() - started, status


async def attack(
    host: str, port: int, costly: bytes, ordinary: list[bytes]
) -> tuple[list[tuple[float, str]], list[tuple[float, str]]]:
    """Returns the answers to copies of a costly request, and to ordinary ones meanwhile."""
    copies = [asyncio.create_task(ask(host, port, costly)) for _ in range(COPIES)]
    answers = []
    while not (answers and all(task.done() for task in copies)):
        answers.append(await ask(host, port, ordinary[len(answers) % len(ordinary)]))
    return [task.result() for task in copies], answers


def tree_peak_mib(process: int) -> float:
    """Returns the sum of the peaks of a process and its children, on Linux."""
    peaks = [peak_mib(process)]
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            parent = re.search(r"PPid:\s+(\d+)", status.read_text())
            if parent and int(parent[1]) == process:
                peaks.append(peak_mib(int(status.parent.name)))
        except (OSError, TypeError):  # it has ended meanwhile
            continue
    return sum(peaks)


def photograph(index: int, edge: int) -> Image.Image:
    """Returns a drawn scene of edge x edge pixels with noise of several sizes over it."""
    stream = np.random.default_rng(index)
    scene = open_image(cached_scenes().test[index * PER_CLASS].path)
    pixels = np.asarray(scene.resize((edge, edge))).astype(np.float32)
    for grain in (1, 8, 64, 512):
        size = edge // grain
        noise = Image.fromarray(stream.normal(0, 10, (size, size)).astype(np.float32))
        pixels += np.asarray(noise.resize((edge, edge)))[..., None]
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def print_tolerance() -> None:
    """Prints the largest differences between JPEGs that are decoded smaller and those that are not.

    That is done for preprocessing to several sizes, and for PocketCLIP's features: for images of
    more pixels than are decoded exactly, then as the service decodes them.
    """
    from ipl.backbone.encode_images import encode_pixels
    from ipl.backbone.loading import load_backbone
    from ipl.datasets.images import read_image

    backbone = load_backbone("pocket")
    own = backbone.preprocessing
    largest, cosine = dict.fromkeys((own.crop, 224, 384), 0), 1.0
    for index in range(4):
        file = BytesIO(to_bytes(photograph(index, 6000), "JPEG"))
        reduced = read_image(file, "image")
        assert min(reduced.size) < 6000
        whole = Image.open(file).convert("RGB")
        for edge in largest:
            preprocessing = replace(own, resize=edge, crop=edge)
            pair = np.stack([preprocessing.evaluate(image) for image in (whole, reduced)])
            difference = np.abs(np.diff(pair.astype(int), axis=0)).max()
            largest[edge] = max(largest[edge], int(difference))
            if edge == own.crop:
                first, second = encode_pixels(backbone, torch.from_numpy(pair))
                cosine = min(cosine, float(first @ second))
    print(f"largest difference of 255 {largest}, least cosine {cosine:.6f}", flush=True)
    for edge in (512, 1024, 2048, 4096):
        photographs = [to_bytes(photograph(index, edge), "JPEG") for index in range(4)]
        for size in (own.crop, 224, 384):
            _print_service_tolerance(photographs, replace(own, resize=size, crop=size), backbone)


def _print_service_tolerance(
    photographs: list[bytes], preprocessing: Preprocessing, backbone: Backbone
) -> None:
    """Prints how the service's pixels and features differ from those of the whole image."""
    from ipl.apps.image_decoding import decode_image
    from ipl.backbone.encode_images import encode_pixels

    started = time.process_time()
    whole = [Image.open(BytesIO(data)).convert("RGB") for data in photographs]
    exact = np.stack([preprocessing.evaluate(image) for image in whole])
    between = time.process_time()
    reduced = [decode_image(data, 25_000_000, preprocessing) for data in photographs]
    seconds = between - started, time.process_time() - between
    pixels = np.stack([preprocessing.evaluate(image) for image in reduced])
    line = f"largest difference of 255: {np.abs(exact.astype(int) - pixels).max()}"
    if preprocessing.crop == backbone.preprocessing.crop:
        features = [encode_pixels(backbone, torch.from_numpy(each)) for each in (exact, pixels)]
        cosines = (features[0] * features[1]).sum(1)
        line += f", least cosine {cosines.min():.6f}"
    edge = whole[0].width
    times = " -> ".join(f"{1000 * each / len(whole):.1f}" for each in seconds)
    print(f"serve, {edge} px to {preprocessing.crop}: {line}; {times} ms", flush=True)


def write_images(folder: str) -> None:
    """Writes the files, in a process of its own: what this one has had in memory would be counted.

    Linux counts the memory that a process had before it became another program.
    """
    for name, data in costly_images():
        (Path(folder) / name).write_bytes(data)


def main() -> None:
    """Prints a row for each file."""
    ordinary = make_requests(96)
    os.environ["PYTHONWARNINGS"] = "ignore"  # the server's standard error is checked
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}")
    print(
        f"{'':26} {'kB':>6} | predict {'s':>5} {'MiB':>6} {'':10} | "
        f"serve {'s':>5} {'MiB':>6} {'status':6} | {COPIES} at once: status; others, worst s"
    )
    with tempfile.TemporaryDirectory() as folder:
        run = learn(Path(folder), "coop")
        images = Path(folder) / "images"
        images.mkdir()
        with ProcessPoolExecutor(1, get_context("spawn")) as writer:
            writer.submit(write_images, str(images)).result()
        for file in sorted(images.iterdir()):
            name, data = file.name, file.read_bytes()
            seconds, peak, outcome = predict(run, file)
            with server(run, []) as (host, port, process):
                asyncio.run(ask(host, port, ordinary[0]))
                alone, status = asyncio.run(ask(host, port, as_request(data)))
                copies, others = asyncio.run(attack(host, port, as_request(data), ordinary))
                service_peak = tree_peak_mib(process)
            statuses = dict(Counter(each for _, each in copies))
            rest = Counter(each for _, each in others)
            print(
                f"{name:26} {len(data) / 1000:6.0f} | {seconds:13.1f} {peak:6.0f} {outcome:10} | "
                f"{alone:11.2f} {service_peak:6.0f} {status:>6} | {statuses}; {dict(rest)}, "
                f"{max(each for each, _ in others):.1f}",
                flush=True,
            )


if __name__ == "__main__":
    print_tolerance() if "--tolerance" in sys.argv[1:] else main()
