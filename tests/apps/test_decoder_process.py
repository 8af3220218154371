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
from ipl.apps.decoder_process import DecoderPool
from ipl.apps.image_decoding import decode_image
from ipl.apps.limits import Limits, Refusal
from ipl.apps.serve.app import create_app
from tests.helpers.scenes import open_scene
from tests.helpers.serving import sentence, to_bytes, upload

Make = Callable[..., DecoderPool]


@pytest.fixture
def make(pocket: Backbone) -> Iterator[Make]:
    """Yields a function that starts a pool with other limits."""
    pools: list[DecoderPool] = []

    def call(**limits: int) -> DecoderPool:
        pools.append(DecoderPool(Limits(**limits), pocket.preprocessing))  # type: ignore[arg-type]
        pools[-1].start()
        return pools[-1]

    yield call
    for pool in pools:
        pool.close()


def process_id(pool: DecoderPool) -> int:
    (process,) = pool._idle
    return process._process.pid


def test_it_decodes_and_refuses_as_this_process_does(make: Make, pocket: Backbone) -> None:
    pool = make(max_pixels=120 * 90)
    for index, kind in enumerate(("PNG", "JPEG", "WEBP", "GIF")):
        data = to_bytes(open_scene("castle", index).resize((120, 90)), kind)
        expected = decode_image(data, 120 * 90, pocket.preprocessing)
        decoded = pool.decode(data)
        assert decoded is not None
        assert np.array_equal(np.asarray(decoded), np.asarray(expected))
    for data in (b"", b"no image", to_bytes(Image.new("L", (121, 90))), b"GIF89a"):
        with pytest.raises(Refusal) as here:
            decode_image(data, 120 * 90, pocket.preprocessing)
        with pytest.raises(Refusal) as there:
            pool.decode(data)
        assert there.value.status == here.value.status
        assert there.value.sentence == here.value.sentence


def test_signals_for_the_service_do_not_end_it_and_one_that_was_killed_is_replaced(
    make: Make,
) -> None:
    pool, data = make(), to_bytes(open_scene("castle", 1))
    first = process_id(pool)
    os.kill(first, signal.SIGTERM)
    os.kill(first, signal.SIGINT)
    assert pool.decode(data) is not None
    assert process_id(pool) == first
    os.kill(first, signal.SIGKILL)
    assert pool.decode(data) is not None


def test_an_image_that_ends_processes_is_refused(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash = "import os; decoder_process.decode_image = lambda *_: os.abort()"
    command = f"from ipl.apps import decoder_process; {crash}; decoder_process.main()"
    monkeypatch.setattr(decoder_process, "COMMAND", command)
    with pytest.raises(Refusal, match="the decoder ended") as refused:
        make().decode(to_bytes(open_scene("castle", 1)))
    assert refused.value.status == 422


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
def test_memory_is_limited(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    data = to_bytes(Image.new("RGB", (4000, 5000)))
    assert make().decode(data) is not None
    monkeypatch.setattr("ipl.apps.limits.PIXEL_BYTES", 0)
    pool = make(max_bytes=1)
    with pytest.raises(Refusal, match="not enough memory") as refused:
        pool.decode(data)
    assert refused.value.status == 413
    assert pool.decode(to_bytes(open_scene("castle", 1))) is not None


def test_a_service_kills_one_that_hangs_and_goes_on(classifier: PromptClassifier) -> None:
    app = create_app(classifier, Limits(decode_seconds=0.5, wait_ms=0))
    data = to_bytes(open_scene("castle", 1))
    with TestClient(app, raise_server_exceptions=False) as client:
        pool = app.state.service.decoders
        number = process_id(pool)
        os.kill(number, signal.SIGSTOP)
        assert "longer than 0.5 s" in sentence(upload(client, data), 413)
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)
        pool.limits = Limits()
        expected = upload(client, data).json()
        large = upload(client, to_bytes(open_scene("castle", 1).resize((2048, 2048))))
        assert large.status_code == 200
        assert large.json()["classes"][0]["name"] == expected["classes"][0]["name"]
        assert client.get("/healthz").json()["inside"] == 0
