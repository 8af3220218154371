"""What one browser can do: images in, a prompt out, classes more and fewer."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from ipl import PromptClassifier
from ipl.apps.limits import Limits
from ipl.apps.workbench import rendering as shown
from ipl.apps.workbench.image_classes import ImageClasses, named
from ipl.apps.workbench.session import Session
from ipl.apps.workbench.settings import WorkbenchSettings
from ipl.apps.workbench.workbench import Workbench
from ipl.backbone.clip import Backbone
from ipl.datasets.dataset import Dataset
from ipl.support.errors import ConfigError, DataError, IplError
from tests.helpers.workbench import QUICK, learnt

Dropped = Callable[..., list[Path]]


def test_classes_come_and_go(session: Session, dropped: Dropped) -> None:
    session.add_class(" the_lake ", dropped("lake", 2))
    assert session.image_classes.names == ("beach", "castle", "the lake")
    session.add_class("beach", dropped("beach", 5))  # more images of a class that is there
    assert [len(one.train) for one in session.image_classes.classes] == [5, 4, 2]
    dataset = session.image_classes.dataset()
    assert dataset.class_names == session.image_classes.names
    assert [item.label for item in dataset.train] == [0] * 5 + [1] * 4 + [2] * 2
    session.remove_class("castle")
    assert session.image_classes.names == ("beach", "the lake")
    with pytest.raises(DataError, match="no class 'castle' to remove"):
        session.remove_class("castle")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("", "The class has no name yet"),
        (None, "The class has no name yet"),
        ("Café", "not ASCII"),
        ("Beach", "Two classes have the same name"),
        ("x" * 101, "has 101 letters; at most 100"),
    ],
)
def test_a_name_that_cannot_be_is_said(
    name: str | None, told: str, session: Session, dropped: Dropped
) -> None:
    with pytest.raises(DataError, match=told):
        session.add_class(name, dropped("lake", 1))
    assert session.image_classes.names == ("beach", "castle")


def test_files_that_are_no_images_are_named_and_left_out(
    session: Session, dropped: Dropped, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("no image")
    (tmp_path / "gone.png").write_bytes(b"")
    told = session.add_class("lake", [*dropped("lake", 1), *sorted(tmp_path.iterdir())])
    assert told == (
        "gone.png is damaged or no image.",
        "notes.txt is damaged or no image.",
    )
    assert named(told).count("JPEG") == 1
    assert len(session.image_classes.classes[2].train) == 1
    with pytest.raises(DataError, match="nothing to add to 'forest': notes.txt is damaged or no"):
        session.add_class("forest", [tmp_path / "notes.txt"])
    with pytest.raises(DataError, match="no images of 'forest' yet"):
        session.add_class("forest", [])
    with pytest.raises(DataError, match=r"nowhere.png is no longer there; drop it again"):
        session.add_class("forest", [tmp_path / "nowhere.png"])


def test_what_is_too_large_is_refused(
    pocket: Backbone, dropped: Dropped, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Image.new("RGB", (101, 100)).save(tmp_path / "wide.png")
    bench = Workbench(pocket, limits=Limits(max_bytes=20_000, max_pixels=10_000))
    session = bench.open("someone")
    with pytest.raises(DataError, match=r"wide.png has 101 x 100 pixels; at most 10,000 are"):
        session.add_class("wide", [tmp_path / "wide.png"])
    (tmp_path / "heavy.png").write_bytes(bytes(30_000))
    with pytest.raises(DataError, match=r"heavy.png has 0.0 MB; at most 0.0191 are allowed"):
        session.add_class("heavy", [tmp_path / "heavy.png"])
    monkeypatch.setattr("ipl.apps.workbench.image_classes.MOST_IMAGES", 1)
    Image.new("RGB", (10, 10)).save(tmp_path / "small.png")
    with pytest.raises(DataError, match="No more than 1 images"):
        session.add_class("small", [tmp_path / "small.png", *dropped("lake", 1)])
    bench.end()


def test_a_folder_takes_the_place_of_other_images(
    session: Session, scenes_folder: Path, tmp_path: Path
) -> None:
    session.use_folder(f" {scenes_folder} ")
    assert len(session.image_classes.classes) == 20
    assert len(session.image_classes.dataset().test) == 80
    for path, told in ((tmp_path / "no", "No such file"), (tmp_path, "has no sub-folders")):
        with pytest.raises(DataError, match=told):
            session.use_folder(str(path))
    with pytest.raises(DataError, match="There is no folder yet"):
        session.use_folder(None)
    assert len(session.image_classes.classes) == 20


def test_folders_are_for_this_machine_alone(pocket: Backbone, scenes_folder: Path) -> None:
    bench = Workbench(pocket, browse=False)
    session = bench.open("someone")
    with pytest.raises(ConfigError, match="own machine only"):
        session.use_folder(str(scenes_folder))
    assert session.image_classes.names == ()
    bench.end()


def test_a_prompt_classifies_and_takes_classes_it_never_saw(
    session: Session, dropped: Dropped
) -> None:
    for use in (session.download, lambda: session.classify(dropped("castle", 1)[0])):
        with pytest.raises(ConfigError, match="There is no prompt yet; learn one first"):
            use()
    learnt(session)
    ranked = session.classify(dropped("castle", 1)[0])
    assert session.classifier is not None
    expected = session.classifier.predict_proba([dropped("castle", 1)[0]])[0]
    assert dict(ranked.classes) == pytest.approx(
        dict(zip(("beach", "castle"), expected, strict=True)), abs=1e-5
    )
    assert [p for _, p in ranked.classes] == sorted(expected, reverse=True)
    session.add_name("lighthouse")
    assert session.names == ("beach", "castle", "lighthouse")
    again = session.ranked()
    assert again is not None
    assert len(again.classes) == 3
    session.remove_name("beach")
    assert session.names == ("castle", "lighthouse")
    with pytest.raises(DataError, match="at least two"):
        session.remove_name("castle")
    with pytest.raises(DataError, match="no class 'beach'"):
        session.remove_name("beach")
    with pytest.raises(DataError, match="Two classes have the same name"):
        session.add_name("Castle")


def test_a_broken_image_is_named(session: Session, tmp_path: Path, dropped: Dropped) -> None:
    learnt(session)
    half = tmp_path / "half.png"
    half.write_bytes(dropped("castle", 1)[0].read_bytes()[:2000])
    with pytest.raises(DataError, match=r"half.png: the file is truncated"):
        session.classify(half)
    assert session.ranked() is None


def test_the_download_is_the_saved_form(
    session: Session, tmp_path: Path, pocket: Backbone, dropped: Dropped
) -> None:
    learnt(session)
    file = session.download()
    assert file.name == "images-coop-2w-seed1.zip"
    with zipfile.ZipFile(file) as packed:
        names = sorted(packed.namelist())
        packed.extractall(tmp_path)
    assert names == [
        f"images-coop-2w-seed1/{name}"
        for name in ("README.md", "config.json", "prompt.safetensors")
    ]
    loaded = PromptClassifier.from_pretrained(tmp_path / file.stem, pocket)
    assert session.classifier is not None
    assert loaded.prompt_ == session.classifier.prompt_
    image = dropped("castle", 1)
    assert (loaded.predict_proba(image) == session.classifier.predict_proba(image)).all()


def test_a_saved_prompt_and_data_are_there_from_the_start(
    session: Session, pocket: Backbone, scenes: Dataset
) -> None:
    learnt(session)
    bench = Workbench(pocket, session.classifier, ImageClasses.of(scenes))
    other = bench.open("someone")
    assert other.names == ("beach", "castle")
    assert other.selection == session.selection
    assert other.image_classes.dataset() == scenes
    other.add_name("lake")
    assert session.names == ("beach", "castle")
    assert "highland" not in shown.outcome(other)
    for word in session.classifier.words_:  # type: ignore[union-attr]
        assert f">{word}</th>" in shown.outcome(other)
    bench.end()


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (("coop", 7, 16, 50, 1), "words is 7; it must be a whole number from 0 to 6"),
        (("coop", 2, None, 50, 1), "shots is None; it must be a whole number from 1 to 100"),
        (("coop", 2, 16, 0, 1), "epochs is 0"),
        (("coop", 2, 16, 2.5, 1), "epochs is 2.5"),
        (("coop", 2, 16, 50, -1), "seed is -1"),
        (("coop", 3, 16, 2, 1), "epochs is 2; 3 words need 3 epochs or more"),
        (("cop", 2, 16, 50, 1), "No learner is called 'cop'. Did you mean"),
    ],
)
def test_settings_that_cannot_be_are_said(values: tuple[object, ...], told: str) -> None:
    with pytest.raises(IplError, match=told):
        WorkbenchSettings.read(*values)


def test_words_share_the_epochs_there_are() -> None:
    assert WorkbenchSettings.read("coop", 2.0, 16.0, 100.0, 1.0).interval == 10
    assert WorkbenchSettings("coop", 3, 16, 8).interval == 2
    assert WorkbenchSettings("coop", 0, 16, 1).interval == 1
    assert QUICK.interval == 3
