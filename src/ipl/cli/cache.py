"""`ipl cache`: show or clear the results that are stored on disk."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

import typer
from rich.filesize import decimal

from ipl.cli.output import command_line, console, on_interrupt, print_json
from ipl.cli.shared_options import JSON
from ipl.support.cache import KINDS, Cache
from ipl.support.errors import ConfigError, did_you_mean


def cache(
    clear: bool = typer.Option(False, "--clear", help="Remove the stored results."),
    kind: str | None = typer.Option(
        None, help="With --clear: only images, words, selections or trainings (default: all)."
    ),
    as_json: bool = JSON,
) -> None:
    """Show the results that are stored on disk for later commands, or remove them."""
    if kind is not None and not clear:
        raise ConfigError("--kind says what --clear removes; it needs --clear.")
    if kind is not None and kind not in KINDS:
        raise ConfigError(f"--kind is {kind!r}.{did_you_mean(kind, KINDS)}")
    store = Cache()
    if os.path.exists(store.folder) and not os.path.isdir(store.folder):
        raise ConfigError(
            f"The cache folder {store.folder} is a file; set IPL_CACHE to another folder."
        )
    report: dict[str, Any] = {"folder": str(store.folder)}
    if clear:
        with on_interrupt(lambda: "a part of the cache was not removed."):
            count, size = store.clear(kind)
        what = "all kinds" if kind is None else kind
        report["removed"] = {"kind": kind, "entries": count, "bytes": size}
        lines = [f"Removed {_entries(count)} of {what} ({decimal(size)}) from {store.folder}."]
    else:
        usage = store.usage()
        selections = list(store.entries("selections"))
        report["kinds"] = {name: {"entries": n, "bytes": size} for name, (n, size) in usage.items()}
        report["selections"] = [
            {"key": entry.key, "bytes": entry.bytes, "facts": entry.facts} for entry in selections
        ]
        lines = [f"The cache is in {store.folder}"]
        for name, (count, size) in usage.items():
            lines.append(f"  {name:<12}{_entries(count):>16}{decimal(size):>12}")
        if selections:
            lines += ["", "Finished selections"]
            about = Counter(_selection_line(entry.facts) for entry in selections)
            lines += [f"  {line}" + f" ({n} of these)" * (n > 1) for line, n in about.items()]
        if any(count for count, _ in usage.values()):
            lines += ["", f"To remove them: {command_line('cache', '--clear')}"]
    if as_json:
        print_json(report)
    else:
        console().print("\n".join(lines), markup=False, soft_wrap=True)


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count:,} entries"


def _selection_line(facts: dict[str, Any]) -> str:
    """Returns one line about a selection, with whatever facts it has."""
    parts = [", ".join(_strings(facts.get("words"))) or "(words unknown)"]
    selection = facts.get("selection")
    if isinstance(selection, dict) and isinstance(size := selection.get("pool_size"), int):
        parts.append(f"{selection.get('search')} search in {size:,} words")
        parts[-1] += f", lambda {selection.get('lambda_')}"
    if classes := _strings(facts.get("classes")):
        examples = ", ".join(classes[:3]) + (", ..." if len(classes) > 3 else "")
        parts.append(f"{len(classes)} classes ({examples})")
        if isinstance(facts.get("images"), int):
            parts[-1] += f" in {facts['images']:,} images"
    parts += [facts[name] for name in ("backbone", "template") if isinstance(facts.get(name), str)]
    # Facts come from a file: nothing in them may break the line or control the terminal.
    return "".join(c if c.isprintable() else " " for c in "; ".join(parts))


def _strings(value: Any) -> Sequence[str]:
    return [str(item) for item in value] if isinstance(value, list) else []
