"""Servers among hostile clients: the honest ones get every answer, and it is the right one."""

from __future__ import annotations

import json
import random
import signal
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from io import BytesIO
from pathlib import Path
from threading import Event

import httpx
import pytest
from PIL import Image

from ipl.classifier import PromptClassifier
from tests.helpers.damage import damage_bytes
from tests.helpers.forked import Command
from tests.helpers.scenes import open_scene
from tests.helpers.serving import as_json, to_bytes
from tests.helpers.workbench_tab import Tab, file_data

pytestmark = pytest.mark.slow  # so that it is not the last
SECONDS = 60  # until an answer counts as missing
JSON = {"Content-Type": "application/json"}
HEAD = b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
Times = Callable[[int, int], int]
Attack = Callable[[random.Random], None]


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
        lambda _: send(port, HEAD + b"Content-Length: -1\r\n\r\n" + body),
        lambda _: send(port, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + pieces * 50),
        lambda _: send(port, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + many + b"\r\n"),
        lambda _: send(port, b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n"),
        lambda _: post(port, json.dumps(as_json(costly)).encode()),
        lambda _: post(port, body, {"Host": "evil.example"}),
        lambda _: post(port, b"[" * 100_000),
        lambda _: post(port, json.dumps(as_json(image, top="9" * 5000)).encode()),
        lambda _: post(port, json.dumps(as_json(image, classes=["x" * 99] * 256)).encode()),
        lambda _: post(port, json.dumps({"image": {"a": [image.hex()]}}).encode()),
    ]


def hostile_tabs(port: int, address: str, secret: Path) -> list[Attack]:
    """Returns what a hostile tab does to a workbench."""
    tab = Tab(address)

    def join(body: bytes) -> Attack:
        def call(_: random.Random) -> None:
            joined = tab.client.post("/gradio_api/queue/join", content=body, headers=JSON)
            assert joined.status_code != 500, joined.text

        return call

    def add(path: str) -> Attack:
        def call(_: random.Random) -> None:
            assert tab.add_class(path).status_code == 403, path

        return call

    def upload(chance: random.Random) -> None:
        key = chance.choice((None, "", "nobody"))
        assert tab.upload(chance.randbytes(1000), key=key).status_code != 500

    deep = json.dumps({"data": [file_data("/dev/zero")], "fn_index": 0, "session_hash": tab.key})
    return [
        upload,
        *map(add, (str(secret), "/dev/zero", "/etc/passwd", "http://127.0.0.1:9/a.png")),
        *map(join, (b"{", b"[1]", b"[" * 100_000, b" " * 4_000_001, b"\xff", deep.encode())),
        lambda chance: send(port, chance.randbytes(1000)),
        lambda _: send(port, b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
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
    home = tmp_path / "home"
    home.mkdir()
    server = Command("serve", saved / "run1", "--port", 0, "--device", "cpu", folder=home)
    address = server.line(" answers at ").split(" answers at ")[1].split()[0]
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
    ended = server.end(signal.SIGINT)
    assert (ended.code, "Traceback" in ended.err) == (0, False), ended.err


def test_a_workbench(tmp_path: Path, times: Times) -> None:
    home = tmp_path / "home"
    home.mkdir()
    open_scene("lake", 0).save(home / "secret.png")
    server = Command("ui", "--port", 0, "--device", "cpu", folder=home)
    address = server.line("open at").split(" at ")[1].split()[0].rstrip("/")
    port = int(address.rpartition(":")[2])

    def add_images() -> None:
        tab = Tab(address)
        for number in range(3):
            (path,) = tab.upload(to_bytes(open_scene("beach", number))).json()
            assert tab.add_class(path).status_code == 200
            assert "1 class with" in tab.result()

    tabs = times(2, 8)
    hostile = [hostile_tabs(port, address, home / "secret.png") for _ in range(tabs)]
    attack([add_images] * tabs, hostile, times(1, 20))
    add_images()
    ended = server.end(signal.SIGINT)
    assert (ended.code, "Traceback" in ended.err) == (0, False), ended.err
