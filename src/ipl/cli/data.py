"""`ipl data`: the published datasets, what of them is on a disk, and unpacking archives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ipl.cli.output import console, on_interrupt, print_json
from ipl.cli.shared_options import JSON, QUIET
from ipl.display.table import Styled, Table

if TYPE_CHECKING:
    from ipl.datasets.benchmarks import Benchmark, DomainSet
    from ipl.datasets.check import DatasetState

STYLES = {"found": "green", "incomplete": "yellow", "missing": "dim"}
NUMBERS = ("classes", "test images")

app = typer.Typer(
    help="List the published datasets, check which of them are on a disk, and unpack archives.",
    no_args_is_help=True,
)


@app.command("list")
def list_(as_json: bool = JSON) -> None:
    """List the datasets that are known by name, with their sizes, templates and folders."""
    from dataclasses import asdict

    from ipl.datasets.benchmarks import BENCHMARKS, DOMAIN_SETS

    sets, groups = list(BENCHMARKS.values()), list(DOMAIN_SETS.values())
    if as_json:
        shown = [{**asdict(b), "teacher_template": b.teacher_template} for b in sets]
        print_json({"datasets": shown, "domains": [asdict(group) for group in groups]})
    else:
        console().print(_list_table(sets, groups).to_terminal())


@app.command()
def check(
    root: Path = typer.Argument(metavar="ROOT", help="The folder with the datasets' folders."),
    names: list[str] | None = typer.Argument(
        None, metavar="NAME", help="Check only these (default: all that are known)."
    ),
    as_json: bool = JSON,
) -> None:
    """Check which datasets exist below ROOT, and what is missing; no image is opened.

    The exit code is 0 if all datasets that were named are complete; without names, if at least one
    exists and all that exist are complete. Otherwise it is 1.
    """
    from ipl.datasets.check import check_root

    states = check_root(root, names or ())
    asked = states if names else [s for s in states if s.state != "missing"]
    complete = bool(asked) and all(s.state == "found" for s in asked)
    if as_json:
        shown = [state.as_dict() for state in states]
        print_json({"root": str(root), "complete": complete, "datasets": shown})
    else:
        console().print(_check_table(states).to_terminal())
    if not complete:
        raise typer.Exit(1)


@app.command()
def unpack(
    archive: Path = typer.Argument(metavar="ARCHIVE", help="zip, tar, tar.gz or tgz."),
    folder: Path = typer.Option(Path("."), "--to", help="The folder to unpack into."),
    quiet: bool = QUIET,
    as_json: bool = JSON,
) -> None:
    """Unpack a downloaded archive, completely or not at all; existing files are never replaced."""
    from ipl.datasets.archive import unpack as unpack_archive
    from ipl.support.progress import Reporter

    with on_interrupt(lambda: f"nothing was unpacked, and {folder} is as it was."):
        made = unpack_archive(archive, folder, Reporter(quiet=quiet))
    if as_json:
        print_json({"archive": str(archive), "made": [str(path) for path in made]})
    else:
        lines = "\n".join(str(path) for path in made)
        console().print(f"Unpacked {archive}:\n{lines}", markup=False, soft_wrap=True)


def _list_table(benchmarks: Iterable[Benchmark], groups: Iterable[DomainSet]) -> Table:
    from ipl.datasets.benchmarks import template_of

    rows = []
    for b in benchmarks:
        path = b.folder + (f"/{b.split_file}" if b.split_file else "")
        rows.append([b.name, f"{b.classes:,}", f"{b.test_images:,}", b.template, path])
    for group in groups:
        for domain, images in group.images.items():
            name = f"{group.name}/{domain}"
            rows.append([name, f"{group.classes}", f"{images:,}", template_of(name), name])
    rows.append(["scenes", "20", "480", template_of("scenes"), "(drawn when needed)"])
    columns = ["name", *NUMBERS, "template", "folder and split file"]
    return Table(columns, rows, numbers=NUMBERS)


def _check_table(states: Sequence[DatasetState]) -> Table:
    rows = []
    for state in states:
        problems = "; ".join(state.problems)
        if state.state != "found":
            problems += f"; available from {state.home}"
        rows.append(
            [
                state.name,
                _of(state.classes, state.classes_published),
                _of(state.test_images, state.test_images_published),
                Styled(state.state, STYLES[state.state]),
                problems,
            ]
        )
    return Table(["name", *NUMBERS, "state", "what is missing"], rows, numbers=NUMBERS)


def _of(found: int | None, published: int) -> str:
    if found is None:
        return ""
    return f"{found:,}" if found == published else f"{found:,} of {published:,}"
