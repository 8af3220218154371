"""`ipl select DATA`: choose words without training; `ipl select --explain WORD`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from ipl.backbone.loading import load_tokenizer
from ipl.cli import shared_options as common
from ipl.cli.config_options import config_options
from ipl.cli.output import console, echo, on_interrupt, print_json
from ipl.config import TRAINING, FitConfig, fit_settings
from ipl.datasets.readers import read_dataset
from ipl.select import select_words
from ipl.support.progress import Reporter
from ipl.training.fit import read_pool
from ipl.words.explain_word import explain_word
from ipl.words.selection import selection_report


@config_options(s for s in fit_settings() if s.part != TRAINING and s.name != "words")
def select(
    settings: dict[str, Any],
    data: Path | None = common.OPTIONAL_DATA,
    words: int = typer.Option(3, min=0, help="How many words to choose."),
    explain: list[str] = typer.Option(
        [], metavar="WORD", help="Say why a word is in the pool or not, instead; repeatable."
    ),
    quiet: bool = common.QUIET,
    as_json: bool = common.JSON,
) -> None:
    """Choose words for a few images per class and show the gain of each; nothing is trained."""
    # Nothing is trained, so the number of words need not agree with epochs and interval.
    config = FitConfig.from_dict({**settings, "words": min(words, 1)})
    reporter = Reporter(quiet=quiet)
    if explain:
        _explain(explain, config, reporter, as_json)
        return
    if data is None:
        raise typer.BadParameter("DATA is missing; give your images, or --explain WORD.")
    outcome = (
        "the search resumes when you run the same command again."
        if config.cache
        else "nothing was saved."
    )
    with on_interrupt(lambda: outcome):
        dataset = read_dataset(data)
        selection = select_words(dataset, words, reporter=reporter, **settings)
    if as_json:
        values: dict[str, Any] = {"data": str(data), "backbone": config.backbone}
        values |= {"shots": config.shots, "seed": config.seed, "notes": reporter.warnings}
        print_json({**values, "classes": list(dataset.class_names), **selection.as_dict()})
    else:
        console().print(selection_report(selection))


def _explain(words: list[str], config: FitConfig, reporter: Reporter, as_json: bool) -> None:
    tokenizer = load_tokenizer(config.backbone)
    pool = read_pool(config, tokenizer, reporter=reporter).for_tokenizer(tokenizer)
    explanations = [explain_word(word, pool, tokenizer) for word in words]
    if as_json:
        print_json({"explained": [asdict(explanation) for explanation in explanations]})
    else:
        sentences = "\n".join(explanation.sentence for explanation in explanations)
        echo(sentences)
