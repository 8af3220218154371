"""`ipl bench PROTOCOL`: a grid of runs, one record each, that can be stopped and gone on with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer
from typer import Argument, Option

from ipl.cli import options as common
from ipl.cli.output import command_line, console, on_interrupt, print_json
from ipl.support.errors import IplError

if TYPE_CHECKING:
    from ipl.bench.grid import GridResult
    from ipl.bench.run import Run
    from ipl.bench.runner import RunEnvironment
    from ipl.support.progress import Reporter

# A setting that is not given keeps the plan's default, so each is None here.
Text = str | None
Number = int | None


def bench(
    protocol: Text = Argument(None, help="base-to-novel, cross-dataset or domain."),
    data: Path = common.ROOT,
    recipe: Text = Option(
        None, help="A recipe's name or file (`ipl recipe list`); other options override it."
    ),
    datasets: Text = common.DATASETS,
    source: Text = Option(None, help="Learnt from, but in base-to-novel (default: imagenet)."),
    learners: Text = Option(None, help="Names with commas; zero-shot is one too (default: coop)."),
    words: Text = Option(None, help="Numbers with commas, and auto (default: 0,auto)."),
    seeds: Text = Option(None, help="Numbers with commas (default: 1,2,3)."),
    shots: Number = Option(None, help="Training images per class (default: 16)."),
    backbone: Text = Option(None, help=f"{common.BACKBONE_HELP} (default: pocket)"),
    precision: Text = Option(None, help="fp32, bf16 or fp16 (default: fp32)."),
    views: Text = Option(None, help="Crops per training image: a number, or fresh (default: 8)."),
    epochs: Number = Option(None, help="Epochs in all, T (default: the learner's)."),
    interval: Number = Option(None, help="Epochs after each word, t (default: the learner's)."),
    batch: Number = Option(None, help="Images in a step (default: the learner's)."),
    lr: float | None = Option(None, help="Learning rate (default: the learner's)."),
    m: Number = Option(None, "--m", help="Soft vectors in a group (default: the learner's)."),
    depth: Number = Option(None, help="Layers that get vectors (default: the learner's)."),
    lambda_: float | None = Option(None, "--lambda", help="Weight of redundancy (default: 0.1)."),
    preset: Text = Option(None, help="Redundancy: paper or reference (default: paper)."),
    word_embedding: Text = Option(None, help="Redundancy compares text or token (default: text)."),
    template: Text = Option(None, help="The sentence that scores words."),
    search: Text = Option(None, help="exact, exhaustive, screen or lazy (default: exact)."),
    shortlist: Number = Option(None, help="With --search screen: words scored (default: 1000)."),
    placeholder: Text = Option(None, help="An empty slot holds token or zero (default: token)."),
    words_file: Text = Option(None, help="Choose from your own list of words."),
    no_names: bool | None = Option(None, "--no-names", help="Leave proper names out of the pool."),
    save_to: Path = Option(Path("ipl-bench"), "--out", help="Where records go."),
    jobs: int = common.JOBS,
    engine: str = common.ENGINE,
    address: Text = common.ADDRESS,
    device: str = common.DEVICE,
    memory: float = common.MEMORY,
    no_cache: bool = common.NO_CACHE,
    profile: bool = Option(False, "--profile", help="Sample how busy the device is."),
    retry_failed: bool = common.RETRY_FAILED,
    dry_run: bool = common.DRY_RUN,
    quiet: bool = common.QUIET,
    as_json: bool = common.JSON,
) -> None:
    """Run a protocol on datasets: one run and one record for each learner, words and seed."""
    given = {
        "protocol": protocol,
        "datasets": datasets,
        "source": source,
        "learners": learners,
        "words": words,
        "seeds": seeds,
        "shots": shots,
        "backbone": backbone,
        "precision": precision,
        "views": views,
        "epochs": epochs,
        "interval": interval,
        "batch": batch,
        "lr": lr,
        "m": m,
        "depth": depth,
        "lambda_": lambda_,
        "preset": preset,
        "word_embedding": word_embedding,
        "template": template,
        "search": search,
        "shortlist": shortlist,
        "placeholder": placeholder,
        "words_file": words_file,
        "no_names": no_names,
    }
    values = {name: value for name, value in given.items() if value is not None}
    with on_interrupt(lambda: f"nothing was done yet, and {save_to} is as it was."):
        from ipl.bench.recipe import BenchRecipe, plan_runs, read_recipe
        from ipl.bench.runner import RunEnvironment
        from ipl.support.progress import Reporter

        reporter = Reporter(quiet=quiet)
        asked = (read_recipe(recipe) if recipe else BenchRecipe()).override(values)
        planned = plan_runs(asked, data, save_to)
        for note in planned.notes:
            reporter.warn(note)
    if dry_run:
        list_runs(planned.runs, save_to, as_json)
        return
    place = RunEnvironment(str(data), device, memory, not no_cache, profile)
    result = carry_out(planned.runs, save_to, place, engine, jobs, address, retry_failed, reporter)
    _tell(result, as_json)
    if result.failed:
        raise typer.Exit(1)


def carry_out(
    runs: tuple[Run, ...],
    save_to: Path,
    place: RunEnvironment,
    engine: str,
    jobs: int,
    address: str | None,
    retry_failed: bool,
    reporter: Reporter,
) -> GridResult:
    """Returns what became of the runs; stopped, it says what was done and how to go on."""
    from ipl.bench.engines import make_engine
    from ipl.bench.grid import GridResult, run_grid

    result = GridResult(save_to, runs)
    work = make_engine(engine, place, jobs, address)
    with on_interrupt(lambda: f"{result.summary} {_again(save_to)}"):
        try:
            run_grid(runs, save_to, work, retry_failed, reporter, result)
        except IplError as error:
            if not result.done:
                raise
            raise IplError(f"{error} {result.summary} {_again(save_to)}") from error
    return result


def _again(save_to: Path) -> str:
    return f"Records are kept in {save_to}; the same command goes on from there."


def list_runs(runs: tuple[Run, ...], save_to: Path, as_json: bool) -> None:
    """Prints the runs and which of them are done."""
    from ipl.bench.records import DONE, read_record, record_path
    from ipl.bench.run import titles_of

    rows = []
    for run in runs:
        record = read_record(record_path(save_to, run.id))
        rows.append({"status": record["status"] if record else "to do", **run.as_dict()})
        rows[-1]["id"] = run.id
    if as_json:
        print_json({"runs": rows})
        return
    titles = titles_of(runs)
    for row in rows:
        line = f"{row['status']:6}  {titles[row['id']]}  {row['id']}"
        console().print(line, markup=False, soft_wrap=True)
    if runs and runs[0].targets:
        console().print(f"Each is tested on {', '.join((runs[0].dataset, *runs[0].targets))}.")
    done = sum(row["status"] == DONE for row in rows)
    console().print(f"{len(runs)} runs, {done} of them done.")


def _tell(result: GridResult, as_json: bool) -> None:
    if as_json:
        print_json(result.as_dict())
        return
    console().print(result.summary)
    for name, error in result.failed.items():
        console().print(f"failed: {name}: {error}", markup=False, soft_wrap=True)
    if result.failed:
        console().print("Once the cause is removed, --retry-failed does them again.")
    console().print(f"Records:  {result.out / 'records'}", markup=False, soft_wrap=True)
    if result.before or result.done:
        console().print(
            f"Next:     {command_line('table', result.out)}", markup=False, soft_wrap=True
        )
