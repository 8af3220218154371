"""A tab reads what it uploaded and nothing else: no other file, no URL, no other tab's images."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from ipl import PromptClassifier
from ipl.apps.workbench.app import create_workbench_app
from ipl.apps.workbench.sessions import Workbench
from tests.helpers.scenes import open_scene
from tests.helpers.serving import to_bytes
from tests.helpers.workbench_tab import Tab, file_data


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Yields the address of a workbench, and its folder."""
    folder = tmp_path_factory.mktemp("temporary")
    command = [sys.executable, "-m", "ipl", "ui", "--port", "0", "--device", "cpu"]
    environment = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "open at" in line)
        (own,) = folder.glob("ipl-ui-*")
        yield line.split(" at ")[1].split()[0], own
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "Ended.\n"


@pytest.fixture
def tab(server: tuple[str, Path]) -> Tab:
    return Tab(server[0])


@pytest.mark.parametrize("kind", ["picture", "device", "pipe", "folder", "relative", "link", "url"])
def test_no_other_file_is_read(
    tab: Tab, kind: str, tmp_path: Path, server: tuple[str, Path]
) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "secret.png")
    os.mkfifo(tmp_path / "pipe")
    (path,) = tab.upload(to_bytes(open_scene("lake", 0))).json()
    link = server[1] / "inbox" / "link.png"
    link.unlink(missing_ok=True)
    link.symlink_to(tmp_path / "secret.png")
    named = {
        "picture": str(tmp_path / "secret.png"),
        "device": "/dev/zero",
        "pipe": str(tmp_path / "pipe"),
        "folder": str(Path(path).parent),
        "relative": f"{path}/../../../../../secret.png",
        "link": str(link),
        "url": "HTTPS://127.0.0.1:9/a.png",
    }[kind]
    for paths in ([named], [path, named]):
        assert tab.add_class(*paths).status_code == 403


def test_only_uploaded_files_are_served(tab: Tab, tmp_path: Path, server: tuple[str, Path]) -> None:
    image = to_bytes(open_scene("lake", 1))
    (path,) = tab.upload(image).json()
    assert tab.client.get(f"/gradio_api/file={path}").content == image
    inbox, secret = server[1] / "inbox", tmp_path / "secret.txt"
    secret.write_text("secret")
    (inbox / "link").symlink_to(secret)
    for other in (
        secret,
        f"{inbox}/%2e%2e/secret.txt",
        inbox / "link",
        "secret.txt",
        "http://example.com/a.png",
        f"{inbox}%00",
    ):
        refused = tab.client.get(f"/gradio_api/file={other}")
        assert (refused.status_code, refused.text) == (404, "Not found."), other


def test_a_file_may_not_hide_anywhere_in_a_call(tab: Tab) -> None:
    secret = file_data("/dev/zero")
    word = tab.functions["word", "shots", "seed"]
    assert tab.join(word, [secret, 1, 1]).status_code == 403
    assert tab.join(word, [{"deep": [[{"deeper": secret}]]}, 1, 1]).status_code == 403
    assert tab.join(word, ["sand", 1, 1], event_data=secret).status_code == 403
    assert tab.join(word, [file_data(["/dev/zero"]), 1, 1]).status_code == 403


def test_another_tab_does_not_read_it(tab: Tab, server: tuple[str, Path]) -> None:
    (path,) = tab.upload(to_bytes(open_scene("castle", 0))).json()
    other = Tab(server[0])
    assert other.add_class(path).status_code == 403
    assert tab.add_class(path).status_code == 200
    tab.result()
    assert other.add_class(path).status_code == 403
    assert other.upload(to_bytes(open_scene("castle", 0))).json() == [path]  # its own now
    assert other.add_class(path).status_code == 200
    result = other.result()
    assert "1 class with 1 image." in result
    assert "data:image/jpeg" in result


def test_an_upload_belongs_to_an_open_session(tab: Tab, server: tuple[str, Path]) -> None:
    image = to_bytes(open_scene("forest", 7))
    for key in ("", "nobody"):
        assert tab.upload(image, key=key).status_code == 403
    before = set((server[1] / "inbox").rglob("*"))
    assert tab.upload(bytes(21 * 2**20)).status_code == 413  # more than an image may have
    assert set((server[1] / "inbox").rglob("*")) == before


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"{", 400), (b"[1]", 422), (b"[" * 100_000, 400), (b" " * 4_000_001, 413)],
)
def test_a_call_is_a_small_json_object(tab: Tab, body: bytes, status: int) -> None:
    headers = {"Content-Type": "application/json"}
    answer = tab.client.post("/gradio_api/queue/join", content=body, headers=headers)
    assert answer.status_code == status
    assert list(answer.json()) == ["error"]


def test_every_response_is_protected(tab: Tab) -> None:
    for path in ("/", "/config", "/no-such-page"):
        headers = tab.client.get(path).headers
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "http" not in policy


@pytest.mark.parametrize(
    "path",
    [
        "/gradio_api/proxy=https://a.hf.space/x",
        "/gradio_api/file/etc/passwd",
        "/gradio_api/call/learn",
        "/gradio_api/run/learn",
        "/gradio_api/mcp",
        "/monitoring",
        "/docs",
    ],
)
def test_what_the_page_does_not_need_is_not_found(path: str, tab: Tab) -> None:
    refused = tab.client.get(path)
    assert (refused.status_code, refused.text) == (404, "Not found.")


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("localhost:7860", "http://localhost:7860", 200),
        ("127.0.0.1:7860", "http://127.0.0.1:8000", 403),
        ("evil.example", "http://evil.example", 403),
        ("evil.example", None, 403),
    ],
)
def test_another_site_cannot_use_it(host: str, origin: str | None, status: int, tab: Tab) -> None:
    headers = {"Host": host} | ({"Origin": origin} if origin else {})
    assert tab.client.get("/config", headers=headers).status_code == status


def test_a_page_for_a_saved_prompt_starts_with_its_settings_and_gradio_checks_paths_as_well(
    trained: PromptClassifier,
) -> None:
    workbench = Workbench(trained.learner_.backbone, trained)
    _, gradio_app = create_workbench_app(workbench, None)
    page = gradio_app.get_blocks()
    assert page.has_launched  # without that Gradio checks none
    fields = {field.elem_id: field for field in page.blocks.values()}
    assert (fields["learner"].value, fields["words"].value) == ("coop", 2)
    workbench.end()
