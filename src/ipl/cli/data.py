"""`ipl data`: what is there and what is unusual in datasets; the pool of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from ipl.backbone.loading import load_tokenizer
from ipl.cli.output import console, echo, on_interrupt, print_json
from ipl.cli.shared_options import BACKBONE_HELP, JSON, QUIET
from ipl.datasets.completeness import DatasetState, check_root, has_published
from ipl.datasets.dataset import Dataset, Item
from ipl.datasets.fewshot import hold_out
from ipl.datasets.inspection import find_unreadable, inspect_dataset
from ipl.datasets.readers import read_dataset
from ipl.display.table import Styled, Table
from ipl.support.errors import ConfigError
from ipl.support.progress import Reporter
from ipl.words.pool import PARTS, Pool
from ipl.words.rebuild import raw_words_from_nltk, rebuild_pool

STYLES = {"found": "green", "incomplete": "yellow", "missing": "dim"}
NUMBERS = ("classes", "test images")

app = typer.Typer(
    help="Check the published datasets or your own data, or show and rebuild the pool of words.",
    no_args_is_help=True,
)


@app.command()
def check(
    root: Path = typer.Argument(
        metavar="ROOT", help="The folder with the published datasets' folders; or your own data."
    ),
    names: list[str] | None = typer.Argument(
        None, metavar="NAME", help="Check only these published ones (default: all that are known)."
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
        _check_own_data(root, quiet, as_json)
        return
    states = check_root(root, names or ())
    asked = states if names else [s for s in states if s.state != "missing"]
    complete = bool(asked) and all(s.state == "found" for s in asked)
    if as_json:
        shown = [asdict(state) for state in states]
        print_json({"root": str(root), "complete": complete, "datasets": shown})
    else:
        console().print(_check_table(states).to_terminal())
    if not complete:
        raise typer.Exit(1)


@app.command()
def pool(
    rebuild: bool = typer.Option(
        False, "--rebuild", help="Rebuild it from NLTK's data (needs nltk and wordfreq)."
    ),
    words_file: Path | None = typer.Option(
        None, help="Your own list, a word per line, instead of the bundled pool."
    ),
    part: str = typer.Option("all", "--part", help=f"The words to show: {', '.join(PARTS)}."),
    backbone: str = typer.Option("pocket", help="Whose tokenizer decides: " + BACKBONE_HELP),
    show: bool = typer.Option(False, "--list", help="Print the words, and nothing else."),
    quiet: bool = QUIET,
    as_json: bool = JSON,
) -> None:
    """Show, list or rebuild the pool of words that the search chooses from."""
    if rebuild and words_file is not None:
        raise ConfigError("--rebuild and --words-file cannot be used together.")
    if part not in PARTS:
        raise ConfigError(f"part is {part!r}; it must be one of {', '.join(PARTS)}.")
    tokenizer, words = load_tokenizer(backbone), Pool.bundled()
    values, lines = dict[str, Any](), list[str]()
    if rebuild:
        raw = raw_words_from_nltk()
        with Reporter(quiet=quiet).task("Filtering words", len(raw)) as advance:
            words, funnel = rebuild_pool(raw, tokenizer, advance)
        ours, bundled = set(words.words), set(Pool.bundled().words)
        new, gone = sorted(ours - bundled), sorted(bundled - ours)
        values |= {"funnel": funnel, "new": new, "gone": gone}
        lines += [f"{stage:>12}  {count:>7,}" for stage, count in funnel.items()]
        lines.append(f"Compared with the bundled pool: {len(new)} new, {len(gone)} gone.")
    elif words_file is not None:
        words, dropped = Pool.from_file(words_file, tokenizer)
        values["dropped"] = dropped
        lines += [f"{word!r} is left out: it is {why}." for word, why in dropped.items()]
    words = words.for_tokenizer(tokenizer).part(part)
    values |= {"words": len(words), "sha256": words.sha256, "source": words.source}
    lines.append(f"{len(words):,} words ({words.source}), SHA-256 {words.sha256}")
    if show:
        values["list"] = list(words.words)
        lines = list(words.words)  # nothing else, so that the list can be piped
    if as_json:
        print_json(values)
    else:
        echo("\n".join(lines))


def _check_own_data(data: Path, quiet: bool, as_json: bool) -> None:
    """Prints what a user's own data has, and everything that is unusual about it."""
    reporter = Reporter(quiet=quiet)
    with on_interrupt(lambda: "the check was not finished."):
        dataset = read_dataset(data, lenient=True)
        if not dataset.test:
            dataset = hold_out(dataset, reporter=reporter)  # as a fit does
        unreadable = find_unreadable(dataset, reporter)
        dataset = inspect_dataset(dataset, unreadable)
    findings, classes = dataset.findings, _count_images(dataset, unreadable)
    if as_json:
        shown = [{**asdict(finding), "note": finding.note} for finding in findings]
        print_json({"data": str(data), "classes": classes, "findings": shown})
    else:
        numbers = ["train", "held_out", "unreadable"]
        total = {"name": "all"} | {key: sum(row[key] for row in classes) for key in numbers}
        columns = ["class", "training images", "held-out images", "unreadable"]
        rows = [[row["name"], *(f"{row[key]:,}" for key in numbers)] for row in (*classes, total)]
        console().print(Table(columns, rows, numbers=columns[1:]).to_terminal())
        stop = " ipl fit cannot use the data."
        lines = [f"- {each.note}{stop if each.stops_fit else ''}" for each in findings]
        lines = ["", f"{len(lines)} to know:" if lines else "Nothing unusual.", *lines]
        echo("\n".join(lines))
    if any(finding.stops_fit for finding in findings):
        raise typer.Exit(2)


def _count_images(dataset: Dataset, unreadable: Collection[Item]) -> list[dict[str, Any]]:
    """The readable training and held-out images of each class, and the unreadable ones."""
    train = Counter(item.label for item in dataset.train if item not in unreadable)
    test = Counter(item.label for item in dataset.test if item not in unreadable)
    broken = Counter(item.label for item in unreadable)
    return [
        {"name": name, "train": train[n], "held_out": test[n], "unreadable": broken[n]}
        for n, name in enumerate(dataset.class_names)
    ]


def _check_table(states: Sequence[DatasetState]) -> Table:
    rows = []
    for each in states:
        problems = "; ".join(each.problems)
        if each.state != "found":
            problems += f"; available from {each.home}"
        sizes = [f"{each.classes:,}", f"{each.test_images:,}"]
        rows.append([each.name, *sizes, Styled(each.state, STYLES[each.state]), problems])
    return Table(["name", *NUMBERS, "state", "what is missing"], rows, numbers=NUMBERS)
