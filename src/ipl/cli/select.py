"""`ipl select DATA`: choose words without training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from ipl.backbone.loading import find_model, load_backbone
from ipl.bench.engines.ray_search import RaySearch
from ipl.cli import shared_options as common
from ipl.cli.config_options import config_options
from ipl.cli.output import console, on_interrupt, print_json
from ipl.config import FitConfig, settings
from ipl.config_fields import TRAINING
from ipl.datasets.readers import read_dataset
from ipl.select import select_words
from ipl.support.errors import ConfigError, brief
from ipl.support.progress import Reporter
from ipl.words.greedy import ScoreWords, score_words
from ipl.words.selection import selection_report


@config_options(s for s in settings() if s.option.part != TRAINING and s.name != "words")
def select(
    settings: dict[str, Any],
    data: Path = common.DATA,
    words: str = typer.Option(str(FitConfig.words), "--words", help="How many words to choose."),
    workers: int = typer.Option(
        0, "--workers", help="Distribute the pool over this many Ray workers (0: search here)."
    ),
    address: str | None = typer.Option(
        None, help="With --workers: the Ray cluster to join (default: one is started here)."
    ),
    quiet: bool = common.QUIET,
    as_json: bool = common.JSON,
) -> None:
    """Choose words for a few images per class and show the gain of each; nothing is trained."""
    count = _word_count(words)
    config = FitConfig.from_dict({**settings, "words": min(count, 1)})

    reporter = Reporter(quiet=quiet)
    outcome = (
        "the search resumes when you run the same command again."
        if config.cache
        else "nothing was saved."
    )
    with on_interrupt(lambda: outcome):
        dataset = read_dataset(data, config.strict)
        find_model(config.backbone)

        score: ScoreWords = score_words
        if workers:
            score = RaySearch(workers, address, config.device)
        backbone = load_backbone(config.backbone, config.device, config.precision)
        selection = select_words(
            dataset,
            count,
            **{**settings, "backbone": backbone},
            reporter=reporter,
            score=score,
        )
    if as_json:
        values: dict[str, Any] = {"data": str(data), "backbone": config.backbone}
        values |= {"shots": config.shots, "seed": config.seed, "notes": reporter.warnings}
        print_json({**values, "classes": list(dataset.class_names), **selection.as_dict()})
    else:
        console().print(selection_report(selection))


def _word_count(text: str) -> int:
    """Returns the number of words; raises ConfigError unless it is one that a fit may have too."""
    most = next(setting.option.most for setting in settings() if setting.name == "words")
    assert most is not None
    is_number = text.isascii() and text.removeprefix("-").isdigit() and len(text) < 10
    count: int | str = int(text) if is_number else text
    if isinstance(count, str) or not 0 <= count <= most:
        raise ConfigError(
            f"words is {brief(count)}; it must be a whole number from 0 to {most:,} "
            "(auto and paper are for ipl fit)."
        )
    return count
