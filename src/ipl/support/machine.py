"""What of this machine a process may use, and the environment of the processes it starts."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

PACKAGES = Path(__file__).parents[2]  # the folder that `ipl` was imported from
MEMORY = Path("/proc/meminfo")
# The limit of a container and what it uses of it.
CONTAINER = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current"))


def cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def available_memory() -> int:
    """The bytes that processes can still take, or 0 if the system does not say."""
    available = 0
    with suppress(OSError, ValueError):
        for line in MEMORY.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                available = 1024 * int(line.split()[1])
    with suppress(OSError, ValueError):  # no such file, or "max"
        limit, used = (int(file.read_text()) for file in CONTAINER)
        available = min(available, limit - used)
    return max(0, available)


def child_environment(**extra: str) -> dict[str, str]:
    """The environment of a process that imports the very package that is running."""
    path = os.pathsep.join(filter(None, [str(PACKAGES), os.environ.get("PYTHONPATH")]))
    # Nothing is imported that happens to lie in the working folder.
    return {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1", **extra}
