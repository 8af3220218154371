"""Damaged images of every format: classified or named as unreadable, never a traceback."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image, features

from tests.helpers.damage import damage_bytes
from tests.helpers.forked import run
from tests.helpers.scenes import open_scene

BATCH = 100  # images in one folder, for one command


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


def test_damaged_images(saved: Path, tmp_path: Path, times: Callable[[int, int], int]) -> None:
    whole, chance = originals(), random.Random(0)
    for number in range(times(1, 50)):
        folder = tmp_path / f"images {number}"
        folder.mkdir()
        names = [f"{index}{whole[index % len(whole)][0]}" for index in range(BATCH)]
        for index, name in enumerate(names):
            data = whole[index % len(whole)][1]
            damaged = data if index < len(whole) else damage_image(data, chance)
            (folder / name).write_bytes(damaged)
        command = ("predict", saved / "run1", folder, "--json", "--quiet", "--device", "cpu")
        ended = run(*command, folder=tmp_path)
        assert ended.code == 0, ended.err
        assert "Traceback" not in ended.err
        answer = json.loads(ended.out)
        classified = {Path(each["image"]).name for each in answer["predictions"]}
        assert classified >= {*names[: len(whole)]}
        assert len(classified) >= BATCH // 4  # or decoders see little of the damage
        skipped = " ".join(answer["skipped"])
        assert [
            name for name in names if name not in classified and f"/{name}:" not in skipped
        ] == []
