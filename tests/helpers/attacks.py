"""What an attack comes to."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Outcome:
    """How often an attack was made, what failed, and the most memory that a process took."""

    attack: str
    count: int = 0
    failures: list[str] = field(default_factory=list)
    peak: int = 0  # bytes
