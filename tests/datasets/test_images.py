"""Opening images of every kind, upright and in RGB, and saying why one cannot be opened."""

from __future__ import annotations

import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageOps

from ipl.datasets.images import (
    ImageSource,
    UnreadableImageError,
    is_image_name,
    is_litter,
    open_image,
    small_jpeg,
)
from ipl_scenes import draw


@pytest.fixture(scope="module")
def scene() -> Image.Image:
    return draw("castle", 3)


def _pixels(image: Image.Image) -> NDArray[np.float64]:
    return np.asarray(image, dtype=np.float64)


@pytest.mark.parametrize("extension", [".png", ".bmp", ".tif", ".ppm"])
def test_lossless_files_come_back_as_they_were(
    extension: str, scene: Image.Image, tmp_path: Path
) -> None:
    path = tmp_path / f"scène 1{extension}"
    scene.save(path)
    opened = open_image(path)
    assert opened.mode == "RGB"
    assert np.array_equal(_pixels(opened), _pixels(scene))


@pytest.mark.parametrize("extension", [".jpg", ".webp", ".gif"])
def test_lossy_files_come_back_nearly(extension: str, scene: Image.Image, tmp_path: Path) -> None:
    path = tmp_path / f"scene{extension}"
    scene.save(path)
    assert np.abs(_pixels(open_image(path)) - _pixels(scene)).mean() < 12


@pytest.mark.parametrize("mode", ["L", "LA", "RGBA", "P", "1", "CMYK"])
def test_every_mode_becomes_rgb(mode: str, scene: Image.Image, tmp_path: Path) -> None:
    path = tmp_path / ("scene.tif" if mode == "CMYK" else "scene.png")
    scene.convert(mode).save(path)
    opened = open_image(path)
    assert opened.mode == "RGB"
    assert opened.size == scene.size
    assert abs(_pixels(opened).mean() - _pixels(scene).mean()) < 12


@pytest.mark.parametrize("name", ["scene.png", "scene.tif"])
def test_sixteen_bits_keep_their_tones(name: str, scene: Image.Image, tmp_path: Path) -> None:
    grey = np.asarray(scene.convert("L"))
    Image.fromarray(grey.astype(np.uint16) * 257).save(tmp_path / name)
    opened = _pixels(open_image(tmp_path / name))
    assert np.abs(opened - grey[..., None]).max() <= 1


def test_a_image_is_turned_upright(scene: Image.Image, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held on its side
    scene.resize((64, 32)).save(tmp_path / "a.png", exif=exif)
    opened = open_image(tmp_path / "a.png")
    assert opened.size == (32, 64)
    turned = scene.resize((64, 32)).transpose(Image.Transpose.ROTATE_270)
    assert np.array_equal(_pixels(opened), _pixels(turned))


@pytest.mark.parametrize("orientation", range(10))
def test_every_orientation_is_applied_once(orientation: int, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = draw("castle", 3).resize((24, 16))
    stored.save(tmp_path / "a.png", exif=exif)
    opened = open_image(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as image:
        assert np.array_equal(_pixels(opened), _pixels(ImageOps.exif_transpose(image)))
    again = open_image(ImageSource("a", lambda: opened))
    assert np.array_equal(_pixels(again), _pixels(opened))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_broken_exif_is_ignored(kind: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    exif = _exif()
    stored = draw("castle", 3).resize((24, 16))
    stored.save(tmp_path / "plain", kind)
    plain = _pixels(open_image(tmp_path / "plain"))
    upright = np.rot90(plain, -1)
    broken = [b"Exif\0\0", b"Exif\0\0MM\0*\xff\xff\xff\xff", exif[:30], exif[:6] + b"\xff" * 60]
    for _ in range(300):
        data = bytearray(exif)
        for place in random.integers(6, len(data), random.integers(1, 8)):
            data[place] = random.choice([0, 2, 255, int(random.integers(256))])
        broken.append(bytes(data))
    turned = 0
    for block in broken:
        stored.save(tmp_path / "a", kind, exif=block)
        opened = _pixels(open_image(tmp_path / "a"))
        if opened.shape == upright.shape:
            assert np.array_equal(opened, upright)
            turned += 1
        else:  # as it is stored, or turned by 180 degrees or mirrored
            assert opened.shape == plain.shape
    assert 30 < turned < 290


def test_a_damaged_directory_of_a_tiff_is_an_unreadable_image(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    file = BytesIO()
    exif = Image.Exif()
    exif.load(_exif())
    draw("castle", 3).resize((24, 16)).save(file, "TIFF", exif=exif)
    path = tmp_path / "a.tif"
    reasons = []
    for _ in range(200):
        data = bytearray(file.getvalue())
        start = int.from_bytes(data[4:8], "little")
        for place in random.integers(start, len(data), 2):
            data[place] = random.choice([0, 2, 255])
        path.write_bytes(data)
        try:
            assert open_image(path).mode == "RGB"
        except UnreadableImageError as error:
            reasons.append(str(error))
    assert len(reasons) > 5
    assert all(reason.startswith(f"{path}: ") for reason in reasons)


def _exif() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    exif[0x010F] = "maker"
    exif[0x011A] = 72.0
    exif[0x8769] = {0x9003: "2020:01:01", 0x829A: 0.01, 0xA002: 24}
    exif[0x8825] = {1: "N", 2: (1.0, 2.0, 3.0)}
    return exif.tobytes()


def test_of_an_animation_the_first_image(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert open_image(tmp_path / "a.gif").getpixel((4, 4)) == (255, 0, 0)


@pytest.mark.parametrize("size", [(1, 1), (1, 5000), (5000, 1)])
def test_odd_sizes(size: tuple[int, int], tmp_path: Path) -> None:
    Image.new("RGB", size).save(tmp_path / "a.png")
    assert open_image(tmp_path / "a.png").size == size


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "the file is empty"), (b"hello", "not an image"), (b"\x89PNG\r\n\x1a\n", "")],
    ids=["empty", "text", "header alone"],
)
def test_what_is_no_image(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(content)
    with pytest.raises(UnreadableImageError, match=f"a.png: .*{reason}"):
        open_image(path)


@pytest.mark.parametrize("extension", [".jpg", ".png", ".webp", ".tif", ".bmp", ".gif"])
def test_cut_short_anywhere_is_unreadable_or_whole(
    extension: str, scene: Image.Image, tmp_path: Path
) -> None:
    file = BytesIO()
    scene.save(file, Image.registered_extensions()[extension])
    data = file.getvalue()
    path = tmp_path / f"a{extension}"
    said = []
    for tenths in range(10):
        path.write_bytes(data[: len(data) * tenths // 10])
        try:
            assert open_image(path).size == scene.size
        except UnreadableImageError as error:
            said.append(str(error))
    assert len(said) >= 8
    assert all(message.startswith(f"{path}: ") for message in said)


def test_a_truncated_jpeg_is_called_truncated(scene: Image.Image, tmp_path: Path) -> None:
    scene.save(tmp_path / "a.jpg")
    data = (tmp_path / "a.jpg").read_bytes()
    (tmp_path / "a.jpg").write_bytes(data[: len(data) // 2])
    with pytest.raises(UnreadableImageError, match="a.jpg: the file is truncated"):
        open_image(tmp_path / "a.jpg")


def test_damage_is_reported_and_never_escapes(scene: Image.Image, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    said = []
    for extension in (".jpg", ".png", ".webp", ".tif", ".bmp", ".gif"):
        file = BytesIO()
        scene.resize((24, 24)).save(file, Image.registered_extensions()[extension])
        for _ in range(40):
            data = bytearray(file.getvalue())
            for place in random.integers(0, min(len(data), 400), 6):
                data[place] = random.integers(256)
            path = tmp_path / f"a{extension}"
            path.write_bytes(data)
            try:
                assert open_image(path).mode == "RGB"
            except UnreadableImageError as error:
                said.append(str(error))
    assert len(said) > 40
    assert all(message.startswith(str(tmp_path / "a.")) for message in said)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(UnreadableImageError, match="no such file"):
        open_image(tmp_path / "none.png")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(UnreadableImageError, match=r"folder\.png"):
        open_image(tmp_path / "folder.png")


def test_a_file_that_may_not_be_read_is_not_called_no_image(
    scene: Image.Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.save(tmp_path / "a.png")

    def deny(*_: object, **__: object) -> None:
        raise PermissionError(13, os.strerror(13), str(tmp_path / "a.png"))

    monkeypatch.setattr(Image, "open", deny)  # root may read anything, so it is refused here
    with pytest.raises(UnreadableImageError, match="[Pp]ermission"):
        open_image(tmp_path / "a.png")


def test_too_many_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("L", (64, 64)).save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(UnreadableImageError, match="too many pixels"):
        open_image(tmp_path / "a.png")


def test_threads_leave_the_filters_of_warnings_alone(scene: Image.Image, tmp_path: Path) -> None:
    scene.save(tmp_path / "a.png")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = list(warnings.filters)
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(open_image, [tmp_path / "a.png"] * 400))
        assert warnings.filters == before


@pytest.mark.parametrize(
    ("name", "image"),
    [("a.JPG", True), ("a.b.tiff", True), ("a", False), ("jpg", False), ("a.txt", False)],
)
def test_names_of_images(name: str, image: bool) -> None:
    assert is_image_name(Path(name)) is image


@pytest.mark.parametrize(
    ("name", "litter"),
    [(".DS_Store", True), ("._a.jpg", True), ("Thumbs.db", True), ("a.jpg", False)],
)
def test_names_of_litter(name: str, litter: bool) -> None:
    assert is_litter(Path("folder") / name) is litter


def test_a_small_jpeg_keeps_its_shape(tmp_path: Path) -> None:
    path = tmp_path / "wide.png"
    draw("castle", 3).resize((90, 45)).save(path)
    for side, size in ((30, (30, 15)), (200, (90, 45))):
        small = Image.open(BytesIO(small_jpeg(path, side)))
        assert (small.format, small.mode, small.size) == ("JPEG", "RGB", size)
    path.write_bytes(b"x")
    with pytest.raises(UnreadableImageError, match="not an image"):
        small_jpeg(path, 30)
