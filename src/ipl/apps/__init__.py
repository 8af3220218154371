"""Programs that listen: the web service, the rating page, the workbench, and what they share."""

from importlib.util import find_spec

from ipl.support.errors import ConfigError


def require(what: str, extra: str, *packages: str) -> None:
    """Raises ConfigError, with the command that installs it, unless all packages are installed."""
    for package in packages:
        if find_spec(package) is None:
            raise ConfigError(
                f"{what} needs the package {package}; install it with: pip install 'ipl[{extra}]'."
            )
