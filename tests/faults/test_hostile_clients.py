"""Servers among hostile clients: the honest ones get every answer, and it is the right one."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import httpx
from PIL import Image

from tests.helpers.attacks import Outcome
from tests.helpers.fork_server import Command, ForkServer
from tests.helpers.mutations import damage_bytes
from tests.helpers.scenes import open_scene
from tests.helpers.serving import as_json, to_bytes
from tests.helpers.workbench_tab import Tab, file_data

SECONDS = 60  # until an answer counts as missing
JSON = {"Content-Type": "application/json"}
HEAD = b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
Times = Callable[[int, int], int]
Check = Callable[[Outcome], None]
Attack = Callable[[int, random.Random], None]


def send(port: int, data: bytes, patience: float = 0.3) -> None:
    """Sends bytes to the server, and goes away after a while, whatever it answers."""
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(data)
        connection.settimeout(patience)
        with suppress(TimeoutError):
            connection.recv(1000)


def post(port: int, body: bytes, headers: dict[str, str] | None = None) -> None:
    """Sends a request whose answer may be anything but a failure of the server."""
    connection = HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    connection.request("POST", "/predict", body, JSON | (headers or {}))
    status = connection.getresponse().status
    connection.close()
    assert status != 500, body[:200]


def hostile_requests(image: bytes) -> list[Attack]:
    """Returns what hostile clients do to a service, each for a port and a source of chance."""
    body = json.dumps(as_json(image)).encode()
    whole = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
    costly = to_bytes(Image.new("I;16", (5000, 5000)))
    many = b"".join(b"X-%d: %s\r\n" % (number, b"x" * 500) for number in range(200))
    pieces = b"%x\r\n%s\r\n" % (60_000, b"x" * 60_000)

    def damaged(port: int, chance: random.Random) -> None:
        post(port, json.dumps(as_json(damage_bytes(image, chance))).encode())

    def noise(port: int, chance: random.Random) -> None:
        send(port, chance.randbytes(chance.choice((1, 100, 10_000))))

    return [
        damaged,
        noise,
        lambda port, chance: send(port, whole[: chance.randrange(len(whole))]),
        lambda port, _: send(port, whole, patience=0.001),
        lambda port, _: send(port, HEAD + b"Content-Length: 999999999999\r\n\r\n" + body),
        lambda port, _: send(port, HEAD + b"Content-Length: -1\r\n\r\n" + body),
        lambda port, _: send(port, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + pieces * 50),
        lambda port, _: send(port, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + many + b"\r\n"),
        lambda port, _: send(port, b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n"),
        lambda port, _: post(port, json.dumps(as_json(costly)).encode()),
        lambda port, _: post(port, body, {"Host": "evil.example"}),
        lambda port, _: post(port, b"[" * 100_000),
        lambda port, _: post(port, json.dumps(as_json(image, top="9" * 5000)).encode()),
        lambda port, _: post(port, json.dumps(as_json(image, classes=["x" * 99] * 256)).encode()),
        lambda port, _: post(port, json.dumps({"image": {"a": [image.hex()]}}).encode()),
    ]


def be_hostile(attacks: list[Attack], port: int, seed: int, until: float) -> list[str]:
    """Attacks until the time has come; returns what the server did wrong."""
    chance, failures = random.Random(seed), list[str]()
    while time.monotonic() < until:
        try:
            chance.choice(attacks)(port, chance)
        except AssertionError as error:
            failures.append(f"a hostile request is answered with 500: {error}")
        except (OSError, HTTPException, httpx.HTTPError):
            pass  # the server may well close the connection
    return failures


def ask(port: int, bodies: list[bytes], expected: list[Any], until: float) -> tuple[int, list[str]]:
    """Asks until the time has come; returns the number of answers, and what was wrong with them."""
    count, failures, chance = 0, list[str](), random.Random(port)
    connection = HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    while time.monotonic() < until:
        number = chance.randrange(len(bodies))
        try:
            connection.request("POST", "/predict", bodies[number], JSON)
            response = connection.getresponse()
            answer = response.read()
            if (
                response.status != 200
                or json.loads(answer)["classes"][0]["name"] != expected[number]
            ):
                failures.append(f"{response.status}: {answer[:300]!r}")
        except (OSError, HTTPException) as error:
            failures.append(repr(error))
            connection.close()
        count += 1
    connection.close()
    return count, failures


def attack_service(seconds: int, honest: int, server: ForkServer, run: Path, home: Path) -> Outcome:
    """Runs `ipl serve` with so many honest clients, and a quarter as many hostile ones."""
    command = ("serve", run, "--port", 0, "--device", "cpu")
    running = server.start(*command, folder=home, cache=home / "cache")
    port = int(running.line(" answers at ").split(" answers at http://127.0.0.1:")[1].split()[0])
    bodies = [
        json.dumps(as_json(to_bytes(open_scene(name, 9), kind), top=1)).encode()
        for name, kind in (("beach", "PNG"), ("castle", "JPEG"), ("forest", "WEBP"))
    ]
    expected = []
    for body in bodies:
        request = httpx.post(f"http://127.0.0.1:{port}/predict", content=body, headers=JSON)
        expected.append(request.json()["classes"][0]["name"])
    until, attacks = time.monotonic() + seconds, hostile_requests(to_bytes(open_scene("lake", 0)))
    outcome = Outcome(f"clients: serve, {honest} honest and {honest // 4} hostile for {seconds} s")
    with ThreadPoolExecutor(2 * honest) as threads:
        asking = [threads.submit(ask, port, bodies, expected, until) for _ in range(honest)]
        hostile = [
            threads.submit(be_hostile, attacks, port, seed, until) for seed in range(honest // 4)
        ]
    for each in asking:
        count, failures = each.result()
        outcome.count += count
        outcome.failures += failures
    for one in hostile:
        outcome.failures += one.result()
    _end(running, outcome)
    return outcome


def _end(running: Command, outcome: Outcome) -> None:
    """Ends a server, which must not have complained."""
    os.kill(running.process, signal.SIGINT)
    ended = running.wait()
    outcome.peak = ended.peak
    if ended.code != 0 or "Traceback" in ended.err:
        outcome.failures.append(f"{ended.code}: {ended.err[-2000:]}")


def hostile_tabs(tab: Tab, secret: Path) -> list[Attack]:
    """Returns what a hostile tab does to a workbench."""

    def join(body: bytes) -> Attack:
        return lambda *_: _never_500(
            tab.client.post("/gradio_api/queue/join", content=body, headers=JSON)
        )

    def add(path: str) -> Attack:
        def call(*_: Any) -> None:
            assert tab.add_class(path).status_code == 403, path

        return call

    def upload(_: int, chance: random.Random) -> None:
        _never_500(tab.upload(chance.randbytes(1000), key=chance.choice((None, "", "nobody"))))

    deep = json.dumps({"data": [file_data("/dev/zero")], "fn_index": 0, "session_hash": tab.key})
    return [
        upload,
        *map(add, (str(secret), "/dev/zero", "/etc/passwd", "http://127.0.0.1:9/a.png")),
        *map(join, (b"{", b"[1]", b"[" * 100_000, b" " * 4_000_001, b"\xff", deep.encode())),
        lambda port, chance: send(port, chance.randbytes(1000)),
        lambda port, _: send(port, b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
    ]


def _never_500(response: httpx.Response) -> None:
    assert response.status_code != 500, response.text


def work_in_tab(address: str, until: float) -> tuple[int, list[str]]:
    """Adds classes of images until the time has come; returns how many, and what went wrong."""
    count, failures = 0, list[str]()
    try:
        while time.monotonic() < until:
            tab = Tab(address)
            for number in range(3):
                (path,) = tab.upload(to_bytes(open_scene("beach", number))).json()
                assert tab.add_class(path).status_code == 200
                result = tab.result()
                assert "1 class with" in result, result
                count += 1
    except (AssertionError, ValueError, httpx.HTTPError) as error:
        failures.append(repr(error)[:500])
    return count, failures


def attack_workbench(seconds: int, honest: int, server: ForkServer, home: Path) -> Outcome:
    """Runs `ipl ui` with so many honest tabs, and as many hostile ones."""
    running = server.start("ui", "--port", 0, "--device", "cpu", folder=home, cache=home / "cache")
    address = running.line("open at").split(" at ")[1].split()[0].rstrip("/")
    port = int(address.rpartition(":")[2])
    open_scene("lake", 0).save(home / "secret.png")
    until = time.monotonic() + seconds
    outcome = Outcome(f"clients: ui, {honest} honest and {honest} hostile tabs for {seconds} s")
    with ThreadPoolExecutor(2 * honest) as threads:
        working = [threads.submit(work_in_tab, address, until) for _ in range(honest)]
        hostile = [
            threads.submit(
                be_hostile, hostile_tabs(Tab(address), home / "secret.png"), port, seed, until
            )
            for seed in range(honest)
        ]
    for each in working:
        count, failures = each.result()
        outcome.count += count
        outcome.failures += failures
    for one in hostile:
        outcome.failures += one.result()
    _end(running, outcome)
    return outcome


def test_a_service(
    server: ForkServer, run: Path, tmp_path: Path, times: Times, check: Check
) -> None:
    check(attack_service(times(2, 60), times(8, 64), server, run, tmp_path))


def test_a_workbench(server: ForkServer, tmp_path: Path, times: Times, check: Check) -> None:
    check(attack_workbench(times(2, 60), times(2, 8), server, tmp_path))
