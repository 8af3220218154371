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

from ipl import Backbone, Pool, PromptClassifier
from tests.helpers.scenes import open_scene

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.slow]
Open = Callable[..., "Page"]
SERVER = Path(__file__).parents[1] / "helpers" / "workbench_server.py"
LONG = "500"


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Returns some images of a few classes."""
    root = tmp_path_factory.mktemp("images")
    files: dict[str, list[Path]] = {}
    for name in ("beach", "castle", "forest", "lake"):
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


def set_numbers(page: Page, **values: str) -> None:
    if not page.locator("#epochs input").is_visible():
        page.get_by_role("button", name="Shots, epochs, seed").click()
    for name, value in values.items():
        field = page.locator(f"#{name} input")
        while True:  # a field that has just been opened may take its first value once more
            field.fill(value)
            field.blur()
            page.wait_for_timeout(300)
            if field.input_value() == value:
                break


def set_words(page: Page, count: int) -> None:
    page.locator("#words input[type=number]").fill(str(count))
    page.locator("#words input[type=number]").blur()


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

    page.evaluate(
        """() => {
            window.states = new Set();
            const note = () => window.states.add(
                document.querySelector('#status').innerText + ' / '
                + document.querySelectorAll('#outcome tbody tr').length);
            new MutationObserver(note).observe(
                document.querySelector('#status'),
                {subtree: true, childList: true, characterData: true});
        }"""
    )
    set_numbers(page, epochs="200")
    learn(page)
    states = page.evaluate("[...window.states]")
    going = [state for state in states if re.search(r"Training: \d+ of 200, loss", state)]
    assert len(going) >= 2, states

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
    page.locator("#word-gain tbody").wait_for(state="detached")

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


def test_a_fit_is_cancelled_and_another_learnt(
    address: str, open_page: Open, images: dict[str, list[Path]]
) -> None:
    page = open_page(address)
    add_class(page, "beach", images["beach"])
    add_class(page, "lake", images["lake"])
    set_words(page, 1)
    set_numbers(page, epochs="0")
    page.get_by_role("button", name="Learn", exact=True).click()
    page.get_by_text("epochs is 0; it must be a whole number from 1 to 500.").wait_for()
    set_numbers(page, epochs="1.5")
    page.get_by_role("button", name="Learn", exact=True).click()
    page.get_by_text("epochs is 1.5; it must be a whole number").wait_for()
    set_numbers(page, epochs=LONG)
    page.get_by_role("button", name="Learn", exact=True).click()
    page.get_by_text("Training:").wait_for()
    assert page.get_by_role("button", name="Learn", exact=True).is_disabled()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("Cancelled.").wait_for()
    assert page.get_by_role("button", name="Cancel").is_disabled()
    set_numbers(page, epochs="20")
    learn(page)
    assert page.locator("#outcome .prompt .word").count() == 1
    page.get_by_role("button", name="Remove a class").click()
    page.get_by_role("button", name="Remove class").click()
    page.get_by_text("No class is selected; select the one to remove.").wait_for()
    page.locator("#remove-which").get_by_label("beach").check()
    page.get_by_role("button", name="Remove class").click()
    page.get_by_text("Learnt from other images than those above.").wait_for()
    page.get_by_text("Add a second class to have something to distinguish.").wait_for()


def test_two_browsers_have_their_own_classes_and_prompts(
    address: str, open_page: Open, images: dict[str, list[Path]]
) -> None:
    one, two = open_page(address), open_page(address)
    add_class(one, "beach", images["beach"])
    add_class(two, "forest", images["forest"])
    add_class(one, "castle", images["castle"])
    add_class(two, "lake", images["lake"])
    set_words(two, 1)
    for page in (one, two):
        set_numbers(page, epochs="150")
        page.get_by_role("button", name="Learn", exact=True).click()
    for page in (one, two):
        page.get_by_text("Done in").wait_for()
    assert one.locator("#classes b").all_inner_texts() == ["beach", "castle"]
    assert two.locator("#classes b").all_inner_texts() == ["forest", "lake"]
    assert one.locator("#outcome .prompt .word").count() == 3
    assert two.locator("#outcome .prompt .word").count() == 1
    one.get_by_text("The prompt distinguishes beach and castle.").wait_for()
    two.get_by_text("The prompt distinguishes forest and lake.").wait_for()


def test_a_saved_prompt_on_a_phone(
    open_page: Open,
    browser: object,
    images: dict[str, list[Path]],
    pocket: Backbone,
    tmp_path: Path,
) -> None:
    data = images["beach"][0].parents[1]
    pool = Pool.from_words(("dark", "sand", "stone", "wall"), "four words")
    classifier = PromptClassifier(
        pocket, words=1, shots=2, epochs=2, interval=1, views=0, pool=pool, cache=False
    ).fit(data)
    classifier.save_pretrained(tmp_path / "run")
    command = [sys.executable, "-m", "ipl", "ui", str(tmp_path / "run"), "--port", "0"]
    with subprocess.Popen(
        [*command, "--data", str(data), "--device", "cpu"], stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        address = server.stderr.readline().split(" at ")[1].split()[0]
        phone = open_page(address, viewport={"width": 390, "height": 844}, color_scheme="dark")
        phone.locator("#outcome .prompt .word", has_text=classifier.words_[0]).wait_for()
        phone.get_by_text("4 classes with 16 images.").wait_for()
        phone.get_by_text("The saved prompt run is in use.").wait_for()
        phone.set_input_files("#image input[type=file]", images["castle"][0])
        phone.locator("#ranking figcaption").wait_for()
        phone.get_by_label("Word", exact=True).fill("tower")
        phone.get_by_role("button", name="Show its gain").click()
        phone.get_by_text(f"After {classifier.words_[0]}, “tower” would").wait_for()
        assert phone.get_by_text("were chosen on other images").count() == 0
        assert phone.evaluate("document.documentElement.scrollWidth") <= 390
        assert phone.evaluate("document.body.classList.contains('dark')")
        assert server.poll() is None
        server.send_signal(signal.SIGINT)
        assert server.stderr.read() == "Ended.\n"
    assert server.returncode == 0
