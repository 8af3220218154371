"""`ipl select DATA`: which words a prompt would get, and how that is known. Nothing is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from ipl.cli import options as common
from ipl.cli.options import as_number, out, own_pool, print_json, stopping
from ipl.support.errors import ConfigError


def select(
    data: Path = common.DATA,
    backbone: str = common.BACKBONE,
    words: str = typer.Option("3", help="Words to choose, k."),
    shots: int = common.SHOTS,
    lambda_: float = common.LAMBDA,
    preset: str = common.PRESET,
    word_embedding: str = common.WORD_EMBEDDING,
    template: str = common.TEMPLATE,
    search: str = common.SEARCH,
    shortlist: int = common.SHORTLIST,
    recall: bool = typer.Option(
        False, "--recall", help="With --search screen: say how often it listed the true winner."
    ),
    memory: float = common.MEMORY,
    words_file: Path | None = common.WORDS_FILE,
    no_names: bool = common.NO_NAMES,
    workers: int = typer.Option(
        0, "--workers", help="Spread the pool over so many Ray workers (0: search here)."
    ),
    address: str | None = typer.Option(
        None, help="With --workers: the Ray cluster to join (default: one is started here)."
    ),
    seed: int = typer.Option(1, help="Draws the shots."),
    device: str = common.DEVICE,
    precision: str = common.PRECISION,
    no_cache: bool = common.NO_CACHE,
    strict: bool = common.STRICT,
    quiet: bool = common.QUIET,
    as_json: bool = common.JSON,
) -> None:
    """Choose words for a few images per class and show what each brings; train nothing."""
    from ipl.backbone.loading import load_backbone
    from ipl.datasets.readers import read_dataset
    from ipl.support.progress import Reporter
    from ipl.words.modes import Search, Start
    from ipl.words.select import select_words
    from ipl.words.tables import selection_report

    reporter = Reporter(quiet=quiet)
    how = Search(search, shortlist, recall)
    k = as_number(words)
    if not isinstance(k, int):
        raise ConfigError(f"words is {words!r}; it must be a whole number (auto is for ipl fit).")
    start: Start = Search.start
    if workers:
        from ipl.bench.engines.ray_search import spread_over_ray

        start = spread_over_ray(workers, address, device)
    kept = "nothing was kept" if no_cache else "words that were finished, if any, are in the cache"
    with stopping(lambda: f"{kept}."):
        dataset = read_dataset(data, strict)
        clip = load_backbone(backbone, device, precision)
        found = select_words(
            dataset,
            k,
            backbone=clip,
            shots=shots,
            lambda_=lambda_,
            preset=preset,
            word_embedding=word_embedding,
            template=template,
            search=how,
            memory=memory,
            pool=own_pool(words_file, no_names, clip.tokenizer, reporter),
            seed=seed,
            cache=not no_cache,
            strict=strict,
            reporter=reporter,
            start=start,
        )
    if as_json:
        asked: dict[str, Any] = {"data": str(data), "backbone": backbone}
        asked |= {"shots": shots, "seed": seed}
        asked["notes"] = reporter.warnings
        asked["classes"] = list(dataset.class_names)
        print_json({**asked, **found.as_dict()})
    else:
        out().print(selection_report(found))
