"""A tab of the workbench's page, and what it may send."""

from __future__ import annotations

import json
import secrets
from typing import Any

import httpx

SECONDS = 60  # until a request that hangs counts as failed


class Tab:
    """A browser tab, as far as the server can tell."""

    def __init__(self, address: str) -> None:
        self.key = secrets.token_hex(6)
        self.client = httpx.Client(base_url=address, timeout=SECONDS)
        config = self.client.get("/config").json()
        names = {each["id"]: each["props"].get("elem_id") for each in config["components"]}
        self.functions = {
            tuple(names[number] for number in each["inputs"]): each["id"]
            for each in reversed(config["dependencies"])
        }
        assert self.functions[()] == 0  # of the page's load
        self.join(0, [])
        self.result()

    def join(self, function: int, data: list[Any], **more: Any) -> httpx.Response:
        """Returns the response to a call."""
        call = {"data": data, "fn_index": function, "session_hash": self.key, **more}
        return self.client.post("/gradio_api/queue/join", json=call)

    def result(self) -> str:
        """Returns what the last call came to."""
        address = f"/gradio_api/queue/data?session_hash={self.key}"
        with self.client.stream("GET", address) as stream:
            for line in stream.iter_lines():
                message = json.loads(line.removeprefix("data:") or "{}")
                if message.get("msg") == "process_completed":
                    return json.dumps(message["output"])
        raise AssertionError("The stream ended without a result.")

    def add_class(self, *paths: str) -> httpx.Response:
        """Returns the response to a call that adds files to a class."""
        function = self.functions["class-name", "class-files"]
        return self.join(function, ["cat", [file_data(path) for path in paths]])

    def upload(self, content: bytes, name: str = "a.png", key: str | None = None) -> httpx.Response:
        """Returns the response to an upload."""
        headers = {"x-ipl-session": self.key if key is None else key}
        files = {"files": (name, content)}
        return self.client.post("/gradio_api/upload", files=files, headers=headers)


def file_data(path: Any) -> dict[str, Any]:
    """Returns a file as a call names one."""
    return {"path": path, "meta": {"_type": "gradio.FileData"}}
