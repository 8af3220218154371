"""Checks that the optional packages of an app are installed."""

from __future__ import annotations

from importlib.util import find_spec

from ipl.support.errors import ConfigError


def require(command: str, extra: str, *packages: str) -> None:
    """Raises ConfigError, with the command that installs it, if a package is not installed."""
    for package in packages:
        if find_spec(package) is None:
            raise ConfigError(
                f"`{command}` needs the package {package}; install it with: "
                f"pip install 'ipl[{extra}]'."
            )
