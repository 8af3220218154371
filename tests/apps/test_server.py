"""A real server on a real socket: it starts, answers, bears with bad clients and ends cleanly."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from PIL import Image

import ipl
from ipl import PromptClassifier
from ipl.apps.hosts import address_of, listen
from ipl.apps.limits import Limits
from ipl.apps.serve.app import create_app
from ipl.apps.server import run_server
from tests.helpers.serving import as_json

SECONDS = 60  # timeout of a connection


def connect(address: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), SECONDS)


def head(length: int | None, kind: str = "application/json") -> bytes:
    size = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    lines = ("POST /predict HTTP/1.1", "Host: localhost", f"Content-Type: {kind}", size, "", "")
    return "\r\n".join(lines).encode()


def read_response(connection: socket.socket) -> tuple[int, Any]:
    """Returns the status and the JSON of one response."""
    with connection.makefile("rb") as file:
        status = int(file.readline().split()[1])
        length = 0
        while line := file.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        return status, json.loads(file.read(length))


def ask(address: str, body: bytes | None = None) -> Any:
    kind = {"Content-Type": "application/json"}
    with urlopen(Request(address, body, kind), timeout=SECONDS) as response:
        return json.load(response)


@pytest.mark.slow
def test_start_predict_and_end(classifier: PromptClassifier, beach: bytes, tmp_path: Path) -> None:
    classifier.save_pretrained(tmp_path / "run")
    command = [sys.executable, "-m", "ipl", "serve", tmp_path / "run", "--port", "0"]
    source = str(Path(ipl.__file__).parents[1])
    with subprocess.Popen(
        [*map(str, command), "--device", "cpu"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"},
    ) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()  # once it listens
            assert line.startswith(f"{classifier.prompt_} answers at http://127.0.0.1:"), line
            address = line.partition(" answers at ")[2].split()[0]
            body = json.dumps(as_json(beach, top=1)).encode()
            best = classifier.classes_[
                classifier.predict_proba([Image.open(BytesIO(beach))])[0].argmax()
            ]
            assert ask(f"{address}/predict", body)["classes"][0]["name"] == best
            # A request that has half arrived when the signal comes is still answered.
            with closing(connect(address)) as slow, closing(connect(address)) as idle:
                slow.sendall(head(len(body)) + body[:100])
                idle.sendall(b"GET /healthz HT")
                time.sleep(0.3)
                process.send_signal(signal.SIGTERM)
                time.sleep(0.3)
                slow.sendall(body[100:])
                assert read_response(slow)[0] == 200
                _, err = process.communicate(timeout=SECONDS)
            assert (process.returncode, err) == (0, "Ended.\n")
            with pytest.raises(OSError, match="refused"):
                connect(address)
        finally:
            process.kill()


def test_bad_clients_harm_nobody(classifier: PromptClassifier, beach: bytes) -> None:
    limits = Limits(max_bytes=3 * len(beach), upload_seconds=1)
    body = json.dumps(as_json(beach)).encode()
    piece = b"%x\r\n%s\r\n" % (1000, b"x" * 1000)

    def clients() -> None:
        names = ("silent", "slow_head", "slow_body", "chunked", "announced", "lying", "garbage")
        connections = {name: connect(address) for name in (*names, "good")}
        connections["slow_head"].sendall(b"POST /predict HT")
        connections["slow_body"].sendall(head(len(body)) + body[:50])
        pieces = piece * (limits.max_bytes // 1000 + 2)  # and no end
        connections["chunked"].sendall(head(None) + pieces)
        connections["announced"].sendall(head(limits.max_bytes + 1))
        connections["lying"].sendall(head(10) + body)  # more than announced: the rest is no request
        connections["garbage"].sendall(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
        connections["good"].sendall(head(len(body)) + body)
        assert read_response(connections["good"])[0] == 200  # while the others are still there
        for name, status in {"chunked": 413, "announced": 413, "lying": 400}.items():
            assert read_response(connections[name])[0] == status, name
        no_http = read_response(connections["garbage"])
        assert no_http == (400, {"error": "The request is not valid HTTP."})
        status, answer = read_response(connections["slow_body"])
        assert (status, answer["error"]) == (408, "The request was not complete after 1 s.")
        for name in ("silent", "slow_head"):
            assert connections[name].recv(1000) == b"", name  # closed
        with pytest.raises(OSError, match="reset|Broken"):  # goes on sending after it was refused
            connections["chunked"].sendall(piece * 100_000)
        assert ask(f"{address}/healthz")["inside"] == 0
        for connection in connections.values():
            connection.close()

    before = signal.getsignal(signal.SIGINT)
    with listen("127.0.0.1", 0) as bound, ThreadPoolExecutor(1) as threads:
        bound.listen()
        address = address_of(bound)

        def work() -> None:
            ask(f"{address}/healthz")  # from here on the server handles signals
            try:
                clients()
            finally:
                os.kill(os.getpid(), signal.SIGINT)

        done = threads.submit(work)
        run_server(create_app(classifier, limits), bound, limits)
    done.result()
    assert signal.getsignal(signal.SIGINT) is before
