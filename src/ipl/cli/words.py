"""`ipl words`: show the pool that words are chosen from, or rebuild it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from ipl.backbone.loading import load_tokenizer
from ipl.cli.output import console, on_interrupt, print_json
from ipl.cli.shared_options import BACKBONE_HELP, JSON, QUIET
from ipl.support.errors import ConfigError
from ipl.support.progress import Reporter
from ipl.words.explain_word import explain_word
from ipl.words.pool import Pool
from ipl.words.rebuild import raw_words_from_nltk
from ipl.words.rebuild import rebuild as rebuild_pool


def words(
    look_up: list[str] = typer.Argument(None, metavar="WORD", help="Words to look up."),
    words_file: Path | None = typer.Option(
        None, help="Your own list, a word per line, instead of the bundled pool."
    ),
    no_names: bool = typer.Option(
        False, "--no-names", help="Leave out words that are nothing but proper names."
    ),
    rebuild: bool = typer.Option(
        False, "--rebuild", help="Rebuild the pool from NLTK data (needs nltk and wordfreq)."
    ),
    show: bool = typer.Option(False, "--list", help="Print every word."),
    save_to: Path | None = typer.Option(None, "--out", help="Write the pool to a new file."),
    backbone: str = typer.Option("pocket", help="Whose tokenizer decides: " + BACKBONE_HELP),
    quiet: bool = QUIET,
    as_json: bool = JSON,
) -> None:
    """Show the pool: its size and hash, and why a word is in it or not; or rebuild it."""
    if rebuild and words_file is not None:
        raise ConfigError("--rebuild and --words-file cannot be used together.")
    if save_to is not None and save_to.exists():
        raise ConfigError(f"{save_to} already exists; choose a new file for --out.")
    reporter = Reporter(quiet=quiet)
    tokenizer = load_tokenizer(backbone)
    report: dict[str, Any] = {}
    lines: list[str] = []
    if rebuild:
        raw = raw_words_from_nltk()
        with (
            on_interrupt(lambda: "nothing was written."),
            reporter.task("Filtering words", len(raw)) as advance,
        ):
            done = 0

            def progress(count: int) -> None:
                nonlocal done
                advance(count - done)
                done = count

            result = rebuild_pool(raw, tokenizer, progress)
        pool = result.without_names() if no_names else result.pool
        report.update(result.as_dict())
        lines += [f"{stage:>12}  {count:>7,}" for stage, count in result.funnel]
        new, gone = (len(words) for words in result.difference(Pool.bundled()))
        report["against_bundled"] = {"new": new, "gone": gone}
        lines.append(f"Compared with the bundled pool: {new} new, {gone} gone.")
    else:
        pool = Pool.bundled()
        if words_file is not None:
            pool, dropped = Pool.from_file(words_file, tokenizer)
            report["dropped"] = {drop.word: drop.reason for drop in dropped}
            lines += [f"{drop.word!r} is left out: it is {drop.reason}." for drop in dropped]
        elif backbone != "pocket":  # whose tokenizer the bundled pool is made for
            pool = pool.for_tokenizer(tokenizer)
        pool = pool.without_names() if no_names else pool
    report.update(words=len(pool), sha256=pool.sha256, source=pool.source)
    if look_up:
        explanations = [explain_word(word, pool, tokenizer) for word in look_up]
        report["look_up"] = [explanation.as_dict() for explanation in explanations]
        lines += [explanation.sentence for explanation in explanations]
    else:
        lines.append(f"{len(pool):,} words ({pool.source}), SHA-256 {pool.sha256}")
    if show:
        report["list"] = list(pool.words)
        lines = list(pool.words)  # only the words, so that the list can be piped
    if save_to is not None:
        pool.save(save_to)
        report["out"] = str(save_to)
        lines.append(f"Saved: {save_to}")
    if as_json:
        print_json(report)
    else:
        console().print("\n".join(lines), markup=False, soft_wrap=True)
