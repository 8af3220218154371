"""The wheel alone: built from the sdist, installed outside the repository, and used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Callable
from email.parser import Parser
from pathlib import Path

import pytest

from ipl import __version__
from tests.helpers.class_folders import write_class_folders

ROOT = Path(__file__).parents[1]
NEEDED = (  # what a user would miss first; test_contents compares all files
    "ipl/words/pool.txt",
    "ipl/words/zipf.tsv",
    "ipl/words/senses.tsv",
    "ipl/backbone/pocket/model.safetensors",
    "ipl/backbone/pocket/tokenizer.json",
    "ipl/bench/recipes/base-to-novel/coop-ipl.yaml",
    "ipl/bench/paper/base_to_novel.csv",
    "ipl/display/document.html.jinja",
    "ipl/apps/serve/docs_page.html.jinja",
    "ipl/datasets/drawn_scenes/scenes.zip",
    "ipl/saving/card.md.jinja",
    "ipl/py.typed",
)
Run = Callable[..., str]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder outside the repository."""
    return tmp_path_factory.mktemp("outside")


@pytest.fixture(scope="module")
def sdist(outside: Path) -> Path:
    """Returns the source distribution of the repository."""
    return _build(ROOT, "sdist", outside)


@pytest.fixture(scope="module")
def wheel(outside: Path, sdist: Path) -> Path:
    """Returns the wheel, built from the source distribution as an installer would."""
    with tarfile.open(sdist) as archive:
        archive.extractall(outside / "source", filter="data")
    (folder,) = (outside / "source").iterdir()
    return _build(folder, "wheel", outside)


def _build(source: Path, target: str, folder: Path) -> Path:
    """Returns the file that hatchling makes of a source folder."""
    hatchling = [sys.executable, "-m", "hatchling", "build", "-t", target]
    _run([*hatchling, "-d", str(folder / target)], source)
    (path,) = (folder / target).iterdir()
    return path


def _run(command: list[str], folder: Path, **variables: str) -> str:
    """Returns what a command prints in a folder; the repository is not on its path."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=folder, env={**environment, **variables}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def run(outside: Path, wheel: Path) -> Run:
    """Returns a runner of commands of an environment that has the wheel and its dependencies."""
    home = outside / "environment"
    venv.create(home, with_pip=False)
    python = str(home / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps"]
    _run([*pip, str(wheel)], outside)
    # The dependencies are those of the tests. A path in a .pth file brings the packages in that
    # folder, but not what .pth files in it name, such as an editable install of ipl.
    folders = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (site,) = (home / "lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text("\n".join(folders) + "\n")
    variables = {"IPL_CACHE": str(outside / "cache"), "HF_HUB_OFFLINE": "1"}

    def run(name: str, *arguments: object) -> str:
        command = [str(home / "bin" / name), *map(str, arguments)]
        return _run(command, outside, OMP_NUM_THREADS="1", **variables)

    return run


def test_contents(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        described = Parser().parsestr(archive.read(metadata).decode())
    packaged = {name for name in names if ".dist-info/" not in name}
    assert set(NEEDED) <= packaged
    source = ROOT / "src"
    files = [path for path in source.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert packaged == {
        path.relative_to(source).as_posix()
        for path in files
        if not any(part.endswith(".egg-info") for part in path.parts)
    }
    assert described["Name"] == "ipl"
    assert described["Version"] == __version__
    licences = [name for name in names if ".dist-info/licenses/" in name]
    assert len(licences) == len(described.get_all("License-File")) >= 2


def test_sdist_has_what_a_contributor_needs(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
    needed = ("pyproject.toml", "Makefile", "requirements.txt", "CONTRIBUTING.md", "CITATION.cff")
    assert {*needed, ".ci/run", "tests/test_wheel.py", "docs/guide.md"} <= names


def test_the_wheel_alone_does_everything(run: Run, outside: Path) -> None:
    where = run("python", "-c", "import ipl; print(ipl.__file__)")
    assert where.startswith(str(outside / "environment"))
    cpu = ("--device", "cpu", "--quiet")
    for part, style in (("train", "painted"), ("test", "sketch")):
        write_class_folders(outside / "images" / part, style, ("beach", "castle", "forest"))
    (outside / "words.txt").write_text("bright\ndark\nsand\nstone\nwall\nwater\n")
    words = ("--words-file", "words.txt")
    short = ("--words", "1", "--shots", "2", "--epochs", "2", "--interval", "1", "--views", "0")
    fitted = json.loads(run("ipl", "fit", "images", *words, *short, "--out", "run", "--json", *cpu))
    (word,) = fitted["words"]
    image = outside / "images" / "test" / "castle" / "0.png"
    told = json.loads(run("ipl", "predict", "run", image, "--json", *cpu))
    (prediction,) = told["predictions"]
    assert {found["name"] for found in prediction["classes"]} == {"beach", "castle", "forest"}
    run("ipl", "report", "run", "--data", "images", *words, "--resamples", "0", *cpu)
    assert f"*{word}*" in (outside / "run-report.html").read_text(encoding="utf-8")
