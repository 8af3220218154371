"""`ipl bench PROTOCOL`: a grid of runs, one record each, that can be stopped and resumed."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer
from typer import Argument, Option

from ipl.bench.arms import the_arms
from ipl.bench.data import check_data
from ipl.bench.engines.local import LocalEngine
from ipl.bench.engines.ray_engine import RayEngine
from ipl.bench.grid import Engine, GridResult, run_grid
from ipl.bench.plan import plan_options
from ipl.bench.planned_runs import plan_runs
from ipl.bench.protocols.registry import PROTOCOLS
from ipl.bench.recipe import BenchRecipe, read_recipe
from ipl.bench.records import DONE, read_record, record_path
from ipl.bench.run import Run, prompts_images, settings_without_effect, titles_of
from ipl.bench.runner import RunEnvironment
from ipl.cli import shared_options as common
from ipl.cli.config_options import config_options
from ipl.cli.output import command_line, console, on_interrupt, print_json
from ipl.config import RANDOM
from ipl.config import settings as config_settings
from ipl.config_fields import checked_value
from ipl.display.formatting import listed, several
from ipl.loggers import check_loggers
from ipl.support.errors import ConfigError, IplError
from ipl.support.progress import Reporter

Text = str | None
DEVICES = re.compile(r"auto|cpu|cuda(:\d{1,3})?|mps(:0)?")
PROTOCOL_HELP = f"One of {', '.join(PROTOCOLS)}."
SOURCE = Option(
    None, help="The dataset to train on (a name or a path), for protocols that have a source."
)


@config_options(plan_options(), unset=True)
def bench(
    protocol: Text = Argument(None, metavar="PROTOCOL", help=PROTOCOL_HELP),
    data: Path | None = common.ROOT,
    recipe: Text = Option(
        None, help="A recipe's name or file (`ipl recipe list`); other options override it."
    ),
    datasets: Text = common.DATASETS,
    source: Text = SOURCE,
    arms: Text = common.ARMS,
    draws: int | None = common.DRAWS,
    given: Path | None = common.GIVEN,
    *,
    settings: dict[str, Any],
    save_to: Path = Option(Path("ipl-bench"), "--out", help="The folder of the records."),
    jobs: int = common.JOBS,
    address: Text = common.ADDRESS,
    device: str = common.DEVICE,
    memory: float = common.MEMORY,
    no_cache: bool = common.NO_CACHE,
    profile: bool = Option(False, "--profile", help="Sample the utilisation of the device."),
    log_to: list[str] = common.LOG_TO,
    retry_failed: bool = common.RETRY_FAILED,
    dry_run: bool = common.DRY_RUN,
    quiet: bool = common.QUIET,
    as_json: bool = common.JSON,
) -> None:
    """Run a protocol on datasets, with one record for each learner, arm, shots and seed."""
    values = plan_values(protocol, datasets, source, arms, draws, settings)
    with on_interrupt(lambda: f"nothing was done yet, and {save_to} is as it was."):
        check_machine_options(jobs, device, memory)
        check_loggers(log_to)
        reporter = Reporter(quiet=quiet)
        wanted = (read_recipe(recipe) if recipe else BenchRecipe()).override(values)
        check_draws(draws, wanted)
        wanted = wanted.with_given(given) if given else wanted
        planned = plan_runs(wanted, data, save_to)
        for note in planned.notes:
            reporter.warn(note)
        check_data(planned.runs, data, planned.paths, save_to)
        warn_of_no_effect(settings, planned.runs, reporter)
    if dry_run:
        list_runs(planned.runs, save_to, as_json)
        return

    environment = RunEnvironment(
        str(data or ""), device, memory, not no_cache, profile, planned.paths, log_to
    )
    result = carry_out(planned.runs, save_to, environment, jobs, address, retry_failed, reporter)
    _show(result, as_json)
    if result.failed:
        raise typer.Exit(1)


def check_machine_options(jobs: int, device: str, memory: float) -> None:
    """Raises ConfigError if a value is not allowed, whatever this machine has."""
    if jobs < 1:
        raise ConfigError(f"jobs is {jobs}; it must be 1 or more.")
    if not DEVICES.fullmatch(device):
        raise ConfigError(f"device is {device!r}; it must be auto, cpu, cuda, cuda:1 or mps.")
    (setting,) = (setting for setting in config_settings() if setting.name == "memory")
    checked_value(setting, memory)


def plan_values(
    protocol: str | None,
    datasets: str | None,
    source: str | None,
    arms: str | None,
    draws: int | None,
    settings: dict[str, Any],
) -> dict[str, Any]:
    """Returns the values of a plan that were given on the command line."""
    given: dict[str, Any] = {"protocol": protocol, "datasets": datasets, "source": source}
    given |= {"arms": arms, "draws": draws}
    return {name: value for name, value in given.items() if value is not None} | settings


def check_draws(draws: int | None, recipe: BenchRecipe) -> None:
    """Raises ConfigError if --draws is given and no words are drawn."""
    if draws is not None and RANDOM not in recipe.plan().arms:
        raise ConfigError(
            f"--draws is {draws}, but the arm {RANDOM} is not run; add it with --arms."
        )


def warn_of_no_effect(settings: dict[str, Any], runs: tuple[Run, ...], reporter: Reporter) -> None:
    """Warns of options that were given and that none of the runs depends on."""
    flags = [str(setting.flag) for setting in settings_without_effect(settings, runs)]
    if flags:
        arms = the_arms(list(dict.fromkeys(run.arm for run in runs)))
        reporter.warn(
            f"{listed(flags)} {'has' if len(flags) == 1 else 'have'} no effect on {arms}."
        )


def carry_out(
    runs: tuple[Run, ...],
    save_to: Path,
    environment: RunEnvironment,
    jobs: int,
    address: str | None,
    retry_failed: bool,
    reporter: Reporter,
) -> GridResult:
    """Does the runs; if it is stopped, it says what was done and how to resume."""
    environment = replace(environment, keeps_crops=prompts_images(runs))
    engine: Engine = LocalEngine(environment, jobs)
    if address is not None:
        engine = RayEngine(environment, jobs, address)
    result = GridResult(save_to, runs)
    with on_interrupt(lambda: f"{result.summary} {_how_to_resume(save_to)}"):
        try:
            run_grid(runs, save_to, engine, retry_failed, reporter, result)
        except IplError as error:
            if not result.done:
                raise
            raise IplError(f"{error} {result.summary} {_how_to_resume(save_to)}") from error
    if environment.log_to and result.before:
        runs_before = several(len(result.before), "run")
        reporter.warn(f"{runs_before} had been done before; what is done is not logged again.")
    return result


def _how_to_resume(save_to: Path) -> str:
    return f"The records are in {save_to}; the same command resumes from there."


def list_runs(runs: tuple[Run, ...], save_to: Path, as_json: bool) -> None:
    """Prints the runs and which of them are done."""
    rows = []
    for run in runs:
        record = read_record(record_path(save_to, run.id))
        rows.append({"status": record.status if record else "to do", **run.as_values()})
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
    console().print(f"{several(len(runs), 'run')}, {done} done.")


def _show(result: GridResult, as_json: bool) -> None:
    if as_json:
        print_json(result.as_dict())
        return
    console().print(result.summary)
    for name, error in result.failed.items():
        if name not in result.shown:
            console().print(f"failed: {name}: {error}", markup=False, soft_wrap=True)
    if result.failed:
        console().print("Once the cause is removed, --retry-failed does them again.")
    console().print(f"Records:  {result.out / 'records'}", markup=False, soft_wrap=True)
    if result.all_done:
        console().print(
            f"Next:     {command_line('table', result.out)}", markup=False, soft_wrap=True
        )
