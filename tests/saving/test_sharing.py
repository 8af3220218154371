"""Prompts on the hub, with a folder in its place: no test needs a network."""

from __future__ import annotations

import shutil
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
from PIL import Image

from ipl import PromptClassifier
from ipl.backbone.backbone import Backbone
from ipl.saving.sharing import find_run
from ipl.support import hub
from ipl.support.errors import ConfigError, SavedRunError

VERSION_1 = Path(__file__).parent / "version-1"


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a folder that takes the place of the hub, owner/name below it."""
    root = tmp_path / "hub"

    def create_repo(name: str, *, private: bool, exist_ok: bool) -> str:
        (root / name).mkdir(parents=True, exist_ok=exist_ok)
        (root / name / "private").write_text(str(private))
        return f"https://hub.example/{name}"

    def upload_folder(
        *, repo_id: str, folder_path: Path, allow_patterns: list[str], commit_message: str
    ) -> None:
        for file in folder_path.iterdir():
            assert any(fnmatch(file.name, pattern) for pattern in allow_patterns)
            shutil.copy(file, root / repo_id)
        (root / repo_id / "message").write_text(commit_message)

    def snapshot_download(
        name: str, *, revision: str | None, allow_patterns: list[str], local_files_only: bool
    ) -> str:
        if local_files_only or not (root / name).is_dir():
            raise huggingface_hub.errors.LocalEntryNotFoundError("404 Client Error.\nmore lines")
        target = tmp_path / "fetched" / str(revision) / name
        target.mkdir(parents=True, exist_ok=True)
        for file in (root / name).iterdir():
            if any(fnmatch(file.name, pattern) for pattern in allow_patterns):
                shutil.copy(file, target)
        return str(target)

    for stand in (create_repo, upload_folder, snapshot_download):
        monkeypatch.setattr(huggingface_hub, stand.__name__, stand)
    monkeypatch.setattr(hub, "hub_reachable", lambda: True)
    monkeypatch.chdir(tmp_path)
    return root


def test_pushed_and_fetched_it_predicts_the_same(stand_in: Path, pocket: Backbone) -> None:
    first = PromptClassifier.from_pretrained(VERSION_1, pocket, any_backbone=True)
    address = first.push_to_hub("ada/scenes", private=True)
    assert address == "https://hub.example/ada/scenes"
    assert (stand_in / "ada/scenes/private").read_text() == "True"
    assert "ipl" in (stand_in / "ada/scenes/message").read_text()
    card = (stand_in / "ada/scenes/README.md").read_text()
    assert 'from_pretrained("ada/scenes")' in card
    (stand_in / "ada/scenes/evil.pkl").write_bytes(b"never fetched")
    second = PromptClassifier.from_pretrained("ada/scenes", pocket, revision="v2")
    image = Image.new("RGB", (80, 64), (120, 90, 10))
    np.testing.assert_array_equal(first.predict_proba([image]), second.predict_proba([image]))
    fetched = find_run("ada/scenes", "v2")
    assert sorted(p.name for p in fetched.iterdir()) == [
        "README.md",
        "config.json",
        "prompt.safetensors",
    ]


def test_a_folder_of_that_name_comes_first(stand_in: Path, tmp_path: Path) -> None:
    shutil.copytree(VERSION_1, tmp_path / "ada" / "scenes")
    assert find_run("ada/scenes") == Path("ada/scenes")
    with pytest.raises(ConfigError, match="revision is 'v2', but ada/scenes is not a name"):
        find_run("ada/scenes", "v2")


def test_a_name_that_the_hub_does_not_have(stand_in: Path) -> None:
    with pytest.raises(SavedRunError) as caught:
        PromptClassifier.from_pretrained("ada/nothing")
    assert str(caught.value) == (
        "No saved run at ada/nothing: there is no such folder, and it cannot be downloaded from "
        "the Hugging Face hub (LocalEntryNotFoundError: 404 Client Error)."
    )


def test_without_network_there_is_one_sentence(
    stand_in: Path, pocket: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "hub_reachable", lambda: False)
    with pytest.raises(
        SavedRunError, match="hub cannot be reached, and its local cache has no copy"
    ):
        PromptClassifier.from_pretrained("ada/scenes")
    with pytest.raises(SavedRunError, match="Cannot push ada/x: the .* hub cannot be reached"):
        PromptClassifier.from_pretrained(VERSION_1, pocket, any_backbone=True).push_to_hub("ada/x")


def test_a_push_that_fails_says_why(
    stand_in: Path, pocket: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise huggingface_hub.errors.HFValidationError("401 Unauthorized")

    classifier = PromptClassifier.from_pretrained(VERSION_1, pocket, any_backbone=True)
    for name in ("nobody", "a/b/c", "../up", "a/.hidden", "ada/my prompt", "ada/größe"):
        with pytest.raises(ConfigError) as caught:
            classifier.push_to_hub(name)
        assert str(caught.value) == (
            f"The name on the hub is {name!r}; it must be owner/name, each of at most 96 letters "
            "(a to z), digits, '-', '_' and '.', the first a letter or a digit."
        )
    monkeypatch.setattr(huggingface_hub, "create_repo", refuse)
    with pytest.raises(SavedRunError, match="401 Unauthorized.*hf auth login"):
        classifier.push_to_hub("ada/scenes")


@pytest.mark.parametrize("name", ["runs/none/deeper", "./ada/scenes", "~/x", "plain", "a b/c"])
def test_what_is_no_name_of_the_hub_is_a_folder(name: str, stand_in: Path) -> None:
    with pytest.raises(SavedRunError, match="there is no such folder\\."):
        PromptClassifier.from_pretrained(name)
