"""`ipl fit DATA`: learn a prompt from images and save it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import typer
from rich.console import Group
from rich.text import Text

from ipl.backbone.feature_store import FeatureStore
from ipl.backbone.loading import load_backbone
from ipl.classifier import PromptClassifier
from ipl.cli import shared_options as common
from ipl.cli.config_options import config_options
from ipl.cli.output import command_line, console, on_interrupt, print_json
from ipl.config import CHOSEN, EMPTY, PLAIN, FitConfig
from ipl.config import settings as config_settings
from ipl.config_fields import checked_value
from ipl.datasets.inspection import inspect_dataset
from ipl.datasets.readers import read_dataset
from ipl.display.formatting import listed
from ipl.display.table import Styled, Table
from ipl.learners.registry import learner_class
from ipl.loggers import check_loggers, log_run
from ipl.saving.run_folder import check_target
from ipl.support.cache import Cache
from ipl.support.errors import ConfigError, FolderInUseError, IplError
from ipl.support.files import claim_folder
from ipl.support.progress import Reporter
from ipl.training.comparison import ABOUT_INTERVALS, NO_IMAGES
from ipl.training.result import FitResult, Trial
from ipl.training.seeds import ABOUT_SEEDS, SeedSpread
from ipl.words.selection import certainty_sentences, words_table


@config_options()
def fit(
    context: typer.Context,
    settings: dict[str, Any],
    data: Path = common.DATA,
    seeds: str | None = typer.Option(
        None,
        "--seeds",
        metavar="SEED,SEED...",
        help="Fit with each of these seeds; shows how much the results differ.",
    ),
    save_to: Path | None = typer.Option(
        None, "--out", help="Where to save (default: ipl-runs/NAME; with --seeds, OUT-seed1 etc.)."
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
    log_to: list[str] = common.LOG_TO,
    quiet: bool = common.QUIET,
    as_json: bool = common.JSON,
) -> None:
    """Learn a prompt from a few images per class and save it."""
    config = FitConfig.from_dict(settings)

    check_loggers(log_to)
    if overwrite and save_to is None:
        raise ConfigError("--overwrite replaces the run in --out; say which one with --out.")
    configs = [config]
    if seeds is not None:
        source = context.get_parameter_source("seed")
        if source is not None and source.name != "DEFAULT":
            raise ConfigError("--seed and --seeds contradict each other; leave one of them out.")
        configs = [replace(config, seed=seed) for seed in read_seeds(seeds)]
    reporter = _ReporterOfSeeds(quiet=quiet)
    if config.class_template != FitConfig.class_template and not _uses_class_template(config):
        reporter.warn(f"--class-template changes nothing: {config.learner} does not use it.")
    if compare and (config.words == 0 or config.arm == EMPTY):
        reporter.warn("--compare changes nothing: the prompt has no words to leave out.")
    runs: list[tuple[Path, PromptClassifier]] = []

    def outcome() -> str:
        if runs:
            return _what_is_left([target for target, _ in runs], configs, save_to)
        unchanged = f", and {save_to} is unchanged" if save_to and save_to.exists() else ""
        again = " The fit resumes when you run the same command again." if config.cache else ""
        return f"nothing was saved{unchanged}.{again}"

    with on_interrupt(outcome), ExitStack() as claims:
        dataset = read_dataset(data, config.strict, config.held_out)
        dataset = inspect_dataset(dataset, config.shots)
        targets, renamed = [], list[str]()
        for each in configs:
            usual = _default_folder(f"{dataset.name}-{_run_name(each)}")
            target = save_to or _claim_free_folder(usual, claims)
            if save_to is None and target != usual:
                renamed.append(f"{usual} is already taken, so this run was saved as {target}.")
            if save_to and seeds is not None:
                target = _folder_of_seed(save_to, each.seed)
            claims.enter_context(claim_folder(target))
            check_target(target, overwrite)
            targets.append(target)

        backbone = load_backbone(config.backbone, config.device, config.precision)
        store = None
        if seeds is not None:  # they share the features of images
            store = FeatureStore(backbone, Cache(reporter=reporter) if config.cache else None)
        for each, target in zip(configs, targets, strict=True):
            if seeds is not None:
                reporter.say(f"Seed {each.seed} ({len(runs) + 1} of {len(configs)})")
            values = {**each.as_dict(), "backbone": backbone}
            with log_run(log_to, target.name, each.as_dict(), reporter) as log:
                classifier = PromptClassifier(**values, reporter=log)
                classifier.fit(dataset, features=store, compare=compare)
                _save(classifier, target, overwrite)
                log.log_folder(target)
            runs.append((target, classifier))
    for note in renamed:
        reporter.warn(note)
    notes = list(reporter.warnings)
    if seeds is None:
        if as_json:
            print_json({"out": str(target), "notes": notes, **classifier.as_dict()})
        else:
            _print_run(target, classifier, data, per_class)
        return

    spread = SeedSpread.of([classifier.result_ for _, classifier in runs], dataset)
    if as_json:
        values = {"notes": notes, **spread.as_dict()}
        saved = [{"out": str(target), **classifier.as_dict()} for target, classifier in runs]
        print_json({**values, "runs": saved})
    else:
        _print_seeds(spread, runs, data, per_class)


def _folder_of_seed(save_to: Path, seed: int) -> Path:
    return save_to.with_name(f"{save_to.name}-seed{seed}")


def _what_is_left(saved: Sequence[Path], configs: Sequence[FitConfig], save_to: Path | None) -> str:
    """Returns which seeds of an interrupted fit are saved, and how to go on with the others."""
    verb = "was" if len(saved) == 1 else "were"
    seeds = [config.seed for config in configs[len(saved) :]]
    options = f"--seeds {','.join(map(str, seeds))}"
    if len(seeds) == 1:
        options = f"--seed {seeds[0]}"
        if save_to is not None:
            options += f" --out {shlex.quote(str(_folder_of_seed(save_to, seeds[0])))}"
    return f"{listed([str(target) for target in saved])} {verb} saved. Go on with {options}."


def read_seeds(text: str) -> tuple[int, ...]:
    """Returns the seeds in a text with commas between them, each once.

    Raises
    ------
    ConfigError
        If one of them is not a seed, or there are fewer than two.
    """
    setting = next(setting for setting in config_settings() if setting.name == "seed")
    seeds = tuple(dict.fromkeys(checked_value(setting, part.strip()) for part in text.split(",")))
    if len(seeds) < 2:
        raise ConfigError(
            f"--seeds is {text}; give two or more different seeds, or one with --seed."
        )
    return seeds


def _save(classifier: PromptClassifier, target: Path, overwrite: bool) -> None:
    try:
        classifier.save_pretrained(target, overwrite)
    except IplError as error:
        if not classifier.result_.checkpoints:
            raise
        raise IplError(
            f"{error} The training is kept in the cache: the fit resumes when you run it again."
        ) from error


def _print_run(target: Path, classifier: PromptClassifier, data: Path, per_class: bool) -> None:
    terminal = console()
    terminal.print(fit_report(classifier, per_class))
    terminal.print(f"Saved:  {target}", markup=False, soft_wrap=True)
    held_out = classifier.result_.held_out_images  # without any, the data adds nothing to a report
    _print_next(
        f"{command_line('predict', target)} IMAGE...",
        command_line("report", target, *(("--data", data) if held_out else ())),
        f"{command_line('evaluate', target)} MORE_LABELLED_IMAGES",
    )


def _print_seeds(
    spread: SeedSpread,
    runs: Sequence[tuple[Path, PromptClassifier]],
    data: Path,
    per_class: bool,
) -> None:
    """Prints the spread over the seeds, the stable words, and the prompt of each seed."""
    terminal, results = console(), [classifier.result_ for _, classifier in runs]
    notes = [note for r in results if r.comparison is not None for note in r.comparison.notes]
    parts: list[Group | Text] = [Text("\n".join(spread.verdict), "bold"), Text("")]
    parts += [spread.table().to_terminal(), Text(ABOUT_SEEDS)]
    parts += [Text(f"Note: {note}", "yellow") for note in dict.fromkeys(notes)]
    parts += [Text(""), Text(spread.about_words)] if spread.about_words else []
    terminal.print(Group(*parts))
    for (target, classifier), seed in zip(runs, spread.seeds, strict=True):
        shown: list[Group | Text] = [Text(""), Text(f"Seed {seed}", "bold")]
        if per_class:
            shown += _class_parts(classifier.result_)
        shown.append(Text(f"Prompt: {classifier.prompt_}"))
        terminal.print(Group(*shown))
        terminal.print(f"Saved:  {target}", markup=False, soft_wrap=True)
    targets = [target for target, _ in runs]
    terminal.print()
    _print_next(
        command_line("compare", *targets, "--data", data),
        command_line("report", targets[0], "--data", data),
    )


def _print_next(*commands: str) -> None:
    for index, command in enumerate(commands):
        title = "       " if index else "Next:  "
        console().print(f"{title} {command}", markup=False, soft_wrap=True)


class _ReporterOfSeeds(Reporter):
    """Shows a warning once, although every seed gives it."""

    def warn(self, message: str) -> None:
        if message not in self.warnings:
            super().warn(message)


def fit_report(classifier: PromptClassifier, per_class: bool = False) -> Group:
    """Returns the accuracies, the words with their gains, and the prompt as a line of text."""
    result, selection = classifier.result_, classifier.selection_
    train = f"Accuracy on {result.images} training images: {100 * result.train_accuracy:.1f} %"
    parts: list[Group | Text] = [*_held_out_parts(result, per_class), Text(train), Text("")]
    if len(result.trials) > 1:
        parts += [_trials_table(result.trials, len(result.words)).to_terminal(), Text("")]
    if selection is not None:
        parts += [words_table(selection).to_terminal(), Text("")] if selection.steps else []
        sentences = [selection.how_checked] if selection.steps else []
        if sentences := sentences + certainty_sentences(selection):
            parts += [Text("\n".join(sentences)), Text("")]
    parts.append(Text.assemble("Prompt: ", (classifier.prompt_, "bold")))
    return Group(*parts)


def _held_out_parts(result: FitResult, per_class: bool) -> list[Group | Text]:
    """Returns the verdict, the prompt beside its baselines and, if asked for, every class."""
    comparison = result.comparison
    if comparison is None:
        return [Text(NO_IMAGES), Text("")]
    parts: list[Group | Text] = [Text("\n".join(comparison.verdict), "bold"), Text("")]
    parts += [comparison.table().to_terminal(), Text(ABOUT_INTERVALS)]
    if offer := result.offer_to_compare():
        parts.append(Text(offer))
    parts += [Text(f"Note: {note}", "yellow") for note in comparison.notes]
    if per_class:
        parts += [Text(""), *_class_parts(result)]
    return [*parts, Text("")]


def _class_parts(result: FitResult) -> list[Group | Text]:
    """Returns every class before and after, and the classes that are confused most often."""
    comparison = result.comparison
    if comparison is None:
        return []
    return [comparison.class_table().to_terminal(), Text(comparison.confusions)]


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
    return learner_class(config.learner).uses_class_template


def _run_name(config: FitConfig) -> str:
    words = f"{config.words}w" if isinstance(config.words, int) else config.words
    arm = "" if config.arm in (PLAIN, CHOSEN) else f"-{config.arm}"
    return f"{config.learner}-{words}{arm}-seed{config.seed}"


def _default_folder(name: str) -> Path:
    """Returns ipl-runs/NAME, with dashes for what may not be in the name of a folder."""
    clean = "".join(c if c.isalnum() or c in "-_." else "-" for c in name)[-100:]
    return Path("ipl-runs") / clean


def _claim_free_folder(usual: Path, claims: ExitStack) -> Path:
    """Returns a folder, with a number appended if it exists or another process claimed it."""
    for number in count(1):
        folder = usual if number == 1 else usual.with_name(f"{usual.name}-{number}")
        if folder.exists():
            continue
        try:
            claims.enter_context(claim_folder(folder))
        except FolderInUseError:
            continue
        if not folder.exists():  # it may have been saved, or recovered, in the meantime
            break
    return folder
