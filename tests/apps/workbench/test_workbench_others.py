"""Images that are not those a prompt was learnt from, prompts of before, and images twice."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ipl.apps.workbench import rendering as shown
from ipl.apps.workbench.session import Session
from ipl.apps.workbench.settings import WorkbenchSettings
from ipl.apps.workbench.workbench import Workbench
from ipl.support.errors import DataError
from tests.helpers.workbench import learnt, wait_for

LONG = WorkbenchSettings("coop", words=1, shots=3, epochs=500, seed=1)
Dropped = Callable[..., list[Path]]


def test_a_prompt_of_other_images_is_marked(session: Session, dropped: Dropped) -> None:
    learnt(session)
    before = session.image_classes
    assert shown.OTHERS not in shown.outcome(session)
    session.add_class("lake", dropped("lake", 3))
    assert shown.OTHERS in shown.outcome(session)
    session.image_classes = before
    assert shown.OTHERS not in shown.outcome(session)


def test_a_word_weighed_on_other_images_has_no_recorded_gain(
    session: Session, dropped: Dropped
) -> None:
    learnt(session)
    word = session.classifier.words_[1]  # type: ignore[union-attr]
    assert session.weigh(word, 3, 1).same
    assert not session.weigh(word, 1, 1).same  # other shots are other images
    session.add_class("lake", dropped("lake", 3))
    found = session.weigh(word, 3, 1)
    assert not found.same
    told = shown.weighed(found, True)
    assert "are not those that the words of this prompt were chosen from" in told
    assert "word of this prompt: its gain" not in told
    assert f"After {found.steps[-1].after[0]}, “{word}” would" in told


def test_after_a_cancelled_fit_the_earlier_prompt_is_there(session: Session) -> None:
    learnt(session)
    before = shown.outcome(session)
    fit = session.learn(LONG)
    wait_for(lambda: fit.watcher.progress.epochs, fit)
    session.cancel()
    fit.join(30)
    told = "Cancelled. The prompt that was learnt before is still the one in use."
    assert told in shown.status(session)
    assert shown.outcome(session) == before


def test_a_saved_prompt_is_named(session: Session, dropped: Dropped) -> None:
    learnt(session)
    bench = Workbench(session.bench.backbone, session.classifier, opened="runs/<first>")
    other = bench.open("someone")
    assert "The saved prompt runs/&lt;first&gt; was opened" in shown.status(other)
    assert shown.OTHERS not in shown.outcome(other)
    other.add_class("lake", dropped("lake", 3))
    assert shown.OTHERS in shown.outcome(other)
    bench.end()


def test_what_was_wrong_with_other_images_is_forgotten(session: Session) -> None:
    for file in (session.folder / "images").rglob("*.png"):
        file.write_bytes(b"no image any more")
    fit = session.learn(LONG)
    fit.join(30)
    assert fit.state == "failed"
    assert "no readable training image" in shown.status(session)
    session.remove_class("beach")
    assert "Nothing has been learnt here yet." in shown.status(session)


def test_the_same_image_counts_once_in_a_class(
    session: Session, dropped: Dropped, tmp_path: Path
) -> None:
    first, second = dropped("lake", 2)
    copy = tmp_path / "copy.png"
    copy.write_bytes(first.read_bytes())
    told = session.add_class("lake", [first, copy])
    assert told == ("1 image is in this class already, and counted once.",)
    assert len(session.image_classes.classes[2].train) == 1
    session.add_class("lake", [copy, second, first])
    assert len(session.image_classes.classes[2].train) == 2
    with pytest.raises(DataError, match="nothing to add to 'lake': 2 images are in this class"):
        session.add_class("lake", [first, second])
    session.add_class("water", [first])  # another class may have it
    session.remove_class("lake")
    session.add_class("lake", [first])
    assert len(session.image_classes.classes[3].train) == 1


def test_many_classes_are_listed_in_short(session: Session, scenes_folder: Path) -> None:
    session.use_folder(str(scenes_folder))
    found = shown.classes(session)
    assert found.count("<img") == shown.FIRST * shown.THUMBS
    assert "<summary>16 more classes</summary>" in found
    assert found.count("<b>") == 20


def test_the_card_of_a_download_says_what_was_not_trained_on(session: Session) -> None:
    learnt(session)
    session.add_name("windmill")
    with zipfile.ZipFile(session.download()) as packed:
        card = packed.read("images-coop-2w-seed1/README.md").decode()
    assert "Not trained on: windmill." in card


def test_a_class_has_to_be_chosen_before_it_goes(session: Session) -> None:
    with pytest.raises(DataError, match="choose the one to take away"):
        session.remove_class(None)
    learnt(session)
    with pytest.raises(DataError, match="choose the one to leave out"):
        session.remove_name(None)
