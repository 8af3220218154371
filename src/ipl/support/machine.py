"""What of this machine a process may use: its cores and its memory."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

MEMORY = Path("/proc/meminfo")
# The limit of a container and what it uses of it, as the two versions of Linux's cgroups name them.
CONTAINERS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ),
)


def cores() -> int:
    """Returns how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def available_memory() -> int:
    """Returns the bytes that processes can still take, or 0 if the system does not say."""
    available = 0
    with suppress(OSError, ValueError):
        for line in MEMORY.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                available = 1024 * int(line.split()[1])
    for limit, used in CONTAINERS:
        with suppress(OSError, ValueError):  # no such file, or "max"
            available = min(available, int(limit.read_text()) - int(used.read_text()))
    return max(0, available)
