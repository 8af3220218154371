"""Loggers are found by name, those of other packages too, and what is missing is said."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import ipl.loggers.logger as module
from ipl.loggers.logger import make_logger
from ipl.loggers.tensorboard import TensorBoardLogger
from ipl.loggers.wandb import WandbLogger
from ipl.support.errors import ConfigError
from tests.helpers.recording_logger import RecordingLogger


def test_names_and_targets(tmp_path: Path) -> None:
    board = make_logger(f"tensorboard:{tmp_path}/logs")
    assert isinstance(board, TensorBoardLogger)
    assert not (tmp_path / "logs").exists()  # nothing is written before a run starts
    assert make_logger("tensorboard:C:/logs").target == "C:/logs"
    project = make_logger("wandb:me/words")
    assert isinstance(project, WandbLogger)
    assert project.target == "me/words"


@pytest.mark.parametrize("text", ["", "tensorboard", "tensorboard:", ":logs"])
def test_half_a_name_is_told(text: str) -> None:
    with pytest.raises(ConfigError, match="must be NAME:TARGET, such as tensorboard:DIR"):
        make_logger(text)


def test_a_wrong_name_gets_the_right_ones() -> None:
    with pytest.raises(ConfigError, match=r"No logger is called 'tensorbord'.*'tensorboard'"):
        make_logger("tensorbord:logs")


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_a_missing_package_is_one_sentence(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=rf"needs the package {name}; .* 'ipl\[loggers\]'"):
        make_logger(f"{name}:somewhere")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("tests.helpers.recording_logger:RecordingLogger", None),
        ("tests.helpers.recording_logger:Missing", "'mine' cannot be loaded: AttributeError"),
        ("pathlib:Path", "'mine' is not a subclass of RunLogger"),
    ],
)
def test_other_packages_announce_theirs(
    value: str, says: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = EntryPoint("mine", value, module.GROUP)
    monkeypatch.setattr(module, "entry_points", lambda group: [plugin])
    if says is None:
        logger = make_logger("mine:here")
        assert isinstance(logger, RecordingLogger)
        assert logger.target == "here"
    else:
        with pytest.raises(ConfigError, match=says):
            make_logger("mine:here")
