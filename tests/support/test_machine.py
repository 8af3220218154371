"""What a process may use of a machine, as Linux states it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipl.support import machine


@pytest.mark.parametrize(
    ("limit", "used", "expected"),
    [(None, None, 8 << 20), ("max", "5", 8 << 20), ("5000", "3000", 2000), ("5000", "6000", 0)],
)
def test_available_memory(
    tmp_path: Path,
    limit: str | None,
    used: str | None,
    expected: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paths = [tmp_path / name for name in ("meminfo", "limit", "used")]
    texts = ["MemTotal: 16384 kB\nMemAvailable:    8192 kB\n", limit, used]
    for path, text in zip(paths, texts, strict=True):
        if text is not None:
            path.write_text(text)
    monkeypatch.setattr(machine, "MEMORY", paths[0])
    monkeypatch.setattr(machine, "CONTAINER", paths[1:])
    assert machine.available_memory() == expected
    monkeypatch.setattr(machine, "MEMORY", tmp_path / "no such file")
    assert machine.available_memory() == 0
