"""Images are decoded in processes of their own; one that hangs or dies costs only its image."""

from __future__ import annotations

import asyncio
import os
import signal
import struct
import sys
import zlib
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import ExifTags, Image

from ipl import Backbone
from ipl.apps import decoders
from ipl.apps.decoders import ENOUGH, QUICK, Decoders, Places, Refusal, decode
from ipl.backbone.preprocessing import Preprocessing
from ipl.datasets.images import open_image
from tests.helpers.scenes import open_scene
from tests.helpers.serving import to_bytes

PIXELS = 1_000_000
TURNED = Image.Exif()
TURNED[ExifTags.Base.Orientation] = 6
CASTLE = to_bytes(open_scene("castle", 1))


def noise(width: int, height: int, mode: str = "RGB") -> Image.Image:
    stream = np.random.default_rng(width * height)
    image = Image.fromarray(stream.integers(0, 256, (height, width, 3), dtype=np.uint8))
    return image.convert(mode)


def bomb(edge: int) -> bytes:
    """Returns a PNG of a hundred bytes that claims to have edge x edge pixels."""

    def chunk(name: bytes, body: bytes) -> bytes:
        checked = name + body
        return struct.pack(">I", len(body)) + checked + struct.pack(">I", zlib.crc32(checked))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", edge, edge, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("size", "mode", "kind", "options"),
    [
        ((301, 97), "RGB", "PNG", {}),
        ((9, 1), "RGB", "PNG", {}),
        ((120, 80), "P", "GIF", {}),
        ((120, 80), "L", "TIFF", {}),
        ((120, 80), "RGBA", "WEBP", {"lossless": True}),
        ((120, 80), "RGB", "JPEG", {"exif": TURNED}),
        ((641, 1000), "RGB", "JPEG", {}),  # large, but it cannot be halved
    ],
)
def test_the_model_sees_of_bytes_what_it_sees_of_a_file(
    size: tuple[int, int], mode: str, kind: str, options: dict[str, Any],
    pocket: Backbone, tmp_path: Path,
) -> None:  # fmt: skip
    data = to_bytes(noise(*size, mode), kind, **options)
    (tmp_path / "file").write_bytes(data)
    expected = pocket.preprocessing.evaluate(open_image(tmp_path / "file"))
    assert np.array_equal(decode(data, PIXELS, pocket.preprocessing), expected)


def test_a_large_jpeg_is_decoded_at_a_reduced_size(
    pocket: Backbone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = to_bytes(open_scene("castle", 1).resize((642, 1800)), "JPEG", quality=90)
    (tmp_path / "file").write_bytes(data)
    expected = pocket.preprocessing.evaluate(open_image(tmp_path / "file")).astype(int)
    evaluate, sizes = Preprocessing.evaluate, []
    monkeypatch.setattr(
        Preprocessing,
        "evaluate",
        lambda own, image: sizes.append(image.size) or evaluate(own, image),
    )
    assert np.abs(decode(data, 2 * PIXELS, pocket.preprocessing) - expected).max() <= 3
    assert ENOUGH * pocket.preprocessing.resize <= min(sizes[0]) < 642


# -- processes ------------------------------------------------------------------------------------


@asynccontextmanager
async def running(pocket: Backbone, max_pixels: int = PIXELS) -> AsyncIterator[Decoders]:
    own = Decoders(pocket.preprocessing, max_pixels, 10**6)
    await own.start()
    try:
        yield own
    finally:
        await own.close()


async def refusal(decoding: Coroutine[Any, Any, Any]) -> Refusal:
    with pytest.raises(Refusal) as caught:
        await decoding
    return caught.value


def test_processes_decode_and_refuse(pocket: Backbone) -> None:
    async def check() -> None:
        async with running(pocket) as own:
            for kind in ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"):
                data = to_bytes(open_scene("castle", 1), kind)
                expected = decode(data, PIXELS, pocket.preprocessing)
                assert np.array_equal(await own.decode(data, "a"), expected)
            for status, bad in [
                (415, b""),
                (415, b"<svg xmlns='http://www.w3.org/2000/svg'/>"),
                (415, b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"),  # starts a program
                (415, to_bytes(noise(8, 8), "PPM")),  # nobody sends it, and its text form is slow
                (415, to_bytes(noise(8, 8), "TIFF")[:60]),
                (422, CASTLE[:-400]),
                (413, bomb(1_001)),
                (413, bomb(60_000)),
            ]:
                assert (await refusal(own.decode(bad, "a"))).status == status, bad[:20]
            assert len(own._processes) == 1  # none of them was needed twice

    asyncio.run(check())


def test_one_that_hangs_is_killed_and_replaced(
    pocket: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoders, "QUICK_SECONDS", 0.2)

    async def check() -> None:
        async with running(pocket) as own:
            (first,) = own._processes
            first.send_signal(signal.SIGTERM)
            first.send_signal(signal.SIGINT)
            await own.decode(CASTLE, "a")
            assert {first} == own._processes  # signals for the service do not end it
            first.send_signal(signal.SIGSTOP)
            await own.decode(CASTLE, "a")  # by one of the few for slow images
            assert first.returncode == -signal.SIGKILL
            (second,) = own._processes
            second.kill()
            await second.wait()
            await own.decode(CASTLE, "a")
            for limit in ("QUICK_SECONDS", "DECODE_SECONDS"):
                monkeypatch.setattr(decoders, limit, 1e-9)
            assert "longer than 1e-09 s" in str(await refusal(own.decode(CASTLE, "a")))

    asyncio.run(check())


def test_a_large_image_goes_to_the_few_for_large_ones(
    pocket: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check() -> None:
        async with running(pocket, max_pixels=20_000_000) as own:
            taken: list[str] = []
            take = own._slow.take
            own._slow.take = lambda *given: taken.append(given[0]) or take(*given)  # type: ignore
            await own.decode(to_bytes(Image.new("L", (2000, 2000))), "a")
            assert taken == []
            await own.decode(to_bytes(Image.new("L", (2000, 2001))), "b")
            assert taken == ["b"]

    asyncio.run(check())


def test_an_image_that_ends_its_process_is_refused(
    pocket: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash = "import os; decoders.decode = lambda *_: os.abort()"
    command = f"from ipl.apps import decoders; {crash}; decoders.main()"
    monkeypatch.setattr(decoders, "COMMAND", command)

    async def check() -> None:
        async with running(pocket) as own:
            assert "the decoder ended" in str(await refusal(own.decode(CASTLE, "a")))
            assert own._processes == set()

    asyncio.run(check())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
def test_memory_is_limited(pocket: Backbone, monkeypatch: pytest.MonkeyPatch) -> None:
    large = to_bytes(Image.new("RGB", (4000, 5000)))

    async def check(status: int | None) -> None:
        async with running(pocket, max_pixels=20_000_000) as own:
            if status is None:
                await own.decode(large, "a")
            else:
                assert (await refusal(own.decode(large, "a"))).status == status
                await own.decode(CASTLE, "a")

    asyncio.run(check(None))
    monkeypatch.setattr(decoders, "PIXEL_BYTES", 0)
    asyncio.run(check(413))


def test_a_limit_larger_than_the_system_counts_is_none(pocket: Backbone) -> None:
    async def check() -> None:
        async with running(pocket, max_pixels=10**20) as own:
            await own.decode(CASTLE, "a")

    asyncio.run(check())


def test_no_process_outlives_the_service(pocket: Backbone) -> None:
    async def check() -> list[int]:
        async with running(pocket) as own:
            await asyncio.gather(*(own.decode(CASTLE, "a") for _ in range(4)))
            return [process.pid for process in own._processes]

    for number in asyncio.run(check()):
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)


# -- who is next ----------------------------------------------------------------------------------


def order(places: int, *asked: tuple[str, int]) -> list[list[str]]:
    """Returns who is inside: all come at once, and all who are inside go at once, until none is."""
    seen: list[list[str]] = []

    async def check() -> None:
        own, inside, leave = Places(places), list[str](), asyncio.Event()

        async def visit(client: str, size: int) -> None:
            async with own.take(client, size):
                inside.append(f"{client}{size}")
                await leave.wait()
                inside.remove(f"{client}{size}")

        tasks = [asyncio.create_task(visit(*each)) for each in asked]
        while not all(task.done() for task in tasks):
            for _ in range(5):
                await asyncio.sleep(0)
            seen.append(sorted(inside))
            leave.set()
            await asyncio.sleep(0)
            leave.clear()
        await asyncio.gather(*tasks)
        assert (own.free, own._held, own._waiting) == (places, {}, [])

    asyncio.run(check())
    return seen


def test_a_client_has_half_of_the_places_and_small_files_go_first() -> None:
    seen = order(4, ("a", 9), ("a", 8), ("a", 5), ("a", 3), ("b", 7), ("b", 6), ("b", 1))
    assert seen[0] == ["a8", "a9", "b6", "b7"]  # those who come first, two of each
    assert seen[1] == ["a3", "a5", "b1"]  # then the smallest


def test_who_gives_up_leaves_no_process_and_takes_no_place(pocket: Backbone) -> None:
    async def check() -> None:
        async with running(pocket) as own:
            for seconds in (0.0, 0.01, 0.05):  # before the process has started, and after
                own._processes.copy().pop().kill() if own._processes else None
                decoding = asyncio.create_task(own.decode(CASTLE, "a"))
                await asyncio.sleep(seconds)
                decoding.cancel()
                await asyncio.gather(decoding, return_exceptions=True)
                assert own._processes == set(own._idle)
                assert (own._quick.free, own._quick._held, own._quick._waiting) == (QUICK, {}, [])
            await own.decode(CASTLE, "a")

    asyncio.run(check())
