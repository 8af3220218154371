"""Bytes are checked before they are decoded, and the model sees what it would see of a file."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import ExifTags, Image

from ipl import Backbone
from ipl.apps.image_decoding import ENOUGH, MAX_SCANS, check_image_header, decode_image
from ipl.apps.limits import Refusal
from ipl.backbone.preprocessing import Preprocessing
from ipl.datasets.images import open_image
from tests.helpers.scenes import open_scene
from tests.helpers.serving import to_bytes

PIXELS = 1_000_000
TURNED = Image.Exif()
TURNED[ExifTags.Base.Orientation] = 6


def noise(width: int, height: int, mode: str = "RGB") -> Image.Image:
    stream = np.random.default_rng(width * height)
    image = Image.fromarray(stream.integers(0, 256, (height, width, 3), dtype=np.uint8))
    return image.convert(mode)


@pytest.fixture(params=["as it is", "resize beyond crop", "odd margin", "squash"])
def preprocessing(request: pytest.FixtureRequest, pocket: Backbone) -> Preprocessing:
    changes: dict[str, dict[str, Any]] = {
        "as it is": {},
        "resize beyond crop": {"resize": 80},
        "odd margin": {"resize": 67},
        "squash": {"squash": True},
    }
    return replace(pocket.preprocessing, **changes[request.param])


@pytest.mark.parametrize(
    ("size", "mode", "kind", "options"),
    [
        ((301, 97), "RGB", "PNG", {}),
        ((33, 900), "RGB", "PNG", {}),
        ((9, 1), "RGB", "PNG", {}),
        ((120, 80), "P", "GIF", {}),
        ((120, 80), "L", "TIFF", {}),
        ((120, 80), "RGBA", "WEBP", {"lossless": True}),
        ((120, 80), "RGB", "JPEG", {"exif": TURNED}),
        ((641, 1000), "RGB", "JPEG", {}),  # large, but it cannot be halved
    ],
)  # fmt: skip
def test_the_model_sees_of_bytes_what_it_sees_of_a_file(
    size: tuple[int, int], mode: str, kind: str, options: dict[str, Any],
    preprocessing: Preprocessing, tmp_path: Path,
) -> None:  # fmt: skip
    data = to_bytes(noise(*size, mode), kind, **options)
    (tmp_path / "file").write_bytes(data)
    small = decode_image(data, PIXELS, preprocessing)
    expected = preprocessing.evaluate(open_image(tmp_path / "file"))
    assert np.array_equal(preprocessing.evaluate(small), expected)
    assert max(small.size) <= preprocessing.resize  # waiting images are small


@pytest.mark.parametrize("size", [(640, 640), (642, 1800)])
@pytest.mark.parametrize("progressive", [False, True])
def test_a_large_jpeg_is_decoded_at_a_reduced_size(
    size: tuple[int, int], progressive: bool, preprocessing: Preprocessing,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    coarse = open_scene("castle", 1).resize(size)
    data = to_bytes(coarse, "JPEG", quality=90, progressive=progressive)
    sizes = []
    evaluate = Preprocessing.evaluate

    def watched(own: Preprocessing, image: Image.Image) -> Any:
        sizes.append(image.size)
        return evaluate(own, image)

    monkeypatch.setattr(Preprocessing, "evaluate", watched)
    small = decode_image(data, 2 * PIXELS, preprocessing)
    (decoded,) = sizes
    assert decoded[0] < size[0]
    assert min(decoded) >= ENOUGH * preprocessing.resize
    (tmp_path / "file").write_bytes(data)
    expected = evaluate(preprocessing, open_image(tmp_path / "file")).astype(int)
    assert np.abs(evaluate(preprocessing, small) - expected).max() <= 3


def refused(data: bytes, pocket: Backbone) -> Refusal:
    with pytest.raises(Refusal) as caught:
        decode_image(data, PIXELS, pocket.preprocessing)
    return caught.value


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("edge", [1_001, 60_000])
def test_a_bomb_is_refused_by_its_header(edge: int, pocket: Backbone) -> None:
    def chunk(name: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        )

    head = struct.pack(">IIBBBBB", edge, edge, 8, 2, 0, 0, 0)
    rest = chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + rest
    assert len(bomb) < 100
    assert refused(bomb, pocket).status == 413


def test_a_jpeg_with_many_scans_is_refused(pocket: Backbone) -> None:
    data = to_bytes(noise(64, 64), "JPEG", progressive=True)
    assert 5 < data.count(b"\xff\xda") < 20  # what photographs have
    check_image_header(data, PIXELS)
    start = data.rindex(b"\xff\xda")
    again = data[:-2] + data[start:-2] * MAX_SCANS + data[-2:]
    assert refused(again, pocket).status == 413


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"", 415),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", 415),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", 415),  # would start a program
        (to_bytes(noise(64, 64))[:-400], 422),
        (to_bytes(noise(64, 64), "JPEG")[:900], 422),
        (to_bytes(noise(8, 8), "TIFF")[:60], 415),
    ],
)
def test_what_is_no_image_or_damaged_is_refused(data: bytes, status: int, pocket: Backbone) -> None:
    assert refused(data, pocket).status == status
