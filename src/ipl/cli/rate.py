"""`ipl rate RUNS...`: people rate how relevant the words of saved prompts are."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ipl.cli import shared_options as common
from ipl.cli.output import command_line, console, on_interrupt, print_json
from ipl.support.errors import ConfigError, DataError

if TYPE_CHECKING:
    from ipl.explain.ratings.make_study import StudySettings
    from ipl.support.progress import Reporter


def rate(
    runs: list[Path] = typer.Argument(
        metavar="RUN...", help="Folders that `ipl fit` saved; or one study, to continue it."
    ),
    data: list[Path] | None = typer.Option(
        None, "--data", help="The data of the runs: one for all, or given once for each."
    ),
    save_to: Path | None = typer.Option(
        None, "--out", help="The folder of the study (default: RUN-ratings beside the first run)."
    ),
    plain: Path | None = typer.Option(
        None, "--plain", help="A saved run of the learner without words (default: it is trained)."
    ),
    results: bool = typer.Option(
        False, "--results", help="Serve nothing; summarize the ratings so far."
    ),
    host: str = common.HOST,
    port: int = typer.Option(8001, min=0, max=65535, help="Port; 0 takes a free one."),
    allow_host: list[str] | None = common.ALLOW_HOST,
    words_file: Path | None = typer.Option(
        None, "--words-file", help="The list of words that a run chose from, if it had its own."
    ),
    backbone: str | None = common.MOVED_BACKBONE,
    device: str = common.DEVICE,
    no_cache: bool = common.NO_CACHE,
    strict: bool = common.STRICT,
    quiet: bool = common.QUIET,
    as_json: bool = common.JSON,
) -> None:
    """Serve a page for blind ratings of words from 1 to 5; Ctrl-C ends it and prints results."""
    from ipl.explain.ratings.make_study import StudySettings
    from ipl.support.progress import Reporter

    reporter = Reporter(quiet=quiet)
    folder, exists = find_study(runs, save_to)
    if results:
        if not exists:
            raise DataError(f"There is no study at {folder} yet.")
    else:
        settings = StudySettings(plain, words_file, backbone, device, not no_cache, strict)
        names = [host, *(allow_host or ())]
        runs_to_rate = [] if exists else runs
        serve_study(folder, runs_to_rate, data or [], settings, host, port, names, reporter)
    summarize(folder, as_json, reporter)


def find_study(paths: list[Path], save_to: Path | None) -> tuple[Path, bool]:
    """Returns the folder of the study, given itself or by its runs, and whether it exists."""
    from ipl.explain.ratings.make_study import read_runs
    from ipl.explain.ratings.study import (
        FILE,
        check_study_target,
        default_study,
        fingerprint,
        is_study,
        read_study,
    )
    from ipl.saving.run_folder import CONFIG
    from ipl.support.files import is_folder

    if is_study(paths[0]):
        if len(paths) > 1 or save_to is not None:
            raise ConfigError(f"{paths[0]} is a study; give it alone, without runs and --out.")
        return paths[0], True
    if is_folder(paths[0]) and not (paths[0] / CONFIG).exists():
        raise DataError(f"{paths[0]} is neither a saved run ({CONFIG}) nor a study ({FILE}).")
    saved_runs = read_runs(paths)
    folder = save_to or default_study(paths[0])
    if not is_study(folder):
        check_study_target(folder)
        return folder, False
    studied = {run.fingerprint for run in read_study(folder).runs}
    if studied != {fingerprint(saved) for saved in saved_runs}:
        raise ConfigError(
            f"{folder} is a study of other runs, or of these before they were trained again; "
            "choose another folder with --out."
        )
    return folder, True


def serve_study(
    folder: Path,
    runs: list[Path],
    data: list[Path],
    settings: StudySettings,
    host: str,
    port: int,
    names: list[str],
    reporter: Reporter,
) -> None:
    """Serves a study until Ctrl-C or SIGTERM; with `runs` it is made first.

    `names` are further host names that requests may use for this machine.
    """
    from ipl.apps.hosts import address_of, allowed_hosts, is_loopback, listen
    from ipl.bench.claims import Claims
    from ipl.display.formatting import several
    from ipl.explain.ratings.make_study import make_study
    from ipl.explain.ratings.raters import Raters
    from ipl.explain.ratings.study import read_study, write_study
    from ipl.support.files import check_writable

    if runs and not data:
        raise ConfigError("A new study shows images: give the data of the runs with --data.")
    from ipl.apps.rate.app import LIMITS, create_rating_app
    from ipl.apps.server import run_server

    check_writable(folder)
    state = "no study was made." if runs else "nothing had been served."
    with listen(host, port) as bound, on_interrupt(lambda: state):
        if not is_loopback(bound):
            reporter.warn(
                f"{host} can be reached from other machines; there is no authentication and no "
                "TLS: anyone there can rate, under any name."
            )
        if runs:
            write_study(folder, *make_study(runs, data, settings, reporter))
            state = f"the study is in {folder}."
        study = read_study(folder)
        with Claims(folder) as claims:
            if not claims.take("study"):
                raise ConfigError(f"{folder} is being served by another process already.")
            raters = Raters(folder, study)
            hosts = allowed_hosts(bound, names)
            app = create_rating_app(folder, study, raters, hosts, reporter.warn)
            bound.listen()
            with suppress(KeyboardInterrupt):  # one that comes before the server takes signals
                what = f"{len(study.items)} words of {several(len(study.runs), 'run')}"
                reporter.say(
                    f"{what} can be rated at {address_of(bound)} (Ctrl-C ends it and sums up)."
                )
                run_server(app, bound, LIMITS)


def summarize(folder: Path, as_json: bool, reporter: Reporter) -> None:
    """Prints the results of a study so far, and writes ratings.csv."""
    from ipl.explain.ratings.raters import Raters
    from ipl.explain.ratings.results import (
        ratings_report,
        ratings_values,
        summarize_ratings,
        write_ratings_csv,
    )
    from ipl.explain.ratings.study import read_study

    study = read_study(folder)
    raters = Raters(folder, study).every()
    results = summarize_ratings(folder.resolve().name, study, raters)
    if as_json:
        print_json(ratings_values(results))
    else:
        console().print(ratings_report(results))
    path = write_ratings_csv(folder, study, raters)
    reporter.say(f"Every rating is in {path}; continue with: {command_line('rate', folder)}")
