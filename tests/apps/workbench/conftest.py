"""What the tests of the workbench share: sessions with images and with a prompt, eight words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ipl import Backbone, Pool, PromptClassifier
from ipl.apps.workbench.sessions import PromptOrigin, Session, Workbench
from tests.helpers.scenes import open_scene
from tests.helpers.workbench import learn, with_images

WORDS = ("bright", "dark", "ocean", "sand", "stone", "tower", "wall", "water")


@pytest.fixture(scope="session")
def dropped(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[Path]]:
    """Returns dropped(scene, count): images of a scene as a browser sends them."""
    root = tmp_path_factory.mktemp("dropped")

    def make(scene: str, count: int = 4) -> list[Path]:
        paths = [root / scene / f"{index}.png" for index in range(count)]
        for index, path in enumerate(paths):
            if not path.exists():
                path.parent.mkdir(exist_ok=True)
                open_scene(scene, index).save(path)
        return paths

    return make


@pytest.fixture
def workbench(pocket: Backbone) -> Iterator[Workbench]:
    """Yields a workbench whose search selects from eight words."""
    created = Workbench(pocket, pool=Pool.from_words(WORDS, "eight words"))
    yield created
    created.end()


@pytest.fixture
def session(workbench: Workbench, dropped: Callable[..., list[Path]]) -> Session:
    """Returns a session with images of two classes."""
    return with_images(workbench, "someone", dropped, "beach", "castle")


@pytest.fixture(scope="session")
def trained(pocket: Backbone, dropped: Callable[..., list[Path]]) -> PromptClassifier:
    """Returns the classifier that `learn(session)` gives; it is fitted once for all tests."""
    workbench = Workbench(pocket, pool=Pool.from_words(WORDS, "eight words"))
    session = with_images(workbench, "someone", dropped, "beach", "castle")
    learn(session)
    assert session.classifier is not None
    workbench.end()
    return session.classifier


@pytest.fixture
def fitted_session(session: Session, trained: PromptClassifier) -> Session:
    """Returns a session with images of two classes and a prompt that was learnt from them."""
    session.classifier = trained
    session.origin = PromptOrigin(session.image_classes, ())
    return session
