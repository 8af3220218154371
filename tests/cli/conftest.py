"""What the tests of the command line share: a caller, small folders of images, a fitted run."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from ipl.cli.main import main
from tests.helpers.files import contents
from tests.helpers.scenes import draw_folder
from tests.helpers.threads import on_one_thread

WORDS = ("bright", "dark", "sand", "stone", "wall", "water")
QUICK = (
    *("--shots", "2", "--epochs", "3", "--interval", "1", "--words", "1", "--views", "2"),
    *("--device", "cpu"),
)
SELECT = ("--shots", "2", "--words", "2", "--device", "cpu")
NONE_LEFT = "warning: No held-out images"


@dataclass(frozen=True)
class Result:
    """What one call of the command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Returns standard output read as one JSON value; anything beside it is an error."""
        return json.loads(self.out, parse_constant=_no_constant)

    @property
    def error(self) -> str:
        """Returns the one sentence of a refused input, having checked that it is all there is."""
        assert self.code == 2, (self.code, self.out, self.err)
        assert self.out == ""
        # Tests train on all of a few images, which is warned about before the training begins.
        lines = [line for line in self.err.strip().splitlines() if not line.startswith(NONE_LEFT)]
        assert len(lines) == 1, self.err
        assert lines[0].startswith("error: ")
        assert lines[0].endswith((".", "?")), lines[0]
        return lines[0].removeprefix("error: ")


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


def run_ipl(*arguments: object) -> Result:
    """Returns the result of `ipl ARGUMENTS...`, run in this process."""
    out, err, before = StringIO(), StringIO(), sys.argv
    sys.argv = ["ipl", *map(str, arguments)]
    code: Any = 0
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as stop:
        code = stop.code or 0
    finally:
        sys.argv = before
    return Result(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session", autouse=True)
def _load_once() -> Iterator[None]:
    """Lets all calls of this process share a loaded backbone; it is frozen."""
    import ipl.backbone.loading
    import ipl.classifier
    import ipl.cli.fit

    load = cache(ipl.backbone.loading.load_backbone)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ipl.backbone.loading, "load_backbone", load)
        patch.setattr(ipl.classifier, "load_backbone", load)
        patch.setattr(ipl.cli.fit, "load_backbone", load)
        yield


@pytest.fixture(scope="module", autouse=True)
def _small_products(one_thread: None) -> None:
    """Runs these tests on one thread."""


@pytest.fixture(scope="session")
def ipl() -> Callable[..., Result]:
    """Returns the caller: ipl("fit", folder, ...) -> Result."""
    return run_ipl


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns an empty working folder that relative paths start at."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def images(home: Path) -> Callable[..., Path]:
    """Returns a maker of small datasets: images(beach=3, castle=3)."""

    def make(counts: Mapping[str, int] | None = None, /, **more: int) -> Path:
        return draw_folder(home / "data", {**(counts or {}), **more})

    return make


@pytest.fixture(scope="session")
def words_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a short list of words to choose from."""
    path = tmp_path_factory.mktemp("lists") / "six words.txt"
    path.write_text("\n".join(WORDS) + "\n")
    return path


@pytest.fixture(scope="session")
def fit(words_file: Path) -> Callable[..., Result]:
    """Returns a quick `ipl fit`; an option given again overrides."""

    def call(data: object, *more: object) -> Result:
        return run_ipl("fit", data, *QUICK, "--words-file", words_file, "--quiet", *more)

    return call


@pytest.fixture
def refused(home: Path, fit: Callable[..., Result]) -> Callable[..., str]:
    """Returns a quick fit that must fail with one sentence and leave the folder as it was."""

    def call(data: object, *more: object) -> str:
        before = contents(home)
        message = fit(data, "--out", home / "out", *more).error
        assert contents(home) == before
        return message

    return call


@pytest.fixture(scope="session")
def _drawn_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw_folder(tmp_path_factory.mktemp("drawn"), {"beach": 3, "castle": 3, "forest": 3})


@pytest.fixture
def three_classes(_drawn_once: Path, home: Path) -> Path:
    """Returns a folder of three classes with three images each, which a test may change."""
    return Path(shutil.copytree(_drawn_once, home / "data"))


@pytest.fixture
def select(three_classes: Path, words_file: Path) -> Callable[..., Any]:
    """Returns a quick `ipl select` of two words out of six; an option given again overrides."""

    def call(*more: object) -> Any:
        return run_ipl("select", three_classes, *SELECT, "--words-file", words_file, *more)

    return call


@pytest.fixture
def found(select: Callable[..., Any]) -> Callable[..., Any]:
    """Returns what `ipl select --json` tells."""

    def call(*more: object) -> Any:
        result = select("--json", "--quiet", *more)
        assert result.code == 0, result.err
        return result.json

    return call


@pytest.fixture(scope="session")
def saved_run(tmp_path_factory: pytest.TempPathFactory, fit: Callable[..., Result]) -> Path:
    """Returns a run fitted on three classes; copy it before changing it."""
    root = tmp_path_factory.mktemp("fitted")
    data = draw_folder(root / "data", {"beach": 3, "castle": 3, "forest": 3})
    with on_one_thread():  # as the tests that fit it again
        result = fit(data, "--out", root / "run")
    assert result.code == 0, result.err
    return root / "run"


@pytest.fixture
def run(saved_run: Path, home: Path) -> Path:
    """Returns a copy of a run of one word, with its data in data/ beside it."""
    shutil.copytree(saved_run.parent / "data", home / "data")
    return Path(shutil.copytree(saved_run, home / "run"))


@pytest.fixture
def predict(ipl: Callable[..., Result], saved_run: Path) -> Callable[..., Result]:
    """Returns `ipl predict` with the saved run."""

    def call(*more: object) -> Result:
        return ipl("predict", saved_run, *more, "--device", "cpu", "--quiet")

    return call
