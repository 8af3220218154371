"""`ipl rate`, as a user calls it; what the numbers are is tested in explain/."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Ipl = Callable[..., Any]


def test_from_runs_to_ratings(ipl: Ipl, fit: Ipl, run: Path, home: Path, words_file: Path) -> None:
    assert fit("data", "--words", 0, "--out", "plain").code == 0
    write = ("rate", "run", "plain", "--words-file", words_file, "--quiet")
    assert ipl(*write).code == 0
    assert "already exists" in ipl(*write).error
    (home / "sheet.csv").unlink()
    assert "sheet.key.json already exists" in ipl(*write).error
    written = ipl(*write, "--overwrite", "--json").json
    assert (written["sheet"], written["key"]) == ("sheet.csv", "sheet.key.json")
    text = (home / "sheet.csv").read_text(encoding="utf-8")
    for name, rating in (("anna", 4), ("bo", 5)):
        (home / f"{name}.csv").write_text(text.replace(",\n", f",{rating}\n"), encoding="utf-8")
    shown = ipl("rate", "--read", "anna.csv", "bo.csv")
    assert shown.code == 0, shown.err
    assert shown.out.count("4.50") == 3
    values = ipl("rate", "--read", "anna.csv", "bo.csv", "--json").json
    assert values["means"] == dict.fromkeys(("prompt", "nearest", "random"), 4.5)
