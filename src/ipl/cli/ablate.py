"""`ipl ablate NAME`: the same grid with one setting at several levels, its table and its plot."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import typer
from typer import Argument, Option

from ipl.bench.ablation import (
    ABLATIONS,
    ablation_table,
    ablation_to_csv,
    ablation_to_values,
    plot_ablation,
    summarize_ablation,
)
from ipl.bench.data import check_data
from ipl.bench.plan import list_settings, plan_options, shared_settings
from ipl.bench.planned_runs import plan_runs
from ipl.bench.recipe import BenchRecipe, read_recipe
from ipl.bench.records import read_records
from ipl.bench.runner import RunEnvironment
from ipl.cli import shared_options as common
from ipl.cli.bench import (
    PROTOCOL_HELP,
    SOURCE,
    Text,
    carry_out,
    check_draws,
    check_machine_options,
    list_runs,
    plan_values,
    warn_of_no_effect,
)
from ipl.cli.config_options import config_options
from ipl.cli.output import command_line, console, on_interrupt, print_json
from ipl.display.table import Table, tables_to_latex, tables_to_markdown, tables_to_terminal
from ipl.loggers import check_loggers
from ipl.support.errors import ConfigError, brief, did_you_mean
from ipl.support.files import write_bytes, write_json, write_text
from ipl.support.progress import Reporter


@config_options(plan_options(), unset=True, show_defaults=False)
def ablate(
    name: str = Argument(
        metavar="NAME",
        help="penalty, k, interval, template, pool, init, shots or arms.",
    ),
    data: Path | None = common.ROOT,
    values: list[str] = Option(
        [], "--value", help="A level of the setting, or several with commas; may be repeated."
    ),
    recipe: Text = Option(None, help="A recipe's name or file (default: ablations/NAME)."),
    protocol: Text = Option(None, help=PROTOCOL_HELP),
    datasets: Text = common.DATASETS,
    source: Text = SOURCE,
    arms: Text = common.ARMS,
    draws: int | None = common.DRAWS,
    given: Path | None = common.GIVEN,
    *,
    settings: dict[str, Any],
    save_to: Path = Option(
        Path("ipl-ablation"), "--out", help="The folder of the records, tables and plots."
    ),
    jobs: int = common.JOBS,
    address: Text = common.ADDRESS,
    device: str = common.DEVICE,
    memory: float = common.MEMORY,
    no_cache: bool = common.NO_CACHE,
    log_to: list[str] = common.LOG_TO,
    retry_failed: bool = common.RETRY_FAILED,
    dry_run: bool = common.DRY_RUN,
    no_plot: bool = Option(False, "--no-plot", help="Write only the tables."),
    quiet: bool = common.QUIET,
    as_json: bool = common.JSON,
) -> None:
    """Vary one setting and keep all others; write tables and a plot to OUT/ablations."""
    changes = plan_values(protocol, datasets, source, arms, draws, settings)
    with on_interrupt(lambda: f"nothing was done yet, and {save_to} is as it was."):
        if name not in ABLATIONS:
            raise ConfigError(f"There is no ablation {name!r}.{did_you_mean(name, ABLATIONS)}")
        varied = ABLATIONS[name].setting
        check_machine_options(jobs, device, memory)
        check_loggers(log_to)
        reporter = Reporter(quiet=quiet)
        wanted = read_recipe(recipe or f"ablations/{name}")
        levels = _levels(wanted, name, varied, changes, values)
        wanted = wanted.override(changes).varying(varied, levels)
        check_draws(draws, wanted)
        planned = plan_runs(wanted.with_given(given) if given else wanted, data, save_to)
        for note in planned.notes:
            reporter.warn(note)
        check_data(planned.runs, data, planned.paths, save_to)
        warn_of_no_effect(settings, planned.runs, reporter)
    if dry_run:
        list_runs(planned.runs, save_to, as_json)
        return

    environment = RunEnvironment(
        str(data or ""), device, memory, not no_cache, paths=planned.paths, log_to=log_to
    )
    target = save_to / "ablations"
    result = carry_out(planned.runs, save_to, environment, jobs, address, retry_failed, reporter)
    records, warnings = read_records([save_to])
    for warning in warnings:
        reporter.warn(warning)
    ablation = summarize_ablation(name, planned, records)
    tables, values_to_save = [ablation_table(ablation)], ablation_to_values(ablation)
    images = {} if no_plot else plot_ablation(ablation)
    _write(target / name, tables, ablation_to_csv(ablation), values_to_save, images)
    summary = f"{result.summary}\nSaved:  {target}"
    if varied == "arms":
        summary += f"\nNext:   {command_line('table', save_to)}  (what the words are worth)"
    _show(tables, values_to_save, summary, as_json)
    if result.failed:
        raise typer.Exit(1)


def _levels(
    recipe: BenchRecipe, name: str, varied: str, settings: dict[str, Any], values: list[str]
) -> tuple[Any, ...]:
    """Returns the levels of what an ablation varies, those given or else the recipe's."""
    if varied in {key.rstrip("_") for key in settings}:
        raise ConfigError(f"{varied} is what {name} varies; give its levels with --value.")
    levels: tuple[Any, ...] = ()
    if values:
        parts = values if name == "template" else ",".join(values).split(",")
        levels = tuple(_value(part.strip()) for part in parts)
        for level in levels:
            _check_level(varied, level)
    elif recipe.vary is not None and recipe.vary[0] == varied:
        levels = recipe.vary[1]
    if not levels:
        raise ConfigError(f"{recipe.name} has no levels of {varied}; give them with --value.")
    return levels


def _check_level(varied: str, level: Any) -> None:
    """Raises ConfigError, in the words of --value, if a setting cannot have this value."""
    setting = {**{s.title: s for s in shared_settings()}, **list_settings()}.get(varied)
    if setting is not None and not setting.accepts(level):
        raise ConfigError(f"--value is {brief(level)}; {varied} must be {setting.allowed}.")


def _value(text: str) -> Any:
    """Returns the number, true or false that a text is, else the text."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def _write(
    path: Path, tables: list[Table], csv: str, values: dict[str, Any], images: dict[str, bytes]
) -> None:
    """Writes the files of an ablation; `path` is what they are called without their endings."""
    write_text(path.with_suffix(".md"), tables_to_markdown(tables))
    write_text(path.with_suffix(".tex"), tables_to_latex(tables))
    write_text(path.with_suffix(".csv"), csv)
    write_json(path.with_suffix(".json"), values)
    for kind, image in images.items():
        write_bytes(path.with_suffix(f".{kind}"), image)


def _show(tables: list[Table], values: dict[str, Any], closing: str, as_json: bool) -> None:
    if as_json:
        print_json(values)
        return
    console().print(tables_to_terminal(tables))
    console().print(closing, markup=False, soft_wrap=True)
