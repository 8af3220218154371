"""Images are decoded in processes of their own; one that hangs or dies costs only its image."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from ipl import Backbone, PromptClassifier
from ipl.apps import decoder_process
from ipl.apps.decoder_process import LARGE, DecoderPool, DecoderProcess
from ipl.apps.image_decoding import decode_image
from ipl.apps.limits import Limits, Refusal
from ipl.apps.serve.app import create_app
from tests.helpers.scenes import open_scene
from tests.helpers.serving import sentence, to_bytes, upload

Make = Callable[..., DecoderPool]


@pytest.fixture
def make(pocket: Backbone) -> Iterator[Make]:
    """Yields a function that makes a pool with other limits."""
    pools: list[DecoderPool] = []

    def call(**limits: float) -> DecoderPool:
        pools.append(DecoderPool(Limits(**limits), pocket.preprocessing))  # type: ignore[arg-type]
        return pools[-1]

    yield call
    for pool in pools:
        pool.close()


def refused(pool: DecoderPool, data: bytes) -> Refusal:
    with pytest.raises(Refusal) as caught:
        pool.decode(data)
    return caught.value


def process_id(pool: DecoderPool) -> int:
    (process,) = pool._idle
    return process._process.pid


def test_it_decodes_as_this_process_does(make: Make, pocket: Backbone) -> None:
    pool = make()
    for index, kind in enumerate(("PNG", "JPEG", "WEBP", "GIF")):
        data = to_bytes(open_scene("castle", index).resize((120, 90)), kind)
        expected = decode_image(data, Limits().max_pixels, pocket.preprocessing)
        decoded = pool.decode(data)
        assert decoded is not None
        assert np.array_equal(np.asarray(decoded), np.asarray(expected))
    assert pool.started == 1


def test_what_is_refused_is_refused_as_by_this_process(make: Make, pocket: Backbone) -> None:
    pool = make(max_pixels=199)
    for data in (b"", b"no image", to_bytes(Image.new("L", (20, 10))), b"GIF89a"):
        with pytest.raises(Refusal) as expected:
            decode_image(data, 199, pocket.preprocessing)
        refusal = refused(pool, data)
        assert (refusal.status, refusal.sentence) == (
            expected.value.status,
            expected.value.sentence,
        )
    assert pool.started == 1


def test_large_images_are_set_aside_unless_asked_for(make: Make) -> None:
    pool = make()
    data = to_bytes(Image.new("1", (2000, LARGE // 2000 + 1)))
    assert pool.decode(data, large=False) is None
    assert pool.decode(data) is not None
    assert pool.decode(to_bytes(Image.new("1", (2000, LARGE // 2000))), large=False) is not None


def test_a_process_that_hangs_is_killed_and_another_started(make: Make) -> None:
    pool, data = make(decode_seconds=0.5), to_bytes(open_scene("castle", 1))
    pool.start()
    number = process_id(pool)
    os.kill(number, signal.SIGSTOP)
    refusal = refused(pool, data)
    assert (refusal.status, refusal.sentence) == (
        413, "image: it took longer than 0.5 s to decode.",
    )  # fmt: skip
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)
    pool.limits = Limits()
    assert pool.decode(data) is not None
    assert pool.started == 2


def test_a_process_that_has_ended_costs_nothing(make: Make) -> None:
    pool = make()
    pool.start()
    os.kill(process_id(pool), signal.SIGKILL)
    assert pool.decode(to_bytes(open_scene("castle", 1))) is not None


def test_an_image_that_ends_processes_is_refused(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash = "import os; decoder_process.decode_image = lambda *_: os.abort()"
    command = f"from ipl.apps import decoder_process; {crash}; decoder_process.main()"
    monkeypatch.setattr(decoder_process, "COMMAND", command)
    pool = make()
    refusal = refused(pool, to_bytes(open_scene("castle", 1)))
    assert (refusal.status, refusal.sentence) == (
        422, "image: the image is damaged; the decoder ended.",
    )  # fmt: skip
    assert pool.started == 2
    error = "def fail(*_): raise KeyError('a bug')"
    command = f"from ipl.apps import decoder_process\n{error}\ndecoder_process.decode_image = fail"
    monkeypatch.setattr(decoder_process, "COMMAND", f"{command}\ndecoder_process.main()")
    with pytest.raises(RuntimeError, match="Traceback(.|\n)*a bug"):
        pool.decode(to_bytes(open_scene("castle", 1)))


def test_signals_for_the_service_do_not_end_it(make: Make) -> None:
    pool = make()
    pool.start()
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(process_id(pool), number)
    assert pool.decode(to_bytes(open_scene("castle", 1))) is not None
    assert pool.started == 1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
def test_memory_is_limited(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    data = to_bytes(Image.new("RGB", (4000, 5000)))
    assert make().decode(data) is not None
    monkeypatch.setattr("ipl.apps.limits.decoding_bytes", lambda pixels: 0)
    pool = make(max_bytes=1)
    refusal = refused(pool, data)
    assert (refusal.status, refusal.sentence) == (
        413, "image: there is not enough memory to decode it.",
    )  # fmt: skip
    assert pool.decode(to_bytes(open_scene("castle", 1))) is not None
    assert pool.started == 1


def test_one_that_cannot_be_started_is_a_bug(
    pocket: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoder_process, "COMMAND", "raise SystemExit(3)")
    with pytest.raises(RuntimeError, match="cannot be started"):
        DecoderProcess(Limits(), pocket.preprocessing)


def test_the_service_survives_it(classifier: PromptClassifier) -> None:
    app = create_app(classifier, Limits(decode_seconds=0.5, wait_ms=0))
    data = to_bytes(open_scene("castle", 1))
    with TestClient(app, raise_server_exceptions=False) as client:
        pool = app.state.service.decoders
        os.kill(process_id(pool), signal.SIGSTOP)
        assert "longer than 0.5 s" in sentence(upload(client, data), 413)
        pool.limits = Limits()
        expected = upload(client, data).json()
        large = to_bytes(open_scene("castle", 1).resize((2048, 2048)))
        answer = upload(client, large)
        assert answer.status_code == 200
        assert answer.json()["classes"][0]["name"] == expected["classes"][0]["name"]
        assert client.get("/healthz").json()["inside"] == 0
