"""`ipl fit`: what is at --out is safe, whatever happens."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

Call = Callable[..., Any]
FILES = {"config.json", "prompt.safetensors", "README.md"}


def _tree(root: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in sorted(root.rglob("*"))
    }


def test_a_saved_run_is_refused_before_training(
    fit: Call, images: Call, saved_run: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = images(beach=2, castle=2)
    shutil.copytree(saved_run, home / "run")
    before = _tree(home)
    monkeypatch.setattr("ipl.backbone.loading.load_backbone", _must_not_run)
    message = fit(data, "--out", home / "run").error
    assert str(home / "run") in message
    assert "already" in message
    assert _tree(home) == before


def test_overwrite_replaces_a_saved_run(
    fit: Call, images: Call, saved_run: Path, home: Path
) -> None:
    shutil.copytree(saved_run, home / "run")
    result = fit(images(beach=2, castle=2), "--out", home / "run", "--overwrite", "--json")
    assert result.code == 0
    assert json.loads((home / "run" / "config.json").read_text())["classes"] == ["beach", "castle"]
    assert sorted(os.listdir(home)) == ["data", "run"]


def test_overwrite_keeps_what_a_user_put_beside_the_run(
    fit: Call, images: Call, saved_run: Path, home: Path
) -> None:
    shutil.copytree(saved_run, home / "run")
    (home / "run" / "my notes.txt").write_text("mine")
    result = fit(images(beach=2, castle=2), "--out", home / "run", "--overwrite")
    assert (home / "run" / "my notes.txt").read_text() == "mine", result


@pytest.mark.parametrize("overwrite", [(), ("--overwrite",)])
@pytest.mark.parametrize("kind", ["a file", "other files"])
def test_out_that_is_something_else_is_refused_before_training(
    kind: str,
    overwrite: tuple[str, ...],
    fit: Call,
    images: Call,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = images(beach=2, castle=2)
    if kind == "a file":
        (home / "out").write_text("mine")
    else:
        (home / "out").mkdir()
        (home / "out" / "thesis.txt").write_text("mine")
    before = _tree(home)
    monkeypatch.setattr("ipl.backbone.loading.load_backbone", _must_not_run)
    assert str(home / "out") in fit(data, "--out", home / "out", *overwrite).error
    assert _tree(home) == before


def test_out_below_a_file_is_refused_before_training(
    images: Call, refused: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = images(beach=2, castle=2)
    monkeypatch.setattr("ipl.backbone.loading.load_backbone", _must_not_run)
    assert "0.png" in refused(data, "--out", data / "beach" / "0.png" / "run")


def test_out_that_cannot_be_written_is_refused_before_training(
    images: Call, refused: Call, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = images(beach=2, castle=2)
    (home / "locked").mkdir()
    monkeypatch.setattr("ipl.backbone.loading.load_backbone", _must_not_run)
    real = os.access  # root may write anywhere, so the answer is given here
    monkeypatch.setattr(
        os, "access", lambda p, mode, **k: "locked" not in str(p) and real(p, mode, **k)
    )
    assert "locked" in refused(data, "--out", home / "locked" / "run")


def test_an_empty_folder_is_filled(fit: Call, images: Call, home: Path) -> None:
    (home / "run").mkdir()
    assert fit(images(beach=2, castle=2), "--out", home / "run").code == 0
    assert set(os.listdir(home / "run")) == FILES


def test_a_link_to_a_folder_stays_a_link(fit: Call, images: Call, home: Path) -> None:
    (home / "real").mkdir()
    (home / "link").symlink_to("real")
    assert fit(images(beach=2, castle=2), "--out", home / "link").code == 0
    assert set(os.listdir(home / "link")) == FILES
    assert sorted(os.listdir(home)) == ["data", "link", "real"]
    assert (home / "link").is_symlink()


@pytest.mark.faults
@pytest.mark.parametrize("failing", [1, 2, 3, 4, 5])
def test_a_full_disk_leaves_the_earlier_run(
    failing: int,
    fit: Call,
    images: Call,
    saved_run: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = images(beach=2, castle=2)
    shutil.copytree(saved_run, home / "run")
    before = _tree(home)
    calls, real = [0], os.replace

    def full(source: Any, target: Any, **options: Any) -> None:
        calls[0] += 1
        if calls[0] == failing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(source, target, **options)

    monkeypatch.setattr(os, "replace", full)
    result = fit(data, "--epochs", 1, "--out", home / "run", "--overwrite", "--no-cache")
    assert calls[0] >= failing
    assert "No space left on device" in result.error
    assert _tree(home) == before


@pytest.mark.faults
def test_ctrl_c_stops_with_130_and_keeps_what_was_there(
    fit: Call, images: Call, saved_run: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = images(beach=2, castle=2)
    shutil.copytree(saved_run, home / "run")
    before = _tree(home)
    monkeypatch.setattr(torch.optim.SGD, "step", lambda *_: signal.raise_signal(signal.SIGINT))
    # A background job may have been started with the signal ignored.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        result = fit(data, "--out", home / "run", "--overwrite")
    finally:
        signal.signal(signal.SIGINT, handler)
    assert result.code == 130
    assert result.out == ""
    assert "stopped" in result.err
    assert "nothing was saved" in result.err
    assert str(home / "run") in result.err
    assert "Traceback" not in result.err
    assert _tree(home) == before


@pytest.mark.parametrize("place", ["ipl.datasets.read_dataset", "ipl.saving.check_target"])
def test_ctrl_c_says_the_same_before_training(
    place: str, fit: Call, images: Call, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = images(beach=2, castle=2)
    before = _tree(home)

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(place, interrupt)
    result = fit(data, "--out", home / "run")
    assert result.code == 130
    assert "nothing was saved" in result.err
    assert _tree(home) == before


def _must_not_run(*_: Any, **__: Any) -> None:
    raise AssertionError("the backbone was loaded before --out was looked at")
