"""Tables of values as frames of pandas, which is imported only when one is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ipl.support.extras import require

if TYPE_CHECKING:
    import pandas


def make_frame(rows: Any, columns: Sequence[str], index: Any = None) -> pandas.DataFrame:
    """Returns rows as a frame; raises ConfigError, with how to install it, without pandas."""
    require("A frame", "data", "pandas")
    import pandas

    return pandas.DataFrame(rows, index, list(columns))
