"""Python processes that this one starts."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGES = Path(__file__).parents[2]  # the folder that `ipl` was imported from


def child_environment(**extra: str) -> dict[str, str]:
    """Returns the environment of a process that imports the very package that is running."""
    path = os.pathsep.join(filter(None, [str(PACKAGES), os.environ.get("PYTHONPATH")]))
    # Nothing is imported that happens to lie in the working folder.
    return {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1", **extra}
