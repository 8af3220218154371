"""`ipl ablate NAME`: the same grid with one setting at several levels, its table and its plot."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer import Argument, Option

from ipl.bench.plan import plan_options
from ipl.cli import shared_options as common
from ipl.cli.bench import PROTOCOL_HELP, SOURCE, Text, carry_out, list_runs, plan_values
from ipl.cli.config_options import config_options
from ipl.cli.output import console, on_interrupt, print_json
from ipl.support.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from ipl.bench.ablation import Ablation
    from ipl.bench.recipe import BenchRecipe


@config_options(plan_options(), unset=True, show_defaults=False)
def ablate(
    name: str = Argument(
        metavar="NAME", help="One of penalty, k, interval, template, pool, init, shots, arms."
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
    more: list[str] = Option([], "--set", help="Another setting, as NAME=VALUE; may be repeated."),
    save_to: Path = Option(
        Path("ipl-ablation"), "--out", help="The folder of the records, tables and plots."
    ),
    jobs: int = common.JOBS,
    engine: str = common.ENGINE,
    address: Text = common.ADDRESS,
    device: str = common.DEVICE,
    memory: float = common.MEMORY,
    no_cache: bool = common.NO_CACHE,
    retry_failed: bool = common.RETRY_FAILED,
    dry_run: bool = common.DRY_RUN,
    no_plot: bool = Option(False, "--no-plot", help="Write only the tables."),
    quiet: bool = common.QUIET,
    as_json: bool = common.JSON,
) -> None:
    """Vary one setting and keep all others; write tables and a plot to OUT/ablations."""
    changes = plan_values(protocol, datasets, source, arms, draws, settings) | _settings(more)
    with on_interrupt(lambda: f"nothing was done yet, and {save_to} is as it was."):
        from ipl.bench.ablation import ABLATIONS, summarize_ablation
        from ipl.bench.recipe import plan_runs, read_recipe
        from ipl.bench.records import read_records
        from ipl.bench.runner import RunEnvironment
        from ipl.support.progress import Reporter

        if name not in ABLATIONS:
            raise ConfigError(f"There is no ablation {name!r}.{did_you_mean(name, ABLATIONS)}")
        reporter = Reporter(quiet=quiet)
        if not no_plot:
            from ipl.display.plots import check_matplotlib

            check_matplotlib()  # before hours of training
        wanted = read_recipe(recipe or f"ablations/{name}")
        wanted = _varied(wanted, name, changes, values)
        planned = plan_runs(wanted.with_given(given) if given else wanted, data, save_to)
        for note in planned.notes:
            reporter.warn(note)
    if dry_run:
        list_runs(planned.runs, save_to, as_json)
        return
    environment = RunEnvironment(str(data or ""), device, memory, not no_cache, paths=planned.paths)
    result = carry_out(
        planned.runs, save_to, environment, engine, jobs, address, retry_failed, reporter
    )
    records, warnings = read_records([save_to])
    for warning in warnings:
        reporter.warn(warning)
    ablation = summarize_ablation(name, planned, records)
    target = save_to / "ablations"
    _write(ablation, target, not no_plot)
    _show(ablation, target, result.summary, as_json)
    if result.failed:
        raise typer.Exit(1)


def _varied(
    recipe: BenchRecipe, name: str, settings: dict[str, Any], values: list[str]
) -> BenchRecipe:
    """Returns the recipe with these settings and the levels of the ablation."""
    from ipl.bench.ablation import ABLATIONS

    varied = ABLATIONS[name]
    if varied in {key.rstrip("_") for key in settings}:
        raise ConfigError(f"{varied} is what {name} varies; give its levels with --value.")
    levels: tuple[Any, ...] = ()
    if values:
        parts = values if name == "template" else ",".join(values).split(",")
        levels = tuple(_value(part.strip()) for part in parts)
    elif recipe.vary is not None and recipe.vary[0] == varied:
        levels = recipe.vary[1]
    if not levels:
        raise ConfigError(f"{recipe.name} has no levels of {varied}; give them with --value.")
    return recipe.override(settings).varying(varied, levels)


def _settings(more: list[str]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for text in more:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise ConfigError(f"--set is {text!r}; it must be NAME=VALUE.")
        settings[key] = _value(value)
    return settings


def _value(text: str) -> Any:
    """Returns the number, true or false that a text is, else the text."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def _write(ablation: Ablation, target: Path, plot: bool) -> None:
    from ipl.bench.ablation import (
        ablation_table,
        ablation_to_csv,
        ablation_to_values,
        plot_ablation,
    )
    from ipl.display.table import tables_to_latex
    from ipl.support.files import write_bytes, write_json, write_text

    table = ablation_table(ablation)
    write_text(target / f"{ablation.name}.md", table.to_markdown())
    write_text(target / f"{ablation.name}.tex", tables_to_latex([table]))
    write_text(target / f"{ablation.name}.csv", ablation_to_csv(ablation))
    write_json(target / f"{ablation.name}.json", ablation_to_values(ablation))
    if plot:
        for kind, image in plot_ablation(ablation).items():
            write_bytes(target / f"{ablation.name}.{kind}", image)


def _show(ablation: Ablation, target: Path, summary: str, as_json: bool) -> None:
    from ipl.bench.ablation import ablation_table, ablation_to_values

    if as_json:
        print_json(ablation_to_values(ablation))
        return
    console().print(ablation_table(ablation).to_terminal())
    console().print(f"{summary}\nSaved:  {target}", markup=False, soft_wrap=True)
