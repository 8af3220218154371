"""`ipl bench PROTOCOL`: a grid of runs, one record each, that can be stopped and resumed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from typer import Argument, Option

from ipl.bench.data import check_data, find_datasets
from ipl.bench.engines.local import LocalEngine
from ipl.bench.engines.ray_engine import RayEngine
from ipl.bench.grid import Engine, GridResult, run_grid
from ipl.bench.plan import plan_options
from ipl.bench.recipe import Recipe, read_recipes
from ipl.bench.records import DONE, read_record, record_path
from ipl.bench.run import Run, prompts_images, titles_of
from ipl.bench.runner import RunEnvironment
from ipl.cli import shared_options as common
from ipl.cli.config_options import config_options
from ipl.cli.output import command_line, echo, on_interrupt, print_json
from ipl.display.formatting import listed, several
from ipl.loggers import make_loggers
from ipl.support.errors import ConfigError, DataError
from ipl.support.progress import Reporter

Text = str | None
PROTOCOL_HELP = "One of base-to-novel, cross-dataset, domain, few-shot, or an installed one."
GRID, MACHINE = "What to compare", "Machine"


@config_options(plan_options(), unset=True)
def bench(
    protocol: Text = Argument(None, metavar="PROTOCOL", help=PROTOCOL_HELP),
    data: Path | None = Option(
        None, help="The folder that contains the published datasets; your own need none."
    ),
    recipe: list[str] = Option(
        [],
        help="A recipe's name or file (`ipl list recipes`; `paper` is the whole paper), "
        "repeatable; other options override it.",
    ),
    datasets: Text = Option(
        None,
        help="Published names, folders or CSV/JSONL files of your own, with commas; all stands "
        "for every published one whose test images and shots exist.",
        rich_help_panel=GRID,
    ),
    source: Text = Option(
        None,
        help="The dataset to train on (a name or a path), for protocols that have a source.",
        rich_help_panel=GRID,
    ),
    arms: Text = Option(
        None,
        help="What is compared, with commas: zero-shot, linear-probe, words-only (chosen words in "
        "a sentence), plain (the learner), empty (slots without words), random, given, words "
        "(default: zero-shot,plain,empty,random,words).",
        rich_help_panel=GRID,
    ),
    draws: int | None = Option(
        None, help="Draws of random words for each seed (default: 3).", rich_help_panel=GRID
    ),
    given: Path | None = Option(
        None,
        help="The words of the arm given: a file with a line `dataset: word, word` for each "
        "dataset.",
        rich_help_panel=GRID,
    ),
    vary: list[str] = Option(
        [],
        metavar="SETTING=A,B",
        help="Run all of it with each of these values; paper is the paper's for each dataset "
        "(lambda=0,paper). Repeat it for sentences (template=...).",
        rich_help_panel=GRID,
    ),
    *,
    settings: dict[str, Any],
    save_to: Path = Option(Path("ipl-bench"), "--out", help="The folder of the records."),
    save_prompts: bool = Option(
        False, "--save-prompts", help="Keep the trained prompts too, in OUT/prompts."
    ),
    jobs: int = Option(
        1,
        "--jobs",
        min=1,
        help="Runs at the same time; on a cluster, on each of its GPUs or nodes.",
        rich_help_panel=MACHINE,
    ),
    address: Text = Option(
        None,
        help="Run on the Ray cluster at this address: HOST:PORT, or local to start one here "
        "(default: no Ray, processes of this machine).",
        rich_help_panel=MACHINE,
    ),
    device: str = common.DEVICE,
    weights_sha256: str = Option(
        "",
        help="What the SHA-256 of the backbone's weights must be, for a copy of your own.",
        rich_help_panel=MACHINE,
    ),
    no_cache: bool = common.NO_CACHE,
    profile: bool = Option(
        False,
        "--profile",
        help="Sample the utilisation of the device.",
        rich_help_panel=MACHINE,
    ),
    log_to: list[str] = common.LOG_TO,
    retry_failed: bool = Option(False, "--retry-failed", help="Repeat runs that failed earlier."),
    dry_run: bool = Option(False, "--dry-run", help="List the runs without doing them."),
    quiet: bool = common.QUIET,
    as_json: bool = common.JSON,
) -> None:
    """Run a protocol on datasets, with one record for each learner, arm, shots and seed."""
    values: dict[str, Any] = {"protocol": protocol, "datasets": datasets, "source": source}
    values |= {"arms": arms, "draws": draws, "vary": _read_vary(vary)}
    values = {name: value for name, value in values.items() if value is not None} | settings
    with on_interrupt(lambda: f"nothing was done yet, and {save_to} is as it was."):
        make_loggers(log_to)
        reporter = Reporter(quiet=quiet)
        recipes = [one.override(values) for one in read_recipes(recipe) or [Recipe()]]
        recipes = [one.with_given(given) for one in recipes] if given else recipes
        runs, paths = _find_runs(recipes, data, save_to, reporter)
    if dry_run:
        _list_runs(runs, save_to, as_json)
        return
    environment = RunEnvironment(
        str(data or ""),
        device,
        not no_cache,
        profile,
        paths,
        log_to,
        keeps_crops=prompts_images(runs),
        prompts=str((save_to / "prompts").resolve()),
        keeps_prompts=save_prompts,
        weights_sha256=weights_sha256,
    )
    engine: Engine = LocalEngine(environment, jobs)
    if address is not None:
        engine = RayEngine(environment, jobs, address)
    result = _do(runs, save_to, engine, retry_failed, reporter)
    if log_to and result.done_earlier:
        runs_before = several(len(result.done_earlier), "run")
        reporter.warn(f"{runs_before} had been done before; what is done is not logged again.")
    _show(result, quiet, as_json)
    if result.failed:
        raise typer.Exit(1)


def _read_vary(options: Sequence[str]) -> tuple[str, tuple[str, ...]] | None:
    """The setting and the values of --vary; only sentences may contain commas."""
    if not options:
        return None
    names, values = set(), list[str]()
    for option in options:
        name, equals, text = option.partition("=")
        if not equals:
            raise ConfigError(f"vary is {option!r}; it must be SETTING=A,B, as in lambda=0,paper.")
        names.add(name.strip().replace("-", "_"))
        values += [text] if name == "template" else [part.strip() for part in text.split(",")]
    if len(names) > 1:
        raise ConfigError(f"vary has {listed(sorted(names))}; one setting can vary.")
    return names.pop(), tuple(values)


def _find_runs(
    recipes: Sequence[Recipe], data: Path | None, out: Path, reporter: Reporter
) -> tuple[tuple[Run, ...], dict[str, str]]:
    """The runs of all recipes, each once, and the paths of own data.

    Of several recipes those are left out that are not possible with the data that is there.
    """
    runs: dict[str, Run] = {}
    all_paths: dict[str, str] = {}
    told = set[str]()
    for recipe in recipes:
        try:
            plan, notes, paths = find_datasets(recipe.plan(), data)
            found = plan.runs()
            check_data(found, data, paths, out)
        except DataError as error:
            if len(recipes) == 1:
                raise
            reporter.warn(f"{error} The recipe {recipe.name} is left out.")
            continue
        for note in notes:
            if note not in told:
                told.add(note)
                reporter.warn(note)
        runs |= {run.id: run for run in found if run.id not in runs}
        all_paths |= paths
    if not runs:
        raise DataError(
            f"None of the recipes {listed([recipe.name for recipe in recipes])} can be run with "
            "this data; the warnings say what is missing for each."
        )
    return tuple(runs.values()), all_paths


def _do(
    runs: tuple[Run, ...], out: Path, engine: Engine, retry_failed: bool, reporter: Reporter
) -> GridResult:
    """Does the runs; if it is stopped, it says what was done and how to resume."""
    result = GridResult(out, runs)
    resume = f"The records are in {out}; the same command resumes from there."
    with on_interrupt(lambda: f"{result.summary} {resume}"):
        return run_grid(runs, out, engine, retry_failed, reporter, result)


def _list_runs(runs: tuple[Run, ...], save_to: Path, as_json: bool) -> None:
    """Prints the runs and which of them are done."""
    rows = []
    for run in runs:
        record = read_record(record_path(save_to, run.id))
        status = record.status if record else "to do"
        rows.append({"status": status, **run.as_values(), "id": run.id})
    if as_json:
        print_json({"runs": rows})
        return
    titles = titles_of(runs)
    for row in rows:
        line = f"{row['status']:6}  {titles[row['id']]}"
        echo(line)
    for tested in dict.fromkeys((run.dataset, *run.targets) for run in runs if run.targets):
        echo(f"Those trained on {tested[0]} are tested on {', '.join(tested)}.")
    done = sum(row["status"] == DONE for row in rows)
    echo(f"{several(len(runs), 'run')}, {done} done.")


def _show(result: GridResult, quiet: bool, as_json: bool) -> None:
    if as_json:
        print_json(result.as_dict())
        return
    echo(result.summary)
    for name, error in result.failed.items():
        if quiet or name not in result.failed_now:  # else a line has said why
            echo(f"failed: {name}: {error}")
    if result.failed:
        echo("Once the cause is removed, --retry-failed does them again.")
    echo(f"Records:  {result.out / 'records'}")
    if result.done:
        echo(f"Next:     {command_line('table', result.out)}")
