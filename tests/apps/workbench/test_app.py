"""The application answers what the page needs and no more: no other file, no other site."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ipl.apps.hosts import LOCAL_HOSTS
from ipl.apps.workbench.app import RequestFilter, _gradio_environment

HOST = (b"host", b"127.0.0.1:7860")


async def passed_on(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})


def ask(path: str, *headers: tuple[bytes, bytes], gate: RequestFilter) -> int:
    seen: list[int] = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            seen.append(message["status"])

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    scope = {"type": "http", "method": "GET", "path": path, "headers": headers or (HOST,)}
    with pytest.raises(StopIteration):  # nothing in it waits, so no event loop is needed
        gate(scope, receive, send).send(None)  # type: ignore[attr-defined]
    return seen[0]


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    (tmp_path / "inbox" / "hash").mkdir(parents=True)
    (tmp_path / "inbox" / "hash" / "a.png").write_bytes(b"a")
    (tmp_path / "secret.txt").write_text("secret")
    return tmp_path / "inbox"


def test_only_files_of_the_inbox_are_served(inbox: Path) -> None:
    gate = RequestFilter(passed_on, inbox, LOCAL_HOSTS)
    file = "/gradio_api/file="
    assert ask(f"{file}{inbox}/hash/a.png", gate=gate) == 200
    (inbox / "link").symlink_to(inbox.parent / "secret.txt")
    for path in (
        inbox.parent / "secret.txt",
        f"{inbox}/../secret.txt",
        inbox / "link",
        "/etc/passwd",
        "secret.txt",
        "http://example.com/a.png",
        f"{inbox}\0",
    ):
        assert ask(f"{file}{path}", gate=gate) == 404, path


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 200),
        ("/config", 200),
        ("/assets/index.js", 200),
        ("/gradio_api/queue/join", 200),
        ("/gradio_api/heartbeat/abc", 200),
        ("/gradio_api/proxy=https://a.hf.space/x", 404),
        ("/gradio_api/file/etc/passwd", 404),
        ("/gradio_api/call/learn", 404),
        ("/gradio_api/run/learn", 404),
        ("/gradio_api/runs", 404),
        ("/gradio_api/vibe-code", 404),
        ("/gradio_api/process_recording", 404),
        ("/gradio_api/mcp", 404),
        ("/monitoring", 404),
        ("/login", 404),
        ("/docs", 404),
    ],
)
def test_what_the_page_does_not_need_is_not_found(path: str, status: int, inbox: Path) -> None:
    assert ask(path, gate=RequestFilter(passed_on, inbox, LOCAL_HOSTS)) == status


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        (b"localhost:7860", None, 200),
        (b"[::1", None, 403),
        (b"[::1]:7860", b"http://[::1]:7860", 200),
        (b"127.0.0.1:7860", b"http://127.0.0.1:7860", 200),
        (b"127.0.0.1:7860", b"http://127.0.0.1:8000", 403),
        (b"127.0.0.1:7860", b"https://example.com", 403),
        (b"127.0.0.1:7860", b"null", 403),
        (b"example.com", b"http://example.com", 403),
        (b"", None, 403),
    ],
)
def test_another_site_cannot_use_it(
    host: bytes, origin: bytes | None, status: int, inbox: Path
) -> None:
    headers = [(b"host", host)] + ([(b"origin", origin)] if origin else [])
    assert ask("/", *headers, gate=RequestFilter(passed_on, inbox, LOCAL_HOSTS)) == status


def test_for_other_machines_any_name_will_do_but_the_site_must_be_the_same(inbox: Path) -> None:
    gate = RequestFilter(passed_on, inbox, None)
    name, own = (b"host", b"workbench.example"), (b"origin", b"https://workbench.example")
    assert ask("/", name, own, gate=gate) == 200
    assert ask("/", name, (b"origin", b"https://example.com"), gate=gate) == 403


def test_the_environment_is_as_it_was(inbox: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADIO_TEMP_DIR", "mine")
    monkeypatch.delenv("GRADIO_HEARTBEAT_INTERVAL", raising=False)
    with _gradio_environment(inbox):
        assert os.environ["GRADIO_TEMP_DIR"] == str(inbox)
        assert os.environ["GRADIO_ANALYTICS_ENABLED"] == "False"
    assert os.environ["GRADIO_TEMP_DIR"] == "mine"
    assert "GRADIO_HEARTBEAT_INTERVAL" not in os.environ
