"""What a logger is, and how one is found by the name that --log-to gives.

A package announces its own loggers as entry points of the group `ipl.loggers`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from ipl.support.errors import ConfigError, did_you_mean

GROUP = "ipl.loggers"
BUNDLED = {
    "tensorboard": "ipl.loggers.tensorboard:TensorBoardLogger",
    "wandb": "ipl.loggers.wandb:WandbLogger",
}


class RunLogger(ABC):
    """Writes one run after the other somewhere.

    Names of numbers and texts have a part before a slash, such as `train/loss` and
    `accuracy/held_out`. A method may raise any exception: the logger is then left out with a
    warning, and the run goes on.

    Parameters
    ----------
    target : str
        What follows the colon in `--log-to NAME:TARGET`. It may be checked here (ConfigError), but
        nothing is written before a run starts.
    """

    def __init__(self, target: str) -> None:
        self.target = target

    def check(self) -> None:  # noqa: B027 (most loggers have nothing to check)
        """Raises ConfigError if nothing can be logged; a command asks before it begins."""

    @abstractmethod
    def start(self, name: str, settings: Mapping[str, Any]) -> None:
        """Begins a run.

        Parameters
        ----------
        name : str
            What the run is called; it may have been used before.
        settings : mapping
            Its settings, as plain values.
        """

    @abstractmethod
    def log_numbers(self, values: Mapping[str, float], step: int | None = None) -> None:
        """Logs numbers by name.

        Parameters
        ----------
        values : mapping
            The numbers, all with the same part before the slash.
        step : int, optional
            The epoch, or the step of the search, from 1; None for results of the whole run.
        """

    @abstractmethod
    def log_text(self, name: str, text: str, step: int | None = None) -> None:
        """Logs a text, which may be Markdown.

        Parameters
        ----------
        name : str
            Its name.
        text : str
            The text.
        step : int, optional
            As in `log_numbers`.
        """

    @abstractmethod
    def log_file(self, name: str, content: bytes) -> None:
        """Keeps a file with the run.

        Parameters
        ----------
        name : str
            The name of the file.
        content : bytes
            Its content.
        """

    @abstractmethod
    def finish(self, failed: bool = False) -> None:
        """Ends the run.

        Parameters
        ----------
        failed : bool
            Whether it ended with an error.
        """


def make_logger(text: str) -> RunLogger:
    """Returns the logger that `NAME:TARGET` stands for.

    Parameters
    ----------
    text : str
        Such as `tensorboard:DIR` or `wandb:PROJECT`.

    Returns
    -------
    RunLogger
        The logger; it has written nothing yet.

    Raises
    ------
    ConfigError
        If there is no such logger, or its package is not installed.
    """
    name, _, target = text.partition(":")
    if not name or not target:
        raise ConfigError(
            f"--log-to is {text!r}; it must be NAME:TARGET, such as tensorboard:DIR or "
            "wandb:PROJECT."
        )
    plugins = {plugin.name: plugin for plugin in entry_points(group=GROUP)}
    if name in BUNDLED:
        module, _, kind = BUNDLED[name].partition(":")
        logger = getattr(import_module(module), kind)(target)
    elif name in plugins:
        try:
            logger = plugins[name].load()(target)
        except ConfigError:
            raise
        except Exception as error:
            raise ConfigError(f"The logger {name!r} cannot be loaded: {error!r}.") from error
    else:
        raise ConfigError(
            f"No logger is called {name!r}.{did_you_mean(name, (*BUNDLED, *plugins))}"
        )
    if not isinstance(logger, RunLogger):
        raise ConfigError(f"The logger {name!r} is not a subclass of RunLogger.")
    return logger


def check_loggers(texts: Sequence[str]) -> None:
    """Raises ConfigError if one of the loggers cannot be made, or can log nothing."""
    for text in texts:
        make_logger(text).check()
