"""`ipl fit DATA`: learn a prompt from images and save it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Group
from rich.text import Text

from ipl.cli import shared_options as common
from ipl.cli.config_options import config_options
from ipl.cli.output import command_line, console, on_interrupt, print_json
from ipl.config import CHOSEN, PLAIN
from ipl.display.table import Styled, Table
from ipl.support.errors import FolderInUseError, IplError

if TYPE_CHECKING:
    from ipl.classifier import PromptClassifier
    from ipl.config import FitConfig
    from ipl.training.result import FitResult, Trial


@config_options()
def fit(
    settings: dict[str, Any],
    data: Path = common.DATA,
    save_to: Path | None = typer.Option(
        None, "--out", help="Where to save (default: ipl-runs/NAME)."
    ),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace a saved run in --out."),
    compare: bool = typer.Option(
        False,
        "--compare",
        help="Train the same prompt without words as well, and compare with it.",
    ),
    per_class: bool = typer.Option(
        False, "--per-class", help="Show every class before (zero-shot) and after, worst first."
    ),
    quiet: bool = common.QUIET,
    as_json: bool = common.JSON,
) -> None:
    """Learn a prompt from a few images per class and save it."""
    from ipl.classifier import PromptClassifier
    from ipl.config import FitConfig
    from ipl.datasets.inspection import inspect_dataset
    from ipl.datasets.readers import read_dataset
    from ipl.saving.format import check_target
    from ipl.support.files import claim_folder
    from ipl.support.progress import Reporter

    config = FitConfig.from_dict(settings)
    reporter = Reporter(quiet=quiet)
    if config.class_template != FitConfig.class_template and not _uses_class_template(config):
        reporter.warn(f"--class-template changes nothing: {config.learner} does not use it.")
    outcome = f"nothing was saved, and {save_to or 'ipl-runs'} is unchanged."
    if config.cache:
        outcome += " The fit resumes when you run the same command again."
    with on_interrupt(lambda: outcome), ExitStack() as claims:
        classifier = PromptClassifier(**config.as_dict(), reporter=reporter)
        dataset = read_dataset(data, config.strict, config.held_out)
        dataset = inspect_dataset(dataset, config.shots)
        target = save_to or _claim_free_folder(f"{dataset.name}-{_run_name(config)}", claims)
        claims.enter_context(claim_folder(target))
        check_target(target, overwrite)
        classifier.fit(dataset, compare=compare)
        try:
            classifier.save_pretrained(target, overwrite)
        except IplError as error:
            if not classifier.result_.checkpoints:
                raise
            raise IplError(
                f"{error} The training is kept in the cache: the fit resumes when you run it again."
            ) from error
    if as_json:
        print_json({"out": str(target), "notes": reporter.warnings, **classifier.as_dict()})
        return
    terminal = console()
    terminal.print(fit_report(classifier, per_class))
    terminal.print(f"Saved:  {target}", markup=False, soft_wrap=True)
    for title, command in (
        ("Next:  ", f"{command_line('predict', target)} IMAGE..."),
        ("       ", command_line("report", target, "--data", data)),
        ("       ", f"{command_line('evaluate', target)} MORE_LABELLED_IMAGES"),
    ):
        terminal.print(f"{title} {command}", markup=False, soft_wrap=True)


def fit_report(classifier: PromptClassifier, per_class: bool = False) -> Group:
    """Returns the accuracies, the words with their gains, and the prompt as a line of text."""
    from ipl.words.selection import certainty_sentences, words_table

    result, selection = classifier.result_, classifier.selection_
    train = f"Accuracy on {result.images} training images: {100 * result.train_accuracy:.1f} %"
    parts: list[Group | Text] = [*_held_out_parts(result, per_class), Text(train), Text("")]
    if len(result.trials) > 1:
        parts += [_trials_table(result.trials, len(result.words)).to_terminal(), Text("")]
    if selection is not None:
        parts += [words_table(selection).to_terminal(), Text("")] if selection.steps else []
        if sure := certainty_sentences(selection):
            parts += [Text("\n".join(sure)), Text("")]
        if not selection.certified:
            warning = f"Approximate ({selection.search}): another word may be better."
            parts += [Text(warning), Text("")]
    parts.append(Text.assemble("Prompt: ", (classifier.prompt_, "bold")))
    return Group(*parts)


def _held_out_parts(result: FitResult, per_class: bool) -> list[Group | Text]:
    """Returns the verdict, the prompt beside its baselines and, if asked for, every class."""
    from ipl.training.baselines import (
        ABOUT_INTERVALS,
        NO_IMAGES,
        class_table,
        comparison_table,
        confusion_sentence,
        offer_to_compare,
    )

    comparison = result.comparison
    if comparison is None:
        return [Text(NO_IMAGES), Text("")]
    parts: list[Group | Text] = [Text("\n".join(comparison.verdict), "bold"), Text("")]
    table = comparison_table(comparison)
    parts += [table.to_terminal(), Text(ABOUT_INTERVALS)]
    if result.seconds_to_compare is not None:
        parts.append(Text(offer_to_compare(result.seconds_to_compare)))
    parts += [Text(f"Note: {note}", "yellow") for note in comparison.notes]
    if per_class:
        table = class_table(comparison)
        parts += [Text(""), table.to_terminal()]
        parts.append(Text(confusion_sentence(comparison.confused)))
    return [*parts, Text("")]


def _trials_table(trials: Sequence[Trial], best: int) -> Table:
    """Returns a table of the numbers of words that were tried, with the best one marked."""
    numbers = ["words", "training accuracy", "loss"]
    rows: list[list[str]] = []
    for trial in trials:
        row = [str(trial.words), f"{100 * trial.accuracy:.1f} %", f"{trial.loss:.4f}"]
        if trial.words == best:
            rows.append([Styled(cell, "bold") for cell in (*row, "taken")])
        else:
            rows.append([*row, ""])
    return Table([*numbers, ""], rows, numbers=numbers)


def _uses_class_template(config: FitConfig) -> bool:
    from ipl.learners.registry import learner_class

    return learner_class(config.learner).uses_class_template


def _run_name(config: FitConfig) -> str:
    words = f"{config.words}w" if isinstance(config.words, int) else config.words
    arm = "" if config.arm in (PLAIN, CHOSEN) else f"-{config.arm}"
    return f"{config.learner}-{words}{arm}-seed{config.seed}"


def _claim_free_folder(name: str, claims: ExitStack) -> Path:
    """Returns ipl-runs/NAME, with a number appended if it exists or another process claimed it."""
    from ipl.support.files import claim_folder

    clean = "".join(c if c.isalnum() or c in "-_." else "-" for c in name)[-100:]
    for number in count(1):
        folder = Path("ipl-runs") / (clean if number == 1 else f"{clean}-{number}")
        if folder.exists():
            continue
        try:
            claims.enter_context(claim_folder(folder))
        except FolderInUseError:
            continue
        if not folder.exists():  # it may have been saved, or recovered, in the meantime
            break
    return folder
