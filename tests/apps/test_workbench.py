"""The workbench over HTTP: what a tab can do, and what it cannot."""

from __future__ import annotations

import json
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError

from ipl import PromptClassifier
from ipl.apps.workbench import Session, Workbench
from tests.helpers.scenes import open_scene
from tests.helpers.workbench import serve_workbench

CLASSES = ("beach", "<b>lake</b>")
QUICK = ("coop", "", "water", "2", "2")  # learner, words, words given, shots, epochs
LONG = (*QUICK[:-1], "5000")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder of two classes with four images each."""
    root = tmp_path_factory.mktemp("images") / "mine"
    for name in CLASSES:
        (folder := root / name.replace("/", "-")).mkdir(parents=True)
        for index in range(4):
            open_scene("lake" if "lake" in name else name, index).save(folder / f"{index}.png")
    return root


@pytest.fixture(scope="module")
def workbench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Workbench, str]]:
    """Yields a workbench and its address."""
    with serve_workbench(tmp_path_factory.mktemp("workbench")) as served:
        yield served


@pytest.fixture
def open_tab(workbench: tuple[Workbench, str]) -> Iterator[Callable[[], Client]]:
    tabs: list[Client] = []

    def open_one() -> Client:
        tabs.append(Client(workbench[1], verbose=False))
        return tabs[-1]

    yield open_one
    for tab in tabs:
        tab.close()


@pytest.fixture
def tab(open_tab: Callable[[], Client]) -> Client:
    return open_tab()


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def progress(job: Any) -> str:
    return "".join(str(unit.desc) for unit in job.status().progress_data or [])


def test_from_images_to_a_saved_prompt(
    tab: Client, images: Path, workbench: tuple[Workbench, str], open_tab: Callable[[], Client]
) -> None:
    shown = tab.predict(str(images), api_name="/use_folder")
    assert "2 classes, 8 images" in shown
    assert "&lt;b&gt;lake" in shown  # names of classes are texts
    assert shown.count("<img") == 2
    result, name = tab.predict(*QUICK, api_name="/fit")
    assert '<span class="word">water</span>' in result
    assert "zero-shot CLIP" in result
    assert "linear probe" in result
    assert name == "mine-coop-1w-given-seed1"

    (images / "notes.txt").write_text("no image")
    files = [handle_file(images / "beach" / "0.png"), handle_file(images / "notes.txt")]
    classified = tab.predict(files, "", api_name="/classify")
    assert classified.count("<li>") == 2
    assert "notes.txt: not an image" in classified
    classified = tab.predict(files[:1], "fish, beach, lake", api_name="/classify")
    assert classified.count("<li>") == 3

    saved, _ = tab.predict(name, api_name="/save")
    folder = workbench[0].runs / name
    assert str(folder) in saved
    loaded = PromptClassifier.from_pretrained(folder, device="cpu")
    assert loaded.words_ == ["water"]
    with pytest.raises(AppError, match="already contains a saved run"):
        tab.predict(name, api_name="/save")

    other = open_tab()
    with pytest.raises(AppError, match="no prompt yet"):
        other.predict(files, "", api_name="/classify")
    assert name in json.dumps(other.predict(api_name="/show"))
    assert other.predict(name, api_name="/open")[0] == result


@pytest.mark.parametrize("name", ["", "..", "../mine", "/etc", ".hidden", "a\0b", "nowhere"])
def test_runs_outside_their_folder_are_not_opened(name: str, tab: Client) -> None:
    with pytest.raises(AppError, match="not a name for a run|No saved run"):
        tab.predict(name, api_name="/open")


def test_images_as_a_zip_file(tab: Client, images: Path, tmp_path: Path) -> None:
    archive = tmp_path / "pets.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for path in images.glob("*/*.png"):
            packed.write(path, f"outer/{path.relative_to(images)}")
        packed.writestr("__MACOSX/outer/._x", "")
    assert "2 classes, 8 images" in tab.predict(handle_file(archive), api_name="/use_upload")
    rows = [[str(images / name / "0.png"), label, name] for label, name in enumerate("ab")]
    with zipfile.ZipFile(archive, "w") as packed:
        split = {"train": rows, "val": [], "test": [[str(images / "x.png"), 0, "a"]]}
        packed.writestr("pets/split_zhou_OxfordPets.json", json.dumps(split))
        packed.writestr("pets/images/0.png", "")
    with pytest.raises(AppError, match="outside of it"):
        tab.predict(handle_file(archive), api_name="/use_upload")
    archive.write_text("no archive")
    with pytest.raises(AppError, match="pets.zip cannot be unpacked"):
        tab.predict(handle_file(archive), api_name="/use_upload")


def test_a_wrong_setting_is_explained(tab: Client, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AppError, match="There are no images yet"):
        tab.predict(*QUICK, api_name="/fit")
    with pytest.raises(AppError, match="No such file or folder"):
        tab.predict("/nowhere", api_name="/use_folder")
    tab.predict(api_name="/use_scenes")
    with pytest.raises(AppError, match="epochs is"):
        tab.predict(*QUICK[:-1], "many", api_name="/fit")
    assert "Traceback" not in capfd.readouterr().err


def test_one_fit_runs_at_a_time_and_can_be_cancelled(open_tab: Callable[[], Client]) -> None:
    first, second = open_tab(), open_tab()
    for each in (first, second):
        each.predict(api_name="/use_scenes")
    job = first.submit(*LONG, api_name="/fit")
    wait_for(lambda: "Training" in progress(job))
    with pytest.raises(AppError, match="Another fit is running"):
        second.predict(*QUICK, api_name="/fit")
    first.predict(api_name="/cancel")
    with pytest.raises(AppError, match="Cancelled"):
        job.result(60)
    assert "zero-shot CLIP" in second.predict(*QUICK, api_name="/fit")[0]


def test_a_fit_ends_with_its_tab(
    open_tab: Callable[[], Client], workbench: tuple[Workbench, str]
) -> None:
    tab = open_tab()
    tab.predict(api_name="/use_scenes")
    job = tab.submit(*LONG, api_name="/fit")
    wait_for(lambda: "Training" in progress(job))
    session = workbench[0]._sessions[tab.session_hash]
    tab.close()
    wait_for(session.cancelled.is_set)


def file_data(path: object) -> dict[str, Any]:
    return {"path": path, "meta": {"_type": "gradio.FileData"}}


def test_bad_calls_are_refused_without_a_traceback(
    workbench: tuple[Workbench, str], images: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    client = httpx.Client(base_url=workbench[1])
    calls = client.get("/config").json()["dependencies"]
    upload = next(call["id"] for call in calls if call["api_name"] == "use_upload")
    folder = next(call["id"] for call in calls if call["api_name"] == "use_folder")

    def status(function: object, *values: object) -> int:
        call = {"fn_index": function, "data": values, "session_hash": "me"}
        return client.post("/gradio_api/queue/join", json=call).status_code

    for function in (9999, -1, "x", None, [1]):
        assert status(function, "x") == 422
    assert status(folder) == status(folder, "x", "y") == 422
    secret = str(images / "beach" / "0.png")
    paths = (secret, "/dev/zero", "http://127.0.0.1:9/a.zip", "\0", "", 1, None)
    for value in (1, "x", True, [1], {}, *map(file_data, paths), [file_data(secret)]):
        assert status(upload, value) == 422, value
        assert value in ("x", True) or status(folder, value) == 422, value
    for body in (b"{", b"[1]", b"[" * 100_000, b"\xff", b" " * 2_000_000):
        assert client.post("/gradio_api/queue/join", content=body).status_code == 422
    assert client.post("/gradio_api/upload", files={"files": ("", b"x")}).status_code == 400
    both = {"Content-Length": "2", "Transfer-Encoding": "chunked"}
    assert client.get("/config", headers=both).status_code == 400
    for path in ("run/fit", "call/fit", "stream/x"):
        assert client.post(f"/gradio_api/{path}", json={"data": []}).status_code == 404
    for path in (secret, "pyproject.toml", "http://127.0.0.1:9/"):
        assert client.get(f"/gradio_api/file={path}").status_code == 403
    assert "Traceback" not in capfd.readouterr().err


def test_other_sites_are_refused(workbench: tuple[Workbench, str]) -> None:
    client = httpx.Client(base_url=workbench[1])
    for host in ("127.0.0.1", "localhost", "proxy.example"):
        assert client.get("/", headers={"Host": host}).status_code == 200
    for host in ("evil.example", "127.0.0.1/evil.example", "192.0.2.7"):
        assert client.get("/", headers={"Host": host}).status_code == 403
    origin = {"Origin": "http://evil.example"}
    sent = client.post("/gradio_api/upload", files={"files": ("a", b"x")}, headers=origin)
    assert sent.status_code == 403


def test_other_machines_use_any_address_and_name_no_folders(tmp_path: Path, images: Path) -> None:
    with serve_workbench(tmp_path, start=Session(images), local=False) as (_, address):
        tab = Client(address, verbose=False)
        with pytest.raises(AppError, match="for this machine alone"):
            tab.predict(str(images), api_name="/use_folder")
        assert "2 classes" in tab.predict(api_name="/show")[0]
        assert httpx.get(address, headers={"Host": "192.0.2.7:7860"}).status_code == 200
        tab.close()
