"""What is in a folder."""

from __future__ import annotations

from pathlib import Path


def contents(root: Path) -> dict[str, bytes | None]:
    """Returns every path below a folder with its bytes, hidden ones included."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in sorted(root.rglob("*"))
    }
