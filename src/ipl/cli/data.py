"""`ipl data`: list the published datasets, check which are on disk, unpack archives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.table import Table
from rich.text import Text

from ipl.cli.options import JSON, QUIET, out, print_json, stopping

if TYPE_CHECKING:
    from ipl.datasets.benchmarks import Benchmark, DomainSet
    from ipl.datasets.check import DatasetState

STYLES = {"found": "green", "incomplete": "yellow", "missing": "dim"}

app = typer.Typer(
    help="List the published datasets, check which are on disk, unpack archives.",
    no_args_is_help=True,
)


@app.command("list")
def list_(as_json: bool = JSON) -> None:
    """List the datasets that have a name, with their sizes, templates and folders."""
    from dataclasses import asdict

    from ipl.datasets.benchmarks import BENCHMARKS, DOMAIN_SETS

    benchmarks, groups = list(BENCHMARKS.values()), list(DOMAIN_SETS.values())
    if as_json:
        datasets = [{**asdict(b), "teacher_template": b.teacher_template} for b in benchmarks]
        print_json({"datasets": datasets, "domains": [asdict(group) for group in groups]})
    else:
        out().print(_list_table(benchmarks, groups))


@app.command()
def check(
    root: Path = typer.Argument(
        metavar="ROOT", help="The folder that contains the datasets' folders."
    ),
    names: list[str] | None = typer.Argument(
        None, metavar="NAME", help="Check only these (default: all known datasets)."
    ),
    as_json: bool = JSON,
) -> None:
    """Check which datasets are on disk and what is missing of them; no image is opened.

    The exit code is 0 if all named datasets are complete or, without names, if at least one
    dataset exists and all that exist are complete; otherwise 1.
    """
    from ipl.datasets.check import check_root

    states = check_root(root, names or ())
    required = states if names else [s for s in states if s.state != "missing"]
    complete = bool(required) and all(s.state == "found" for s in required)
    if as_json:
        datasets = [state.as_dict() for state in states]
        print_json({"root": str(root), "complete": complete, "datasets": datasets})
    else:
        out().print(_check_table(states))
    if not complete:
        raise typer.Exit(1)


@app.command()
def unpack(
    archive: Path = typer.Argument(metavar="ARCHIVE", help="zip, tar, tar.gz or tgz."),
    folder: Path = typer.Option(Path("."), "--to", help="The folder to unpack into."),
    quiet: bool = QUIET,
    as_json: bool = JSON,
) -> None:
    """Unpack a downloaded archive, as a whole or not at all; existing files are kept."""
    from ipl.datasets.archive import unpack as unpack_archive
    from ipl.support.progress import Reporter

    with stopping(lambda: f"nothing was unpacked, and {folder} is unchanged."):
        paths = unpack_archive(archive, folder, Reporter(quiet=quiet))
    if as_json:
        print_json({"archive": str(archive), "made": [str(path) for path in paths]})
    else:
        lines = "\n".join(str(path) for path in paths)
        out().print(f"Unpacked {archive}:\n{lines}", markup=False, soft_wrap=True)


def _list_table(benchmarks: Iterable[Benchmark], groups: Iterable[DomainSet]) -> Table:
    from ipl.datasets.benchmarks import template_of

    table = _table("name", "classes", "test images", "template", "folder and split file")
    for b in benchmarks:
        files = b.folder + (f"/{b.split_file}" if b.split_file else "")
        table.add_row(b.name, f"{b.classes:,}", f"{b.test_images:,}", b.template, files)
    for group in groups:
        for domain, images in group.images.items():
            name = f"{group.name}/{domain}"
            table.add_row(name, f"{group.classes}", f"{images:,}", template_of(name), name)
    table.add_row("scenes", "20", "480", template_of("scenes"), "(drawn when needed)")
    return table


def _check_table(states: Sequence[DatasetState]) -> Table:
    table = _table("name", "classes", "test images", "state", "what is missing")
    for state in states:
        problems = "; ".join(state.problems)
        if state.state != "found":
            problems += f"; available from {state.home}"
        table.add_row(
            state.name,
            _count(state.classes, state.classes_published),
            _count(state.test_images, state.test_images_published),
            Text(state.state, style=STYLES[state.state]),
            Text(problems),
        )
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        number = column in ("classes", "test images")
        table.add_column(column, justify="right" if number else "left", overflow="fold")
    return table


def _count(count: int | None, published: int) -> str:
    if count is None:
        return ""
    return f"{count:,}" if count == published else f"{count:,} of {published:,}"
