"""Bad input to `ipl fit` and `ipl predict`: one clear sentence, exit code 2, nothing written."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


# -- data -----------------------------------------------------------------------------------------


def test_no_such_path(refused: Call, home: Path) -> None:
    assert str(home / "nowhere") in refused(home / "nowhere")


@pytest.mark.parametrize("name", ["x" * 300, "y/" * 3000])
def test_a_path_longer_than_the_system_allows(name: str, refused: Call) -> None:
    assert name[:20] in refused(name)


def test_overwriting_what_was_not_named(ipl: Call, images: Call) -> None:
    message = ipl("fit", images(beach=2), "--overwrite").error
    assert "--overwrite replaces the run in --out" in message


def test_a_file_that_is_no_table(refused: Call, home: Path) -> None:
    (home / "data.txt").write_text("a\n")
    message = refused(home / "data.txt")
    assert "data.txt" in message
    assert "path,label" in message


def test_a_folder_without_class_folders(refused: Call, home: Path) -> None:
    (home / "flat").mkdir()
    (home / "flat" / "a.png").write_bytes(b"")
    message = refused(home / "flat")
    assert "sub-folder" in message


def test_an_empty_class_folder(refused: Call, images: Call) -> None:
    data = images(beach=2, castle=0)
    message = refused(data)
    assert str(data / "castle") in message
    assert "empty" in message


def test_one_class_only(refused: Call, images: Call) -> None:
    message = refused(images(beach=2))
    assert "'beach'" in message
    assert "at least two" in message


def test_two_folders_with_the_same_name(refused: Call, images: Call) -> None:
    message = refused(images({"tabby_cat": 1, "tabby cat": 1}))
    assert "tabby cat" in message
    assert "same name" in message


def test_two_labels_with_the_same_name(refused: Call, images: Call, home: Path) -> None:
    images(beach=1, castle=1)
    (home / "list.csv").write_text("path,label\ndata/beach/0.png,Cat\ndata/castle/0.png,cat\n")
    message = refused(home / "list.csv")
    assert "'Cat'" in message
    assert "'cat'" in message


def test_a_class_name_that_is_empty(refused: Call, images: Call) -> None:
    assert "empty name" in refused(images({"beach": 1, "___": 1}))


def test_a_class_name_of_300_words(refused: Call, images: Call, home: Path) -> None:
    images(beach=1, castle=1)
    name = "very " * 299 + "long"
    (home / "list.csv").write_text(f"path,label\ndata/beach/0.png,a\ndata/castle/0.png,{name}\n")
    message = refused(home / "list.csv")
    assert "very very" in message
    assert "300 tokens" in message
    assert "77" in message
    assert len(message) < 300  # the name is not repeated in full


def test_a_class_name_that_only_the_template_has_no_room_for(
    refused: Call, fit: Call, images: Call, home: Path
) -> None:
    images(beach=1, castle=1)
    name = "very " * 66 + "long"
    (home / "list.csv").write_text(f"path,label\ndata/beach/0.png,a\ndata/castle/0.png,{name}\n")
    message = refused(home / "list.csv")
    assert "template" in message
    assert "77" in message
    assert fit(home / "list.csv", "--words", 0, "--out", home / "plain").code == 0


@pytest.mark.parametrize("text", ["", "path,label\n", "file;kind\na;b\n", "path,label\n,a\n"])
def test_tables_without_usable_rows(text: str, refused: Call, home: Path) -> None:
    (home / "list.csv").write_text(text)
    assert str(home / "list.csv") in refused(home / "list.csv")


def test_a_table_with_an_endless_field(refused: Call, home: Path) -> None:
    (home / "list.csv").write_text("path,label\n" + "x" * 200_000 + ",a\n")
    assert str(home / "list.csv") in refused(home / "list.csv")


# -- settings -------------------------------------------------------------------------------------


def test_words_times_interval_beyond_epochs_names_the_three_numbers(
    refused: Call, images: Call
) -> None:
    message = refused(images(beach=1, castle=1), "--words", 5, "--interval", 7, "--epochs", 31)
    assert all(f"= {number})" in message for number in (5, 7, 31))
    assert "35" in message


def test_more_words_than_the_pool_has(refused: Call, images: Call) -> None:
    message = refused(images(beach=1, castle=1), "--words", 7, "--epochs", 7)
    assert "7" in message
    assert "the pool has 6 words" in message


def test_more_words_than_positions(refused: Call, images: Call) -> None:
    message = refused(images(beach=1, castle=1), "--words", 40, "--epochs", 40)
    assert "40 words" in message
    assert "77 positions" in message


def test_more_words_than_the_template_leaves_room_for(
    refused: Call, images: Call, home: Path
) -> None:
    from ipl.words.pool import Pool

    (home / "many.txt").write_text("\n".join(Pool.bundled().words[:100]))
    settings = ["--m", 1, "--words", 35, "--epochs", 35, "--words-file", home / "many.txt"]
    message = refused(images(beach=1, castle=1), *settings)
    assert "35 words" in message
    assert "template" in message
    assert "77" in message


@pytest.mark.parametrize(
    ("option", "value", "named"),
    [
        ("--words", -1, "words"),
        ("--shots", 0, "shots"),
        ("--epochs", 0, "epochs"),
        ("--interval", 0, "interval"),
        ("--batch", 0, "batch"),
        ("--m", 0, "m is 0"),
        ("--lr", "nan", "lr"),
        ("--lambda", -1, "lambda"),
        ("--lambda", "nan", "lambda"),
        ("--preset", "papr", "preset"),
        ("--word-embedding", "x", "--word-embedding"),
        ("--template", "no places", "template"),
        ("--placeholder", "x", "placeholder"),
        ("--views", "many", "views"),
        ("--views", "²", "views"),
        ("--device", "quantum", "device"),
        ("--device", "meta", "device"),
        ("--precision", "fp8", "precision"),
        ("--seed", 2**70, "seed"),
    ],
)
def test_a_setting_out_of_range_is_named(
    option: str, value: object, named: str, refused: Call, images: Call
) -> None:
    message = refused(images(beach=1, castle=1), option, value)
    assert named in message
    assert str(value) in message


def test_an_unknown_learner_with_the_closest_name(refused: Call, images: Call) -> None:
    message = refused(images(beach=1, castle=1), "--learner", "cop")
    assert "'cop'" in message
    assert "Did you mean 'coop'" in message


def test_an_unknown_learner_with_all_names(refused: Call, images: Call) -> None:
    assert "Known: coop" in refused(images(beach=1, castle=1), "--learner", "zzz")


def test_an_unknown_backbone_with_the_closest_name(refused: Call, images: Call) -> None:
    message = refused(images(beach=1, castle=1), "--backbone", "pockt")
    assert "'pockt'" in message
    assert "'pocket'" in message


def test_a_folder_that_is_no_backbone(refused: Call, images: Call) -> None:
    data = images(beach=1, castle=1)
    message = refused(data, "--backbone", data)
    assert str(data) in message
    assert "config.json" in message


@pytest.fixture
def no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the hub unreachable and its local cache empty, whatever machine this is."""
    from huggingface_hub import constants

    monkeypatch.setattr("ipl.backbone.loading._hub_reachable", lambda: False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "no cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "no home"))


@pytest.mark.usefixtures("no_network")
def test_a_hub_name_without_network_says_how_to_get_the_weights(
    refused: Call, images: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "openai/clip-vit-base-patch16"
    data = images(beach=1, castle=1)
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    message = refused(data, "--backbone", name)
    assert waits == []  # the hub's client alone would retry, and wait in between
    assert name in message
    assert f"hf download {name} --local-dir" in message


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("name", ["openai/clip-vit-base-patch1", "opnai/clip-vit-base-patch16"])
def test_a_mistyped_hub_name_comes_with_the_closest_names(
    name: str, refused: Call, images: Call
) -> None:
    message = refused(images(beach=1, castle=1), "--backbone", name)
    assert repr("openai/clip-vit-base-patch16") in message


def test_a_word_list_that_is_not_there(refused: Call, images: Call, home: Path) -> None:
    message = refused(images(beach=1, castle=1), "--words-file", home / "none.txt")
    assert "none.txt" in message


def test_dropped_words_of_a_list_are_named(fit: Call, images: Call, home: Path) -> None:
    (home / "own.txt").write_text("stone\nxx\nwater\n")
    data = images(beach=1, castle=1)
    result = fit(data, "--words-file", home / "own.txt", "--out", home / "run")
    assert result.code == 0
    assert "'xx' is left out" in result.err
