"""Optional packages: whether they are installed."""

from __future__ import annotations

from importlib.util import find_spec

from ipl.support.errors import ConfigError


def require(what: str, extra: str, *packages: str) -> None:
    """Raises ConfigError, with the command that installs it, if a package is not installed."""
    for package in packages:
        if find_spec(package) is None:
            raise ConfigError(
                f"{what} needs the package {package}; install it with: pip install 'ipl[{extra}]'."
            )
