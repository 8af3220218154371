"""`ipl data`: the published datasets and your own: what is there, what is unusual."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import typer

from ipl.cli.output import console, on_interrupt, print_json
from ipl.cli.shared_options import JSON, QUIET
from ipl.config import FitConfig
from ipl.datasets.benchmarks import BENCHMARKS, DOMAIN_SETS, Benchmark, DomainSet, template_of
from ipl.datasets.check import DatasetState, check_root, has_published
from ipl.datasets.dataset import EMPTY_PART, Dataset, Item
from ipl.datasets.inspection import find_unreadable, inspect_dataset
from ipl.datasets.readers import read_dataset
from ipl.display.formatting import several
from ipl.display.table import Styled, Table
from ipl.support.progress import Reporter

STYLES = {"found": "green", "incomplete": "yellow", "missing": "dim"}
NUMBERS = ("classes", "test images")
SHOTS = int(FitConfig.shots)

app = typer.Typer(
    help="List the published datasets, check them, or check your own data.",
    no_args_is_help=True,
)


@app.command("list")
def list_(as_json: bool = JSON) -> None:
    """List the datasets that are known by name, with their sizes, templates and folders."""
    sets, groups = list(BENCHMARKS.values()), list(DOMAIN_SETS.values())
    if as_json:
        shown = [{**asdict(b), "teacher_template": b.teacher_template} for b in sets]
        print_json({"datasets": shown, "domains": [asdict(group) for group in groups]})
    else:
        console().print(_list_table(sets, groups).to_terminal())


@app.command()
def check(
    root: Path = typer.Argument(
        metavar="ROOT", help="The folder with the published datasets' folders; or your own data."
    ),
    names: list[str] | None = typer.Argument(
        None, metavar="NAME", help="Check only these published ones (default: all that are known)."
    ),
    shots: int = typer.Option(
        SHOTS,
        "--shots",
        min=1,
        help="Your own data: the images of each class that a fit will draw.",
    ),
    quiet: bool = QUIET,
    as_json: bool = JSON,
) -> None:
    """Check which datasets exist below ROOT and what is missing; or what is unusual in your data.

    Published datasets: no image is opened. The exit code is 0 if all datasets that were named are
    complete; without names, if at least one exists and all that exist are complete. Otherwise it
    is 1.

    Your own data, a folder with a sub-folder per class or a table: every image is opened. Skipped
    and unreadable files, copies, classes without held-out images and all that a fit stops at are
    counted and named. The exit code is 0 if `ipl fit` can use the data.
    """
    if not names and not has_published(root):
        _check_own_data(root, shots, quiet, as_json)
        return
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


def _check_own_data(data: Path, shots: int, quiet: bool, as_json: bool) -> None:
    """Prints what a user's own data has, and everything that is unusual about it."""
    with on_interrupt(lambda: "the check was not finished."):
        dataset = read_dataset(data, lenient=True)
        unreadable = find_unreadable(dataset, Reporter(quiet=quiet))
        dataset = inspect_dataset(dataset, shots, unreadable)
    counts = _count_images(dataset, unreadable, shots)
    if as_json:
        classes = [
            {"name": name, "train": train, "held_out": test, "unreadable": broken}
            for name, (train, test, broken) in zip(dataset.class_names, counts, strict=True)
        ]
        shown = [asdict(finding) for finding in dataset.findings]
        print_json({"data": str(data), "classes": classes, "findings": shown})
    else:
        _print_own_data(dataset, counts, shots)
    if any(finding.stops_fit for finding in dataset.findings):
        raise typer.Exit(2)


def _count_images(
    dataset: Dataset, unreadable: Collection[Item], shots: int
) -> list[tuple[int, int, int]]:
    """Returns the readable training and held-out images of each class, and the unreadable ones.

    Without a test part, images that a fit does not draw are held out.
    """
    train = Counter(item.label for item in dataset.train if item not in unreadable)
    test = Counter(item.label for item in dataset.test if item not in unreadable)
    if not _has_test_part(dataset):
        test = Counter({label: max(0, count - shots) for label, count in train.items()})
    broken = Counter(item.label for item in unreadable)
    return [(train[n], test[n], broken[n]) for n in range(len(dataset.class_names))]


def _has_test_part(dataset: Dataset) -> bool:
    """Returns whether a part of the data is held out, which may have no image."""
    return bool(dataset.test) or any(finding.kind == EMPTY_PART for finding in dataset.findings)


def _print_own_data(dataset: Dataset, counts: Sequence[tuple[int, int, int]], shots: int) -> None:
    """Prints the images of each class, and the findings."""
    findings, terminal = dataset.findings, console()
    held_out = "held-out images" if _has_test_part(dataset) else f"left by {several(shots, 'shot')}"
    columns = ["class", "training images", held_out]
    rows = [
        [name, f"{train:,}", f"{test:,}"]
        for name, (train, test, _) in zip(dataset.class_names, counts, strict=True)
    ]
    totals = [sum(column) for column in zip(*counts, strict=True)]
    rows.append(["all", f"{totals[0]:,}", f"{totals[1]:,}"])
    if totals[2]:
        columns.append("unreadable")
        for row, (_, _, broken) in zip(rows, (*counts, totals), strict=True):
            row.append(f"{broken:,}")
    terminal.print(Table(columns, rows, numbers=columns[1:]).to_terminal())
    lines = [f"- {finding.note}" for finding in findings]
    head = f"{several(len(findings), 'thing')} to know:" if findings else "Nothing unusual."
    terminal.print("\n".join(["", head, *lines]), markup=False, soft_wrap=True)


def _list_table(benchmarks: Iterable[Benchmark], groups: Iterable[DomainSet]) -> Table:
    rows = []
    for b in benchmarks:
        path = b.folder + (f"/{b.split_file}" if b.split_file else "")
        rows.append([b.name, f"{b.classes:,}", f"{b.test_images:,}", b.template, path])
    for group in groups:
        for domain, images in group.images.items():
            name = f"{group.name}/{domain}"
            rows.append([name, f"{group.classes}", f"{images:,}", template_of(name), name])
    rows.append(["scenes", "20", "480", template_of("scenes"), "(in the package)"])
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
