"""Servers among hostile clients: the honest ones get every answer, and it is the right one."""

from __future__ import annotations

import json
import random
import signal
import socket
import struct
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from io import BytesIO
from pathlib import Path
from threading import Event

import httpx
import pytest
from gradio_client import Client
from PIL import Image

from ipl.apps import serve
from ipl.classifier import PromptClassifier
from tests.helpers.damage import damage_bytes
from tests.helpers.forked import Command, Ended, limit_open_files
from tests.helpers.scenes import open_scene
from tests.helpers.serving import as_json, to_bytes

pytestmark = pytest.mark.slow  # so that it is not the last
SECONDS = 60  # until an answer counts as missing
JSON = {"Content-Type": "application/json"}
HEAD = b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
Times = Callable[[int, int], int]
Attack = Callable[[random.Random], None]


def start(
    saved: Path, tmp_path: Path, fault: Callable[[], None] | None = None
) -> tuple[Command, str]:
    """Returns a service in a folder of its own, and its address."""
    (home := tmp_path / "home").mkdir()
    command = ("serve", saved / "run1", "--port", 0, "--device", "cpu")
    server = Command(*command, folder=home, fault=fault)
    return server, server.line(" answers at ").split(" answers at ")[1].split()[0]


def stop(server: Command) -> Ended:
    """Ends a server, which must not have failed."""
    ended = server.end(signal.SIGINT)
    assert (ended.code, "Traceback" in ended.err) == (0, False), ended.err
    return ended


def send(port: int, data: bytes, patience: float = 0.3) -> None:
    """Sends bytes to the server, and goes away after a while, whatever it answers."""
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(data)
        connection.settimeout(patience)
        with suppress(TimeoutError):
            connection.recv(1000)


def post(port: int, body: bytes, headers: dict[str, str] | None = None) -> None:
    """Sends a request whose answer may be anything but a failure of the server."""
    address = f"http://127.0.0.1:{port}/predict"
    sent = httpx.post(address, content=body, headers=JSON | (headers or {}), timeout=SECONDS)
    assert sent.status_code != 500, body[:200]


def hostile_requests(port: int) -> list[Attack]:
    """Returns what hostile clients do to a service."""
    image = to_bytes(open_scene("lake", 0))
    body = json.dumps(as_json(image)).encode()
    whole = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
    costly = to_bytes(Image.new("I;16", (5000, 5000)))
    many = b"".join(b"X-%d: %s\r\n" % (number, b"x" * 500) for number in range(200))
    pieces = b"%x\r\n%s\r\n" % (60_000, b"x" * 60_000)

    def damaged(chance: random.Random) -> None:
        post(port, json.dumps(as_json(damage_bytes(image, chance))).encode())

    def noise(chance: random.Random) -> None:
        send(port, chance.randbytes(chance.choice((1, 100, 10_000))))

    return [
        damaged,
        noise,
        lambda chance: send(port, whole[: chance.randrange(len(whole))]),
        lambda _: send(port, whole, patience=0.001),
        lambda _: send(port, HEAD + b"Content-Length: 999999999999\r\n\r\n" + body),
        lambda _: send(port, HEAD + CHUNKED + pieces * 50),
        lambda _: send(port, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + many + b"\r\n"),
        lambda _: send(port, b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n"),
        lambda _: post(port, json.dumps(as_json(costly)).encode()),
        lambda _: post(port, b"[" * 100_000),
        lambda _: post(port, json.dumps(as_json(image, classes=["x" * 99] * 256)).encode()),
    ]


def hostile_tabs(port: int, address: str, secret: Path) -> list[Attack]:
    """Returns what a hostile tab does to a workbench."""
    client = httpx.Client(base_url=address, timeout=SECONDS)

    def call(path: object) -> Attack:
        file = {"path": path, "meta": {"_type": "gradio.FileData"}}
        body = {"data": [file], "fn_index": 1, "session_hash": "hostile"}

        def join(_: random.Random) -> None:
            assert client.post("/gradio_api/queue/join", json=body).status_code == 422

        return join

    def send_noise(chance: random.Random) -> None:
        files = {"files": (chance.choice(("", "a.zip", "../a")), chance.randbytes(1000))}
        assert client.post("/gradio_api/upload", files=files).status_code != 500

    return [
        send_noise,
        call(str(secret)),
        call([[]] * 100_000),
        lambda chance: send(port, chance.randbytes(1000)),
        lambda _: send(port, b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
        lambda _: send(port, b"POST /gradio_api/upload HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n--x"),
    ]


def attack(honest: list[Callable[[], None]], hostile: list[list[Attack]], rounds: int) -> None:
    """Lets each hostile client do all it can so many times, and the honest ones work meanwhile."""
    over = Event()

    def work(once: Callable[[], None]) -> None:
        once()
        while not over.is_set():
            once()

    def be_hostile(seed: int, attacks: list[Attack]) -> None:
        chance = random.Random(seed)
        for each in chance.sample(attacks * rounds, len(attacks) * rounds):
            with suppress(OSError, httpx.HTTPError):  # the server may well close the connection
                each(chance)

    with ThreadPoolExecutor(len(honest) + len(hostile)) as threads:
        working = [threads.submit(work, once) for once in honest]
        hostilities = [threads.submit(be_hostile, *each) for each in enumerate(hostile)]
        try:
            for each in hostilities:
                each.result()
        finally:
            over.set()
        for each in working:
            each.result()


def test_a_service(saved: Path, tmp_path: Path, times: Times) -> None:
    server, address = start(saved, tmp_path)
    port = int(address.rpartition(":")[2])
    kinds = (("beach", "PNG"), ("castle", "JPEG"), ("forest", "WEBP"))
    images = [to_bytes(open_scene(name, 9), kind) for name, kind in kinds]
    classifier = PromptClassifier.from_pretrained(saved / "run1", device="cpu")
    expected = classifier.predict([Image.open(BytesIO(image)) for image in images])
    bodies = [json.dumps(as_json(image, top=1)).encode() for image in images]

    def ask(client: httpx.Client) -> None:
        for body, name in zip(bodies, expected, strict=True):
            answer = client.post("/predict", content=body, headers=JSON)
            assert answer.status_code == 200, answer.text
            assert answer.json()["classes"][0]["name"] == name

    clients = [httpx.Client(base_url=address, timeout=SECONDS) for _ in range(times(8, 64))]
    honest = [partial(ask, client) for client in clients]
    attack(honest, [hostile_requests(port)] * (len(honest) // 4), times(1, 4))
    for once in honest:
        once()
    stop(server)


def slow_images(many: int) -> dict[str, bytes]:
    """Returns images of few pixels that take long to open: so many parts, or pixels as text."""
    png, jpeg = (to_bytes(open_scene("lake", 0), kind) for kind in ("PNG", "JPEG"))
    text = struct.pack(">I", 3) + b"tEXta\0b" + struct.pack(">I", zlib.crc32(b"tEXta\0b"))
    return {
        "texts": png[:33] + text * many + png[33:],
        "spaces": b"P6" + b" " * (15 * many) + b"10 10 255 " + b"0" * 300,
        "numbers": b"P2 %d 100 255\n" % (many // 15) + b"1 " * (many // 15 * 100),
        "filled": jpeg[:2] + b"\xff" * (16 * many) + jpeg[2:],
    }


def test_slow_images_take_no_time_from_others(saved: Path, tmp_path: Path, times: Times) -> None:
    server, address = start(saved, tmp_path)
    ordinary = {"image": to_bytes(open_scene("lake", 0).resize((64, 64)))}
    copies, kinds = times(4, 16), times(2, 4)

    def ask(image: bytes, source: str) -> int:
        transport = httpx.HTTPTransport(local_address=source)
        with httpx.Client(transport=transport, timeout=SECONDS) as client:
            return client.post(f"{address}/predict", files={"image": image}).status_code

    for name, image in [*slow_images(times(100_000, 600_000)).items()][:kinds]:
        for source in ("127.0.0.1", "127.0.0.2")[: times(1, 2)]:  # the same client, or another
            with ThreadPoolExecutor(copies) as threads:
                slow = [threads.submit(ask, image, source) for _ in range(copies)]
                waits = []
                while not waits or (len(waits) < 20 and not all(each.done() for each in slow)):
                    asked = time.monotonic()
                    answer = httpx.post(f"{address}/predict", files=ordinary, timeout=SECONDS)
                    waits.append(time.monotonic() - asked)
                    assert answer.status_code == 200, (name, answer.text)
                statuses = {each.result() for each in slow}
            assert statuses <= {200, 413, 415, 503}, name
            assert sorted(waits)[len(waits) // 2] < times(5, 1), (name, waits)
    stop(server)


def few_open_files(number: int, patience: float) -> None:
    """Lets the service have few connections, and wait for a request for so many seconds."""
    limit_open_files(number)
    serve.UPLOAD_SECONDS = patience


def test_many_half_open_connections(saved: Path, tmp_path: Path, times: Times) -> None:
    most, fault = times(256, 1024), partial(few_open_files, times(256, 1024), times(2, 10))
    server, address = start(saved, tmp_path, fault=fault)
    place = "127.0.0.1", int(address.rpartition(":")[2])
    with ExitStack() as opened:
        for source in ("127.0.0.1", "127.0.0.2"):
            for _ in range(most * 2 // 3):
                connection = socket.create_connection(place, 10, source_address=(source, 0))
                opened.enter_context(connection)
                with suppress(OSError):  # closed already
                    connection.sendall(b"POST /predict HTT")
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:  # half-open connections end, and the service recovers
            with suppress(httpx.HTTPError):
                assert httpx.get(f"{address}/healthz").status_code == 200
                break
        else:
            raise AssertionError("The service has not recovered.")
        assert 'ipl_rejected_total{reason="connections"}' in httpx.get(f"{address}/metrics").text
    ended = stop(server)
    assert len(ended.err.splitlines()) == 3, ended.err  # the address, one line about this, the end


def test_a_workbench(tmp_path: Path, times: Times) -> None:
    home = tmp_path / "home"
    home.mkdir()
    open_scene("lake", 0).save(home / "secret.png")
    server = Command("ui", "--device", "cpu", folder=home)
    address = server.line("open at").split(" at ")[1].split()[0].rstrip("/")
    port = int(address.rpartition(":")[2])

    def use_scenes() -> None:
        tab = Client(address, verbose=False)
        assert "4 classes, 192 images" in tab.predict(api_name="/use_scenes")
        tab.close()

    tabs = times(2, 8)
    hostile = [hostile_tabs(port, address, home / "secret.png") for _ in range(tabs)]
    attack([use_scenes] * tabs, hostile, times(1, 20))
    use_scenes()
    stop(server)
