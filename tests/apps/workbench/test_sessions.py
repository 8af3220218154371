"""What one browser can do with its images and its prompt, and that others do not notice."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ipl import Backbone, PromptClassifier
from ipl.apps.workbench.fit_thread import FitThread
from ipl.apps.workbench.sessions import MAX_SESSIONS, Session, Workbench
from ipl.support.errors import ConfigError, DataError
from tests.helpers.workbench import LONG

Dropped = Callable[..., list[Path]]


def test_a_folder_replaces_other_images(
    session: Session, scenes_folder: Path, tmp_path: Path
) -> None:
    session.use_folder(f" {scenes_folder} ")
    assert len(session.image_classes.classes) == 20
    assert len(session.image_classes.dataset().test) == 80
    with pytest.raises(DataError, match="has no sub-folders"):
        session.use_folder(str(tmp_path))
    session.workbench.browse = False  # the page can be opened from other machines
    with pytest.raises(ConfigError, match="own machine only"):
        session.use_folder(str(scenes_folder))
    assert len(session.image_classes.classes) == 20


def test_a_prompt_classifies_and_takes_classes_it_never_saw(
    fitted_session: Session, dropped: Dropped, tmp_path: Path
) -> None:
    half = tmp_path / "half.png"
    half.write_bytes(dropped("castle", 1)[0].read_bytes()[:2000])
    with pytest.raises(DataError, match=r"half.png: .*damaged"):
        fitted_session.classify(half)
    assert fitted_session.ranked() is None
    ranked = fitted_session.classify(dropped("castle", 1)[0])
    assert fitted_session.classifier is not None
    expected = fitted_session.classifier.predict_proba([dropped("castle", 1)[0]])[0]
    assert dict(ranked.classes) == pytest.approx(
        dict(zip(("beach", "castle"), expected, strict=True)), abs=1e-5
    )
    assert [p for _, p in ranked.classes] == sorted(expected, reverse=True)
    fitted_session.add_name("lighthouse")
    assert fitted_session.names == ("beach", "castle", "lighthouse")
    again = fitted_session.ranked()
    assert again is not None
    assert len(again.classes) == 3
    with zipfile.ZipFile(fitted_session.download()) as packed:
        card = packed.read("images-coop-2w-seed1/README.md").decode()
    assert "Not trained on: lighthouse." in card
    fitted_session.remove_name("beach")
    assert fitted_session.names == ("castle", "lighthouse")
    with pytest.raises(DataError, match="at least two"):
        fitted_session.remove_name("castle")
    with pytest.raises(DataError, match="no class 'beach'"):
        fitted_session.remove_name("beach")
    with pytest.raises(DataError, match="Two classes have the same name"):
        fitted_session.add_name("Castle")


def test_the_download_is_the_saved_form(
    fitted_session: Session, tmp_path: Path, pocket: Backbone, dropped: Dropped
) -> None:
    file = fitted_session.download()
    assert file.name == "images-coop-2w-seed1.zip"
    with zipfile.ZipFile(file) as packed:
        packed.extractall(tmp_path)
    loaded = PromptClassifier.from_pretrained(tmp_path / file.stem, pocket)
    assert fitted_session.classifier is not None
    assert loaded.prompt_ == fitted_session.classifier.prompt_
    image = dropped("castle", 1)
    assert (loaded.predict_proba(image) == fitted_session.classifier.predict_proba(image)).all()


def test_a_file_that_two_sent_stays_until_both_have_gone(
    workbench: Workbench, dropped: Dropped
) -> None:
    file = workbench.inbox / "hash" / "0.png"
    file.parent.mkdir()
    file.write_bytes(dropped("beach", 1)[0].read_bytes())
    elsewhere = dropped("beach", 1)
    for key in ("one", "two"):
        workbench.open(key)
        workbench.receive(key, [file, *elsewhere])
    workbench.close("one")
    assert file.exists()
    workbench.close("two")
    assert not file.exists()
    assert elsewhere[0].exists()  # it was not uploaded


def test_there_is_an_end_to_sessions(workbench: Workbench) -> None:
    first = workbench.open("first")
    workbench.open("second")
    workbench.session("first")  # used after the other
    for number in range(MAX_SESSIONS - 1):
        workbench.open(str(number))
    assert workbench.session("first") is first
    with pytest.raises(DataError, match="reload the page"):
        workbench.session("second")


def test_a_closed_session_leaves_no_fit_and_no_images(session: Session) -> None:
    fit = session.learn(LONG)
    assert session.folder.exists()
    session.workbench.close("someone")
    assert fit.ended
    assert not session.folder.exists()
    assert not FitThread.any_running()
