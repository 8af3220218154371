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
from http.client import HTTPResponse
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from ipl import PromptClassifier
from ipl.apps.serve import Limits, address_of, create_app, listen, run_server
from tests.helpers.serving import as_json

SECONDS = 60  # timeout of a connection


def connect(address: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), SECONDS)


def head(*lines: str) -> bytes:
    kind = "Content-Type: application/json"
    return "\r\n".join(("POST /predict HTTP/1.1", "Host: localhost", kind, *lines, "", "")).encode()


def read_response(connection: socket.socket) -> tuple[int, Any]:
    """Returns the status and the JSON of one response."""
    response = HTTPResponse(connection)
    response.begin()
    return response.status, json.load(response)


def test_the_command_answers_and_ends_cleanly(
    classifier: PromptClassifier, beach: bytes, tmp_path: Path
) -> None:
    classifier.save_pretrained(tmp_path / "run")
    command = [sys.executable, "-m", "ipl", "serve", str(tmp_path / "run"), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = process.stderr.readline().partition(" answers at ")[2].split()[0]
        answer = httpx.post(f"{address}/predict", json=as_json(beach, top=1), timeout=SECONDS)
        best = classifier.predict([Image.open(BytesIO(beach))])[0]
        assert answer.json()["classes"][0]["name"] == best
        process.send_signal(signal.SIGTERM)
        assert process.stderr.read() == "Ended.\n"
    assert process.returncode == 0


def test_bad_clients_harm_nobody(
    classifier: PromptClassifier, beach: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ipl.apps.serve.UPLOAD_SECONDS", 2)
    limits = Limits(max_bytes=3 * len(beach))
    body = json.dumps(as_json(beach)).encode()
    good = head(f"Content-Length: {len(body)}")
    piece, chunked = b"%x\r\n%s\r\n" % (1000, b"x" * 1000), "Transfer-Encoding: chunked"

    def clients() -> None:
        names = ("silent", "slow_head", "slow_body", "chunked", "announced", "both", "garbage")
        connections = {name: connect(address) for name in (*names, "good")}
        connections["slow_head"].sendall(b"POST /predict HT")
        connections["slow_body"].sendall(good + body[:50])
        connections["chunked"].sendall(head(chunked) + piece * (limits.max_bytes // 1000 + 2))
        connections["announced"].sendall(head(f"Content-Length: {limits.max_bytes + 1}"))
        connections["both"].sendall(head("Content-Length: 6", chunked) + b"0\r\n\r\nGET / HTTP/1.1")
        connections["garbage"].sendall(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
        connections["good"].sendall(good + body)
        assert read_response(connections["good"])[0] == 200  # while the others are still there
        for name, status in {"chunked": 413, "announced": 413, "both": 400}.items():
            assert read_response(connections[name])[0] == status, name
        assert connections["both"].recv(1000) == b""  # closed: what follows is no request
        assert connections["garbage"].recv(12) == b"HTTP/1.1 400"
        status, answer = read_response(connections["slow_body"])
        assert (status, answer["error"]) == (408, "The request was not complete after 2 s.")
        for name in ("silent", "slow_head"):
            assert connections[name].recv(1000) == b"", name  # closed
        with pytest.raises(OSError, match="reset|Broken"):  # goes on sending after it was refused
            connections["chunked"].sendall(piece * 100_000)
        assert httpx.get(f"{address}/healthz", timeout=SECONDS).json()["inside"] == 0
        for connection in connections.values():
            connection.close()

    before = signal.getsignal(signal.SIGINT)
    with listen("127.0.0.1", 0) as bound, ThreadPoolExecutor(1) as threads:
        bound.listen()
        address = address_of(bound)

        def work() -> None:
            httpx.get(f"{address}/healthz", timeout=SECONDS)  # from here on it handles signals
            try:
                clients()
                late = connect(address)
                late.sendall(good + body[:100])
                time.sleep(0.3)
            finally:
                os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.3)
            late.sendall(body[100:])  # what has half arrived when the signal comes is answered
            assert read_response(late)[0] == 200
            late.close()

        done = threads.submit(work)
        run_server(create_app(classifier, limits), bound)
    done.result()
    assert signal.getsignal(signal.SIGINT) is before
