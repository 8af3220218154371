"""Optional packages: whether they are installed, and the frames of one of them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ipl.support.errors import ConfigError

if TYPE_CHECKING:
    import pandas


def require(what: str, extra: str, *packages: str) -> None:
    """Raises ConfigError, with the command that installs it, if a package is not installed."""
    for package in packages:
        if find_spec(package) is None:
            raise ConfigError(
                f"{what} needs the package {package}; install it with: pip install 'ipl[{extra}]'."
            )


def make_frame(rows: Any, columns: Sequence[str], index: Any = None) -> pandas.DataFrame:
    """Returns rows as a frame of pandas, which is imported only here; or raises ConfigError."""
    require("A frame", "data", "pandas")
    import pandas

    return pandas.DataFrame(rows, index, list(columns))
