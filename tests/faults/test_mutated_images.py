"""Damaged images of every format: classified or named as unreadable, never a traceback."""

from __future__ import annotations

import io
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, features

from tests.helpers.attacks import Outcome
from tests.helpers.fork_server import ForkServer
from tests.helpers.mutations import damage_bytes
from tests.helpers.scenes import open_scene

BATCH = 100  # images in one folder, for one command
MEMORY = 500 << 20  # bytes that a command may take beside what it starts with
Times = Callable[[int, int], int]
Check = Callable[[Outcome], None]


def exif() -> Image.Exif:
    """Returns what a camera writes: orientation, text, fractions and a place."""
    tags = Image.Exif()
    tags[0x0112], tags[0x010F], tags[0x011A] = 6, "camera", 72.0
    tags.get_ifd(0x8769).update({0x9003: "2026:01:01 00:00:00", 0x829A: 0.01, 0x927C: b"\0" * 40})
    tags.get_ifd(0x8825).update({1: "N", 2: (1.0, 2.0, 3.0)})
    return tags


def originals() -> list[tuple[str, bytes]]:
    """Returns the suffix and the bytes of images in every format and mode that has one."""
    scene = open_scene("beach", 0)
    frames = [open_scene("beach", number).resize((48, 48)) for number in range(3)]
    wanted: list[tuple[str, str, Image.Image, dict[str, Any]]] = [
        (".jpg", "JPEG", scene, {"exif": exif()}),
        (".jpg", "JPEG", scene, {"progressive": True, "exif": exif()}),
        (".jpg", "JPEG", scene.convert("CMYK"), {}),
        (".png", "PNG", scene, {"exif": exif()}),
        (".png", "PNG", scene.convert("P"), {"transparency": 3}),
        (".png", "PNG", scene.convert("L").convert("I;16"), {}),
        (".webp", "WEBP", scene, {"exif": exif()}),
        (".webp", "WEBP", scene, {"lossless": True}),
        (".gif", "GIF", frames[0], {"save_all": True, "append_images": frames[1:]}),
        (".tif", "TIFF", scene, {"compression": "tiff_lzw"}),
        (".tif", "TIFF", scene, {"compression": "tiff_deflate"}),
        (".bmp", "BMP", scene, {}),
    ]
    if features.check("avif"):
        wanted.append((".avif", "AVIF", scene, {}))
    files = []
    for suffix, kind, image, options in wanted:
        file = io.BytesIO()
        image.save(file, kind, **options)
        files.append((suffix, file.getvalue()))
    return files


def damage_image(data: bytes, chance: random.Random) -> bytes:
    """Returns a damaged image; in half of them only the head is damaged, where sizes are."""
    if chance.random() < 0.5:
        head = min(len(data), chance.choice((32, 128, 512)))
        return damage_bytes(data[:head], chance) + data[head:]
    return damage_bytes(data, chance)


def damage_images(count: int, server: ForkServer, run: Path, home: Path) -> Outcome:
    """Damages images, and gives a folder after the other to `ipl predict`."""
    outcome, chance, whole = Outcome("damage: images"), random.Random(0), originals()
    while outcome.count < count:
        folder = home / "images"
        folder.mkdir()
        names = [f"{number}{whole[number % len(whole)][0]}" for number in range(BATCH)]
        for number, name in enumerate(names):
            data = whole[number % len(whole)][1]
            (folder / name).write_bytes(
                damage_image(data, chance) if number >= len(whole) else data
            )
        command = ("predict", run, folder, "--json", "--quiet", "--device", "cpu")
        ended = server.run(*command, folder=home, cache=home / "cache", limit_memory=MEMORY)
        outcome.peak = max(outcome.peak, ended.peak)
        outcome.count += BATCH - len(whole)
        problem = _problem(ended.code, ended.out, names, len(whole))
        if problem or "Traceback" in ended.err:
            outcome.failures.append(f"{problem}: {ended.err[-1000:]}")
            shutil.copytree(folder, home / f"failed {outcome.count}")
        shutil.rmtree(folder)
    return outcome


def _problem(code: object, out: str, names: list[str], whole: int) -> str:
    """Returns what is wrong with the answer to a folder whose first images are whole."""
    if code != 0:
        return f"exit code {code}"
    answer = json.loads(out)
    classified = {Path(each["image"]).name for each in answer["predictions"]}
    skipped = " ".join(answer["skipped"])
    if not {*names[:whole]} <= classified:
        return f"whole images are not classified: {sorted({*names[:whole]} - classified)}"
    silent = [name for name in names if name not in classified and f"/{name}:" not in skipped]
    return f"neither classified nor named: {silent}" if silent else ""


def test_damaged_images(
    server: ForkServer, run: Path, tmp_path: Path, times: Times, check: Check
) -> None:
    check(damage_images(times(80, 5000), server, run, tmp_path))


@pytest.mark.parametrize("suffix", sorted({suffix for suffix, _ in originals()}))
def test_most_damaged_images_are_still_recognised_as_such(suffix: str) -> None:
    """Otherwise decoders would see none of the damage."""
    data = next(data for kind, data in originals() if kind == suffix)
    chance, opened = random.Random(0), 0
    for _ in range(200):
        try:
            with Image.open(io.BytesIO(damage_image(data, chance))):
                opened += 1
        except Exception:
            pass
    assert opened >= 20
