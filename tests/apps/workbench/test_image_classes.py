"""Classes of images are added and removed, and files that are not images are left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from ipl import Backbone
from ipl.apps.limits import Limits
from ipl.apps.workbench.image_classes import join_messages
from ipl.apps.workbench.sessions import Session, Workbench
from ipl.support.errors import DataError

Dropped = Callable[..., list[Path]]


def test_classes_come_and_go(session: Session, dropped: Dropped) -> None:
    session.add_class(" the_lake ", dropped("lake", 2))
    assert session.image_classes.names == ("beach", "castle", "the lake")
    session.add_class("beach", dropped("beach", 5))  # more images of a class that is there
    assert [len(each.train) for each in session.image_classes.classes] == [5, 4, 2]
    dataset = session.image_classes.dataset()
    assert dataset.class_names == session.image_classes.names
    assert [item.label for item in dataset.train] == [0] * 5 + [1] * 4 + [2] * 2
    for name, message in ((None, "no name"), ("Beach", "same name"), ("x" * 101, "101 char")):
        with pytest.raises(DataError, match=message):
            session.add_class(name, dropped("lake", 1))
    session.remove_class("castle")
    assert session.image_classes.names == ("beach", "the lake")
    with pytest.raises(DataError, match="There is no class 'castle'"):
        session.remove_class("castle")


def test_files_that_are_no_images_are_named_and_left_out(
    session: Session, dropped: Dropped, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("no image")
    (tmp_path / "gone.png").write_bytes(b"")
    messages = session.add_class("lake", [*dropped("lake", 1), *sorted(tmp_path.iterdir())])
    assert messages == (
        "gone.png: not an image.",
        "notes.txt: not an image.",
    )
    assert join_messages(messages).count("JPEG") == 1
    assert len(session.image_classes.classes[2].train) == 1
    with pytest.raises(DataError, match="nothing to add to 'forest': notes.txt: not an image"):
        session.add_class("forest", [tmp_path / "notes.txt"])
    with pytest.raises(DataError, match="no images of 'forest' yet"):
        session.add_class("forest", [])
    with pytest.raises(DataError, match=r"nowhere.png no longer exists; drop it again"):
        session.add_class("forest", [tmp_path / "nowhere.png"])


def test_what_is_too_large_is_refused(
    pocket: Backbone, dropped: Dropped, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Image.new("RGB", (101, 100)).save(tmp_path / "wide.png")
    workbench = Workbench(pocket, limits=Limits(max_bytes=20_000, max_pixels=10_000))
    session = workbench.open("someone")
    with pytest.raises(DataError, match="wide.png: the image has 101 x 100 pixels; at most 10,"):
        session.add_class("wide", [tmp_path / "wide.png"])
    (tmp_path / "heavy.png").write_bytes(bytes(30_000))
    with pytest.raises(DataError, match=r"heavy.png has 0.0 MB; at most 0.0191 MB are allowed"):
        session.add_class("heavy", [tmp_path / "heavy.png"])
    monkeypatch.setattr("ipl.apps.workbench.image_classes.MAX_IMAGES", 1)
    Image.new("RGB", (10, 10)).save(tmp_path / "small.png")
    with pytest.raises(DataError, match="At most 1 images"):
        session.add_class("small", [tmp_path / "small.png", *dropped("lake", 1)])
    workbench.end()


def test_the_same_image_counts_once_in_a_class(
    session: Session, dropped: Dropped, tmp_path: Path
) -> None:
    first, second = dropped("lake", 2)
    copy = tmp_path / "copy.png"
    copy.write_bytes(first.read_bytes())
    assert session.add_class("lake", [first, copy]) == ("1 image is already in this class.",)
    session.add_class("lake", [copy, second, first])
    assert len(session.image_classes.classes[2].train) == 2
    with pytest.raises(DataError, match="2 images are already in this class"):
        session.add_class("lake", [first, second])
    session.add_class("water", [first])  # another class may have it
    assert len(session.image_classes.classes[3].train) == 1
