"""The workbench as a person uses it: images, words, training, predictions, and a friend."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ipl import Backbone, PromptClassifier
from tests.helpers.page_measures import PHONE, overflow
from tests.helpers.scenes import open_scene

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.slow]
Open = Callable[..., "Page"]
SERVER = Path(__file__).parents[1] / "helpers" / "workbench_server.py"


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Returns some images of a few classes."""
    root = tmp_path_factory.mktemp("images")
    files: dict[str, list[Path]] = {}
    for name in ("beach", "castle", "lake"):
        (root / name).mkdir()
        files[name] = [root / name / f"{index}.png" for index in range(4)]
        for index, path in enumerate(files[name]):
            open_scene(name, index).save(path)
    return files


@pytest.fixture(scope="module")
def address(browser: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yields the address of a workbench, which must end cleanly in the end."""
    errors = tmp_path_factory.mktemp("server") / "errors.txt"
    with errors.open("w") as stream:
        server = subprocess.Popen(
            [sys.executable, str(SERVER)], stdout=subprocess.PIPE, stderr=stream, text=True
        )
    assert server.stdout is not None
    yield server.stdout.readline().strip()
    server.send_signal(signal.SIGTERM)
    assert server.communicate(timeout=30)[0] == "ended\n"
    assert server.returncode == 0
    assert errors.read_text() == ""


def add_class(page: Page, name: str, files: list[Path]) -> None:
    page.get_by_label("Name of the class").fill(name)
    page.set_input_files("#class-files input[type=file]", files)
    page.locator("#class-files").get_by_text(files[-1].stem).first.wait_for()
    page.get_by_role("button", name="Add class").click()
    page.locator("#classes b", has_text=name).wait_for()


def set_epochs(page: Page, value: str) -> None:
    field = page.locator("#epochs input")
    if not field.is_visible():
        page.get_by_role("button", name="Shots, epochs, seed").click()
    while True:  # a field that has just been opened may take its first value once more
        field.fill(value)
        field.blur()
        page.wait_for_timeout(300)
        if field.input_value() == value:
            break


def learn(page: Page) -> None:
    page.get_by_role("button", name="Learn", exact=True).click()
    page.get_by_text("Done in").wait_for()


def test_a_person_learns_a_prompt_and_takes_it_away(
    address: str, open_page: Open, images: dict[str, list[Path]], pocket: Backbone, tmp_path: Path
) -> None:
    page = open_page(address)
    page.get_by_text("No images yet").wait_for()
    page.get_by_role("button", name="Learn", exact=True).click()
    page.get_by_text("Images of at least two classes are needed; add some.").wait_for()

    add_class(page, "beach", images["beach"])
    (tmp_path / "notes.png").write_text("no image")
    add_class(page, "castle ${1+1} {{value}}", [*images["castle"], tmp_path / "notes.png"])
    page.get_by_text("Left out: notes.png: not an image").wait_for()
    page.get_by_text("2 classes with 8 images.").wait_for()
    assert page.locator("#classes img").count() == 8

    page.get_by_label("Word", exact=True).fill("tower")
    page.get_by_label("Word", exact=True).press("Enter")
    page.get_by_text("“tower” alone would").wait_for()

    learn(page)
    words = page.locator("#outcome .prompt .word").all_inner_texts()
    assert len(words) == 3
    rows = page.locator("#outcome .scroll").first.locator("tbody tr")
    assert rows.locator("th").all_inner_texts() == ["(none)", *words]
    gains = rows.locator("td:nth-child(2)").all_inner_texts()
    assert page.locator("#outcome .beside").last.locator("figure svg").count() == 2
    page.get_by_text("Accuracy on").first.wait_for()

    page.get_by_label("Word", exact=True).fill(words[1])
    page.get_by_role("button", name="Show its gain").click()
    page.get_by_text(f"“{words[1]}” is the 2nd word of this prompt: its gain").wait_for()
    assert page.locator("#word-gain tbody tr").nth(1).locator("td").first.inner_text() == gains[2]
    page.get_by_label("Word", exact=True).fill("towerlike")
    page.get_by_role("button", name="Show its gain").click()
    page.get_by_text("'towerlike' is more than one token").wait_for()

    page.set_input_files("#image input[type=file]", images["castle"][0])
    page.locator("#ranking figcaption").wait_for()
    assert page.locator("#ranking tbody tr").count() == 2
    page.get_by_label("Another class").fill("lake")
    page.get_by_role("button", name="Add this class").click()
    page.locator("#ranking tbody tr").nth(2).wait_for(state="attached")
    page.set_input_files("#image input[type=file]", tmp_path / "notes.png")
    use_message = page.locator("#use-message")
    use_message.get_by_text("notes.png: not an image").wait_for()
    page.locator("#ranking figcaption").wait_for(state="detached")

    with page.expect_download() as download:
        page.get_by_role("button", name="Download the prompt").click()
    assert download.value.suggested_filename == "images-coop-3w-seed1.zip"
    with zipfile.ZipFile(download.value.path()) as packed:
        packed.extractall(tmp_path)
    loaded = PromptClassifier.from_pretrained(tmp_path / "images-coop-3w-seed1", pocket)
    assert loaded.words_ == words
    assert loaded.classes_ == ["beach", "castle ${1+1} {{value}}", "lake"]
    assert page.locator("#prompt-text code").inner_text() == loaded.prompt_


def test_on_a_phone_a_fit_is_cancelled_and_another_learnt(
    address: str, open_page: Open, images: dict[str, list[Path]]
) -> None:
    page = open_page(address, **PHONE, color_scheme="dark")
    add_class(page, "beach", images["beach"])
    add_class(page, "lake", images["lake"])
    page.locator("#words input[type=number]").fill("1")
    page.locator("#words input[type=number]").blur()
    set_epochs(page, "1.5")
    page.get_by_role("button", name="Learn", exact=True).click()
    page.get_by_text("epochs is 1.5; it must be a whole number").wait_for()
    set_epochs(page, "500")
    page.get_by_role("button", name="Learn", exact=True).click()
    page.get_by_text(re.compile(r"Training: \d+ of 500, loss")).wait_for()
    assert page.get_by_role("button", name="Learn", exact=True).is_disabled()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("Cancelled.").wait_for()
    assert page.get_by_role("button", name="Cancel").is_disabled()
    set_epochs(page, "20")
    learn(page)
    assert page.locator("#outcome .prompt .word").count() == 1
    page.set_input_files("#image input[type=file]", images["lake"][0])
    page.locator("#ranking figcaption").wait_for()
    assert overflow(page) == 0
    assert page.evaluate("document.body.classList.contains('dark')")
    page.get_by_role("button", name="Remove a class").click()
    page.locator("#remove-which").get_by_label("beach").check()
    page.get_by_role("button", name="Remove class").click()
    page.get_by_text("Learnt from other images than those above.").wait_for()
