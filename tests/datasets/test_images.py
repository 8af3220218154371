"""Opening images of every kind, upright and in RGB, and saying why one cannot be opened."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageOps

from ipl.datasets import images
from ipl.datasets.images import (
    ImageSource,
    ImageTooLargeError,
    NotAnImageError,
    UnreadableImageError,
    open_image,
)
from tests.helpers.scenes import open_scene


@pytest.fixture(scope="module")
def scene() -> Image.Image:
    return open_scene("castle", 3)


def _pixels(image: Image.Image) -> NDArray[np.float64]:
    return np.asarray(image, dtype=np.float64)


@pytest.mark.parametrize(
    ("extension", "difference"),
    [(".png", 0), (".bmp", 0), (".tif", 0), (".jpg", 12), (".webp", 12), (".gif", 12)],
)
def test_files_come_back_as_they_were(
    extension: str, difference: float, scene: Image.Image, tmp_path: Path
) -> None:
    path = tmp_path / f"scène 1{extension}"
    scene.save(path)
    opened = open_image(path)
    assert opened.mode == "RGB"
    assert np.abs(_pixels(opened) - _pixels(scene)).mean() <= difference


@pytest.mark.parametrize("mode", ["L", "LA", "RGBA", "P", "1", "CMYK"])
def test_every_mode_becomes_rgb(mode: str, scene: Image.Image, tmp_path: Path) -> None:
    path = tmp_path / ("scene.tif" if mode == "CMYK" else "scene.png")
    scene.convert(mode).save(path)
    opened = open_image(path)
    assert opened.mode == "RGB"
    assert opened.size == scene.size
    assert abs(_pixels(opened).mean() - _pixels(scene).mean()) < 12


@pytest.mark.parametrize("name", ["a.png", "a.tif"])
def test_sixteen_bits_are_rounded_to_eight(name: str, tmp_path: Path) -> None:
    tones = np.arange(1 << 16).reshape(256, 256)
    Image.fromarray(tones.astype(np.uint16)).save(tmp_path / name)
    assert np.array_equal(_pixels(open_image(tmp_path / name))[..., 0], (tones + 128) // 257)


@pytest.mark.parametrize("orientation", range(10))
def test_every_orientation_is_applied_once(orientation: int, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = open_scene("castle", 3).resize((24, 16))
    stored.save(tmp_path / "a.png", exif=exif)
    opened = open_image(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as image:
        assert np.array_equal(_pixels(opened), _pixels(ImageOps.exif_transpose(image)))
    again = open_image(ImageSource("a", lambda: opened))
    assert np.array_equal(_pixels(again), _pixels(opened))


def test_missing_files_folders_and_pipes(tmp_path: Path) -> None:
    (tmp_path / "folder.png").mkdir()
    os.mkfifo(tmp_path / "pipe.png")
    for name in ("none.png", "folder.png", "null\0.png", "pipe.png"):
        with pytest.raises(UnreadableImageError, match=name.replace("\0", "")):
            open_image(tmp_path / name)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x89PNG\r\n\x1a\n"])
def test_what_is_no_image(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(NotAnImageError, match="a.png: .*not an image"):
        open_image(tmp_path / "a.png")


def test_too_many_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("L", (64, 64)).save(tmp_path / "a.png")
    with pytest.raises(ImageTooLargeError, match="64 x 64 pixels; at most 4,095"):
        open_image(tmp_path / "a.png", 4095)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(ImageTooLargeError, match="a.png: the image has too many pixels"):
        open_image(tmp_path / "a.png")


def test_a_large_jpeg_is_decoded_at_a_reduced_size(
    scene: Image.Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "EXACT_PIXELS", 10_000)
    monkeypatch.setattr(images, "REDUCED_SIDE", 64)
    exif = Image.Exif()
    exif[0x0112] = 6
    for options in ({}, {"progressive": True}):
        path = tmp_path / "a.jpg"
        scene.resize((400, 280)).save(path, quality=95, exif=exif, **options)
        opened = open_image(path)
        assert opened.size == (70, 100)  # a quarter, and turned
        with Image.open(path) as image:
            expected = image.reduce(4).transpose(Image.Transpose.ROTATE_270)
        assert np.abs(_pixels(opened) - _pixels(expected)).mean() < 3


@pytest.mark.parametrize("kind", ["AVIF", "HEIF"])
def test_images_of_phones(kind: str, scene: Image.Image, tmp_path: Path) -> None:
    if kind not in images.image_formats():
        pytest.skip(f"{kind} cannot be read here")
    exif = Image.Exif()
    exif[0x0112] = 6
    path = tmp_path / f"a.{kind.lower()}"
    scene.resize((96, 64)).save(path, kind, quality=90, exif=exif.tobytes())
    opened = open_image(path)
    assert (opened.mode, opened.size) == ("RGB", (64, 96))
    expected = scene.resize((96, 64)).transpose(Image.Transpose.ROTATE_270)
    assert np.abs(_pixels(opened) - _pixels(expected)).mean() < 6


def test_the_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    formats = images.image_formats.__wrapped__()
    monkeypatch.setattr(images, "image_formats", lambda: formats)
    (tmp_path / "IMG_1.HEIC").write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic\0\0\0\x08mdat")
    with pytest.raises(NotAnImageError, match=r"needs: pip install 'ipl\["):
        open_image(tmp_path / "IMG_1.HEIC")


def test_a_palette_with_transparency_keeps_its_colours(tmp_path: Path) -> None:
    stored = Image.new("P", (8, 8), 1)
    stored.putpalette([0, 0, 0, 200, 100, 50])
    stored.save(tmp_path / "a.png", transparency=bytes([0, 128]))
    assert open_image(tmp_path / "a.png").getpixel((4, 4)) == (200, 100, 50)


@pytest.mark.parametrize("mode", ["F", "LAB"])
def test_pixels_without_a_meaning_in_rgb(mode: str, tmp_path: Path) -> None:
    Image.new(mode, (8, 8)).save(tmp_path / "a.tif")
    with pytest.raises(UnreadableImageError, match=rf"a\.tif: .*{mode}"):
        open_image(tmp_path / "a.tif")
