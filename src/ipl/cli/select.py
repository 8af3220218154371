"""`ipl select DATA`: which words a prompt would get, and how that is known. Nothing is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from ipl.cli import options as common
from ipl.cli.config_options import config_options
from ipl.cli.options import as_number, out, print_json, stopping
from ipl.config import TRAINING, settings
from ipl.support.errors import ConfigError


@config_options(setting for setting in settings() if setting.option.part != TRAINING)
def select(
    settings: dict[str, Any],
    data: Path = common.DATA,
    recall: bool = typer.Option(
        False, "--recall", help="With --search screen: say how often it listed the true winner."
    ),
    workers: int = typer.Option(
        0, "--workers", help="Spread the pool over so many Ray workers (0: search here)."
    ),
    address: str | None = typer.Option(
        None, help="With --workers: the Ray cluster to join (default: one is started here)."
    ),
    quiet: bool = common.QUIET,
    as_json: bool = common.JSON,
) -> None:
    """Choose words for a few images per class and show what each brings; train nothing."""
    from ipl.backbone.loading import load_backbone
    from ipl.classifier import select_words
    from ipl.config import FitConfig
    from ipl.datasets.readers import read_dataset
    from ipl.support.progress import Reporter
    from ipl.words.modes import Search, Start
    from ipl.words.selection import selection_report

    reporter = Reporter(quiet=quiet)
    words = as_number(settings.pop("words"))
    if not isinstance(words, int):
        raise ConfigError(f"words is {words!r}; it must be a whole number (auto is for ipl fit).")
    config = FitConfig.from_dict({**settings, "words": min(words, 1)})
    Search(config.search, config.shortlist, recall)  # says what is wrong
    start: Start = Search.start
    if workers:
        from ipl.bench.engines.ray_search import spread_over_ray

        start = spread_over_ray(workers, address, config.device)
    kept = "finished words, if any, are in the cache" if config.cache else "nothing was kept"
    with stopping(lambda: f"{kept}."):
        dataset = read_dataset(data, config.strict)
        backbone = load_backbone(config.backbone, config.device, config.precision)
        selection = select_words(
            dataset,
            words,
            **{**settings, "backbone": backbone},
            recall=recall,
            reporter=reporter,
            start=start,
        )
    if as_json:
        asked: dict[str, Any] = {"data": str(data), "backbone": config.backbone}
        asked |= {"shots": config.shots, "seed": config.seed, "notes": reporter.warnings}
        print_json({**asked, "classes": list(dataset.class_names), **selection.as_dict()})
    else:
        out().print(selection_report(selection))
