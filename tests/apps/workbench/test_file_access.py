"""A tab reads what it uploaded and nothing else: no other file, no URL, no other tab's images."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from ipl.apps.workbench.app import create_workbench_app
from ipl.apps.workbench.file_access import named_paths
from ipl.apps.workbench.sessions import Workbench
from tests.helpers.scenes import open_scene
from tests.helpers.serving import to_bytes
from tests.helpers.workbench_tab import Tab, file_data


@pytest.fixture(scope="module", params=["127.0.0.1", "0.0.0.0"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    """Yields the address of a workbench for this machine, or for all, and its folder."""
    folder = tmp_path_factory.mktemp("temporary")
    command = [sys.executable, "-m", "ipl", "ui", "--port", "0", "--device", "cpu"]
    environment = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(
        [*command, "--host", request.param], stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "open at" in line)
        port = line.split(" at ")[1].split()[0].rpartition(":")[2]
        (own,) = folder.glob("ipl-ui-*")
        yield f"http://127.0.0.1:{port}", own
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "Ended.\n"


@pytest.fixture
def tab(server: tuple[str, Path]) -> Tab:
    return Tab(server[0])


def test_what_a_tab_uploaded_is_read(tab: Tab) -> None:
    (path,) = tab.upload(to_bytes(open_scene("beach", 0))).json()
    assert tab.add_class(path).status_code == 200
    result = tab.result()
    assert "1 class with 1 image." in result
    assert "data:image/jpeg" in result


@pytest.mark.parametrize("kind", ["picture", "device", "pipe", "folder", "relative", "link"])
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
    }[kind]
    for paths in ([named], [path, named]):
        refused = tab.add_class(*paths)
        assert refused.status_code == 403
        assert "was not uploaded from this page" in refused.json()["error"]


@pytest.mark.parametrize("scheme", ["http", "HTTPS", "file"])
def test_urls_are_not_fetched(tab: Tab, scheme: str, tmp_path: Path) -> None:
    assert tab.add_class(f"{scheme}://127.0.0.1:9/{tmp_path}/a.png").status_code == 403


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
    assert "1 class with 1 image." in other.result()


def test_an_upload_belongs_to_an_open_session(tab: Tab, server: tuple[str, Path]) -> None:
    image = to_bytes(open_scene("forest", 7))
    for key in ("", "nobody"):
        refused = tab.upload(image, key=key)
        assert refused.status_code == 403
        assert "reload the page" in refused.json()["error"]
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
    for path in ("/", "/config", "/gradio_api/info", "/no-such-page"):
        headers = tab.client.get(path).headers
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "http" not in policy


def test_a_name_of_another_site_is_refused(tab: Tab) -> None:
    site = {"Host": "evil.example", "Origin": "http://evil.example"}
    assert tab.client.get("/config", headers=site).status_code == 403


def test_gradio_checks_paths_as_well(workbench: Workbench) -> None:
    _, gradio_app = create_workbench_app(workbench, None)
    assert gradio_app.get_blocks().has_launched


def test_paths_are_found_at_any_depth() -> None:
    deep: Any = file_data("c")
    for _ in range(10_000):
        deep = [deep]
    call = {"data": [file_data("a"), "path", {"path": "b"}, deep], "path": "d"}
    assert sorted(named_paths(call)) == ["a", "b", "c", "d"]
