"""How fast image files are read for a GPU: by threads of one process, and by processes.

    python benchmarks/reading.py
    python benchmarks/reading.py --images 2048 --sizes 64x64,500x375,1000x700

Both sides open the same generated JPEG files and cut the centre that ViT-B/16 sees, with as many
threads or processes as there are cores, 4 to 16. The last column says whether all bytes are the
same. It runs on Linux, and needs no GPU.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
from common import build
from PIL import Image

from ipl.backbone.encode_images import CentreCrops, Opened, decoders, decoding_threads
from ipl.backbone.image_processes import AT_ONCE, ImageProcesses
from ipl.display.table import Table

DRAWN = 64  # distinct images; the other files repeat them


def draw_jpeg(width: int, height: int, stream: random.Random) -> bytes:
    """Returns coarse noise, which has about as many bytes per pixel as a photograph."""
    size = width // 4, height // 4
    coarse = Image.frombytes("RGB", size, stream.randbytes(3 * size[0] * size[1]))
    file = BytesIO()
    coarse.resize((width, height), Image.Resampling.BICUBIC).save(file, "JPEG", quality=90)
    return file.getvalue()


def write_images(folder: Path, width: int, height: int, count: int) -> list[Path]:
    """Writes JPEG files of one size and returns their paths."""
    stream = random.Random(0)
    drawn = [draw_jpeg(width, height, stream) for _ in range(min(DRAWN, count))]
    paths = [folder / f"{width}x{height}-{index}.jpg" for index in range(count)]
    for index, path in enumerate(paths):
        path.write_bytes(drawn[index % len(drawn)])
    return paths


def best(work: Callable[[], list[Opened]], times: int) -> tuple[list[Opened], float]:
    """Returns what a side reads, and its shortest time in seconds."""
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        found = work()
        seconds.append(time.perf_counter() - started)
    return found, min(seconds)


def measure(crops: CentreCrops, processes: ImageProcesses, paths: Sequence[Path]) -> list[str]:
    """Returns the milliseconds for an image on both sides, and their ratio."""

    def read(together: int, by: ImageProcesses | None) -> list[Opened]:
        parts = [paths[i : i + together] for i in range(0, len(paths), together)]
        with decoding_threads() as threads:
            return [
                crop for part in threads.map(crops.cut, parts, [by] * len(parts)) for crop in part
            ]

    by_threads, before = best(lambda: read(1, None), 3)
    by_processes, now = best(lambda: read(AT_ONCE, processes), 3)
    same = np.array_equal(np.array(by_threads), np.array(by_processes))
    times = [f"{1e3 * seconds / len(paths):.3f}" for seconds in (before, now)]
    return [*times, f"{before / now:.1f}", "yes" if same else "no"]


def main() -> None:
    """Reads the command line and prints a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--sizes", default="64x64,500x375,1000x700", help="with commas between")
    options = parser.parse_args()
    backbone = build("vit-b16", "cpu")
    processes = ImageProcesses(backbone.preprocessing, decoders())
    processes.cpu_seconds()  # when all have started
    rows = []
    try:
        with tempfile.TemporaryDirectory() as work:
            for size in options.sizes.split(","):
                width, height = map(int, size.split("x"))
                paths = write_images(Path(work), width, height, options.images)
                rows.append([size, *measure(CentreCrops(backbone), processes, paths)])
    finally:
        processes.close()
    columns = ["pixels", "threads, ms", "processes, ms", "ratio", "same bytes"]
    print(f"{decoders()} threads and processes")
    print(Table(columns, rows, numbers=columns[1:-1]).to_markdown())


if __name__ == "__main__":
    main()
