"""Prompts on the hub, with a folder in its place: no test needs a network."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
from PIL import Image

from ipl import PromptClassifier
from ipl.backbone import loading
from ipl.backbone.backbone import Backbone
from ipl.explain.inputs import load_run
from ipl.saving.run_folder import FILES, find_run
from ipl.support import hub
from ipl.support.errors import BackboneError, ConfigError, SavedRunError


@pytest.fixture(scope="module")
def saved(make_run: Callable[..., Path]) -> Path:
    """Returns the folder of a saved prompt for PocketCLIP."""
    return make_run("coop", 2)


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


def test_pushed_and_fetched_it_predicts_the_same(
    stand_in: Path, saved: Path, pocket: Backbone
) -> None:
    first = PromptClassifier.from_pretrained(saved, pocket)
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
    assert sorted(p.name for p in fetched.iterdir()) == sorted(FILES)


def test_a_folder_of_that_name_comes_first(stand_in: Path, saved: Path, tmp_path: Path) -> None:
    shutil.copytree(saved, tmp_path / "ada" / "scenes")
    assert find_run("ada/scenes") == Path("ada/scenes")
    with pytest.raises(ConfigError, match="revision is 'v2', but ada/scenes is not a name"):
        find_run("ada/scenes", "v2")


def test_a_name_that_is_not_there_and_no_network_are_one_sentence(
    stand_in: Path, saved: Path, pocket: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SavedRunError, match="ada/nothing.*404 Client Error"):
        PromptClassifier.from_pretrained("ada/nothing")
    monkeypatch.setattr(hub, "hub_reachable", lambda: False)
    with pytest.raises(SavedRunError, match="reached"):
        PromptClassifier.from_pretrained("ada/scenes")
    with pytest.raises(SavedRunError, match="ada/x.*reached"):
        PromptClassifier.from_pretrained(saved, pocket).push_to_hub("ada/x")


def test_a_push_that_fails_says_why(
    stand_in: Path, saved: Path, pocket: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise huggingface_hub.errors.HFValidationError("401 Unauthorized")

    classifier = PromptClassifier.from_pretrained(saved, pocket)
    for name in ("nobody", "../up", "ada/größe"):
        with pytest.raises(ConfigError, match=repr(name)):
            classifier.push_to_hub(name)
    monkeypatch.setattr(huggingface_hub, "create_repo", refuse)
    with pytest.raises(SavedRunError, match="401 Unauthorized.*hf auth login"):
        classifier.push_to_hub("ada/scenes")


@pytest.fixture
def shared_with_a_folder(
    stand_in: Path, saved: Path, tmp_path: Path, pocket: Backbone, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Returns a folder with weights that the run ada/scenes on the hub names as its backbone."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "fetched"))
    weights = Path(shutil.copytree(Path(loading.__file__).parent / "pocket", tmp_path / "clip"))
    shutil.copytree(saved, stand_in / "ada/scenes")
    file = stand_in / "ada/scenes/config.json"
    config = json.loads(file.read_text())
    config["backbone"] |= {"name": str(weights), "weights_sha256": pocket.weights_sha256}
    file.write_text(json.dumps(config))
    return weights


@pytest.mark.parametrize("by_name", [True, False])
def test_a_run_from_the_hub_does_not_choose_a_folder_of_this_machine(
    shared_with_a_folder: Path, by_name: bool
) -> None:
    location = "ada/scenes" if by_name else find_run("ada/scenes")
    with pytest.raises(BackboneError, match=r"comes from the hub .* --backbone"):
        PromptClassifier.from_pretrained(location)
    with pytest.raises(BackboneError, match=r"comes from the hub .* --backbone"):
        load_run(Path(location))
    loaded = PromptClassifier.from_pretrained(location, str(shared_with_a_folder))
    assert loaded.learner_.backbone.name == str(shared_with_a_folder)


def test_a_folder_that_is_named_like_a_model_on_the_hub_is_not_taken_for_it(
    shared_with_a_folder: Path, stand_in: Path, tmp_path: Path
) -> None:
    file = stand_in / "ada/scenes/config.json"
    file.write_text(file.read_text().replace(str(shared_with_a_folder), "openai/clip"))
    (tmp_path / "openai").mkdir()
    shared_with_a_folder.rename(tmp_path / "openai" / "clip")
    with pytest.raises(BackboneError, match=r"names the folder 'openai/clip'"):
        PromptClassifier.from_pretrained("ada/scenes")
