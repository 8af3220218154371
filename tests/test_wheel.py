"""The wheel is whole: built from the source distribution, installed elsewhere, and used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from tests.helpers.scenes import draw_folder

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.slow


def _run(command: list[str], folder: Path, **variables: str) -> str:
    """Returns what a command prints in a folder; the repository is not on its path."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=folder, env={**environment, **variables}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def _build(source: Path, target: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder / target)]
    _run(command, source)
    (path,) = (folder / target).iterdir()
    return path


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the wheel, built from the source distribution as an installer would."""
    outside = tmp_path_factory.mktemp("outside")
    with tarfile.open(_build(ROOT, "sdist", outside)) as archive:
        archive.extractall(outside / "source", filter="data")
    (folder,) = (outside / "source").iterdir()
    assert (folder / "tests" / "test_wheel.py").is_file()  # for people who package it
    return _build(folder, "wheel", outside)


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packaged = {name for name in archive.namelist() if ".dist-info/" not in name}
    source = ROOT / "src"
    files = (path for path in (source / "ipl").rglob("*") if path.is_file())
    assert packaged == {
        path.relative_to(source).as_posix() for path in files if path.suffix != ".pyc"
    }


def test_the_wheel_alone_fits_and_predicts(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "environment"
    venv.create(home, with_pip=False)
    python = str(home / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps"]
    _run([*pip, str(wheel)], tmp_path)
    # The dependencies are those of the tests. A path in a .pth file brings the packages in that
    # folder, but not what .pth files in it name, such as an editable install of ipl.
    folders = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (site,) = (home / "lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text("\n".join(folders) + "\n")

    def ipl(*arguments: object) -> str:
        command = [str(home / "bin" / "ipl"), *map(str, arguments), "--device", "cpu", "--quiet"]
        cache = str(tmp_path / "cache")
        return _run(command, tmp_path, IPL_CACHE=cache, HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1")

    draw_folder(tmp_path / "images" / "train", {"castle": 3, "forest": 3})
    (tmp_path / "words.txt").write_text("bright\ndark\nsand\nstone\nwall\nwater\n")
    short = ("--words", 1, "--shots", 2, "--epochs", 2, "--interval", 1, "--views", 0)
    ipl("fit", "images", "--words-file", "words.txt", *short, "--out", "run")
    image = tmp_path / "images" / "train" / "castle" / "0.png"
    (prediction,) = json.loads(ipl("predict", "run", image, "--json"))["predictions"]
    assert {found["name"] for found in prediction["classes"]} == {"castle", "forest"}
