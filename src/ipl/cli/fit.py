"""`ipl fit DATA`: learn a prompt from images and save it.

Most of its options are the fields of `FitConfig`; those below belong to the command alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import typer
from rich.console import Group
from rich.text import Text

from ipl.backbone.families import suggest_backbone
from ipl.backbone.features import FeatureStore
from ipl.backbone.loading import load_backbone
from ipl.classifier import PromptClassifier
from ipl.cli import shared_options as common
from ipl.cli.config_options import config_options
from ipl.cli.output import command_line, console, echo, on_interrupt, print_json
from ipl.config import FitConfig, checked_value, fit_settings
from ipl.datasets.fewshot import hold_out
from ipl.datasets.inspection import inspect_dataset
from ipl.datasets.readers import read_dataset
from ipl.display.formatting import listed, percent
from ipl.loggers import log_run, make_loggers
from ipl.saving.format import config_of, read_run
from ipl.saving.run_folder import CONFIG, check_target
from ipl.support.cache import Cache
from ipl.support.errors import ConfigError, FolderInUseError, IplError
from ipl.support.files import claim_folder
from ipl.support.progress import Reporter
from ipl.training.comparison import ABOUT_INTERVALS, NO_IMAGES
from ipl.training.result import FitResult
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
        help="Fit with each of these seeds and show how much the results differ; a seed that is "
        "already saved is not repeated.",
        rich_help_panel="Training",
    ),
    compare: bool = typer.Option(
        False,
        "--compare",
        help="Train the same prompt without words as well, and compare with it.",
        rich_help_panel="Training",
    ),
    save_to: Path | None = typer.Option(
        None,
        "--out",
        help="Where to save (default: ipl-runs/NAME; with --seeds, OUT-seed1 etc.).",
        rich_help_panel=common.OUTPUT,
    ),
    overwrite: bool = typer.Option(
        False, "--overwrite", help="Replace a saved run in --out.", rich_help_panel=common.OUTPUT
    ),
    per_class: bool = typer.Option(
        False,
        "--per-class",
        help="Show every class before (zero-shot) and after, worst first.",
        rich_help_panel=common.OUTPUT,
    ),
    log_to: list[str] = common.LOG_TO,
    quiet: bool = common.QUIET,
    as_json: bool = common.JSON,
) -> None:
    """Learn a prompt from images in folders of classes, and save it."""
    config = FitConfig.from_dict(settings)
    make_loggers(log_to)
    if overwrite and save_to is None:
        raise ConfigError("--overwrite replaces the run in --out; say which one with --out.")
    configs = [config]
    if seeds is not None:
        source = context.get_parameter_source("seed")
        if source is not None and source.name != "DEFAULT":
            raise ConfigError("--seed and --seeds contradict each other; leave one of them out.")
        configs = [replace(config, seed=seed) for seed in read_seeds(seeds)]
    reporter = Reporter(quiet=quiet)
    runs: dict[Path, FitResult] = {}
    with on_interrupt(lambda: _what_is_left([*runs], config, save_to)), ExitStack() as claims:
        dataset = read_dataset(data, config.held_out)
        if not dataset.test:
            dataset = hold_out(dataset, reporter=reporter)
        dataset = inspect_dataset(dataset)
        todo: list[tuple[FitConfig, Path]] = []
        for each in configs:
            wanted = save_to or Path("ipl-runs") / each.run_name(dataset.name)
            if seeds is not None:
                wanted = wanted if save_to is None else Path(f"{save_to}-seed{each.seed}")
                claims.enter_context(claim_folder(wanted))
                if not overwrite and (saved := _saved_result(wanted, each, dataset.name)):
                    reporter.say(f"Seed {each.seed} is already saved in {wanted}.")
                    runs[wanted] = saved
                    continue
            target = _claim_free_folder(wanted, claims) if save_to is None else wanted
            if target != wanted:
                reporter.warn(f"{wanted} is already taken, so this run is saved as {target}.")
            claims.enter_context(claim_folder(target))
            check_target(target, overwrite)
            todo.append((each, target))

        store = None
        if todo:
            backbone = load_backbone(config.backbone, config.device, config.precision)
            if seeds is not None:  # they share the features of images
                store = FeatureStore(backbone, Cache(reporter=reporter) if config.cache else None)
        for each, target in todo:
            if seeds is not None:
                reporter.say(f"Seed {each.seed} ({len(runs) + 1} of {len(configs)})")
            with log_run(log_to, target.name, each.as_dict(), reporter) as log:
                classifier = PromptClassifier(
                    **{**each.as_dict(), "backbone": backbone}, reporter=log
                )
                classifier.fit(dataset, store=store, compare=compare)
                _save(classifier, target, overwrite)
            runs[target] = classifier.result_

    every = [each.seed for each in configs]
    runs = dict(sorted(runs.items(), key=lambda run: every.index(run[1].config.seed)))
    spread = SeedSpread.of([*runs.values()])
    if as_json:
        told = [{"out": str(target), **config_of(result)} for target, result in runs.items()]
        of_all = told[0] if seeds is None else {**spread.as_dict(), "runs": told}
        print_json({**of_all, "notes": reporter.warnings})
    elif seeds is None:
        _print_run(*next(iter(runs.items())), data, per_class)
    else:
        _print_seeds(spread, runs, data, per_class)


def read_seeds(text: str) -> tuple[int, ...]:
    """The seeds in a text with commas between them, each once; at least two."""
    (setting,) = (setting for setting in fit_settings() if setting.name == "seed")
    seeds = tuple(dict.fromkeys(checked_value(setting, part.strip()) for part in text.split(",")))
    if len(seeds) < 2:
        raise ConfigError(
            f"--seeds is {text}; give two or more different seeds, or one with --seed."
        )
    return seeds


# -- where runs are saved -------------------------------------------------------------------------


def _saved_result(folder: Path, config: FitConfig, data: str) -> FitResult | None:
    """The run of the same fit that is saved in a folder, if there is one."""
    if not (folder / CONFIG).is_file():
        return None
    saved = read_run(folder)
    same = replace(saved.config, device=config.device) == config and saved.data == data
    return saved if same else None


def _claim_free_folder(usual: Path, claims: ExitStack) -> Path:
    """A folder, with a number appended if it exists or another process claimed it."""
    for number in count(1):
        folder = usual if number == 1 else usual.with_name(f"{usual.name}-{number}")
        if folder.exists():
            continue
        with suppress(FolderInUseError):
            claims.enter_context(claim_folder(folder))
            if not folder.exists():  # it may have been saved, or recovered, in the meantime
                break
    return folder


def _save(classifier: PromptClassifier, target: Path, overwrite: bool) -> None:
    try:
        classifier.save_pretrained(target, overwrite)
    except IplError as error:
        if not classifier.result_.checkpoints:
            raise
        raise IplError(
            f"{error} The training is kept in the cache: the fit resumes when you run it again."
        ) from error


def _what_is_left(saved: Sequence[Path], config: FitConfig, save_to: Path | None) -> str:
    """What an interrupted fit has saved, and how to go on."""
    if saved:
        verb = "was" if len(saved) == 1 else "were"
        again = "Run the same command again for the other seeds."
        return f"{listed([str(target) for target in saved])} {verb} saved. {again}"
    unchanged = f", and {save_to} is unchanged" if save_to and save_to.exists() else ""
    kept = " The training is kept: the same command goes on from there." if config.cache else ""
    return f"no run was saved{unchanged}.{kept}"


# -- what is printed ------------------------------------------------------------------------------


def _print_run(target: Path, result: FitResult, data: Path, per_class: bool) -> None:
    console().print(fit_report(result, per_class))
    # Without held-out images the data adds nothing to a report.
    with_data = ("--data", data) if result.held_out_images else ()
    echo(f"Saved:  {target}")
    echo(f"Next:   {command_line('predict', target)} IMAGE...")
    echo(f"        {command_line('report', target, *with_data)}")
    echo(f"        {command_line('evaluate', target)} MORE_LABELLED_IMAGES")


def _print_seeds(
    spread: SeedSpread, runs: Mapping[Path, FitResult], data: Path, per_class: bool
) -> None:
    """The spread over the seeds, the stable words, and the prompt of each seed."""
    comparisons = [each for r in runs.values() if (each := r.comparison) is not None]
    notes = [note for comparison in comparisons for note in comparison.notes]
    notes.append(suggest_backbone(next(iter(runs.values())).config.backbone))
    parts: list[Group | Text] = [Text("\n".join(spread.verdict), "bold"), Text("")]
    parts += [spread.table().to_terminal(), Text(ABOUT_SEEDS), *_notes(dict.fromkeys(notes))]
    parts += [Text(f"\n{spread.about_words}")] if spread.about_words else []
    for target, result in runs.items():
        parts.append(Text(f"\nSeed {result.config.seed}", "bold"))
        parts += _class_parts(result) if per_class else []
        parts += [Text(f"Prompt: {result.prompt}"), Text(f"Saved:  {target}")]
    console().print(Group(*parts), soft_wrap=True)
    echo(f"\nNext:   {command_line('report', *runs, '--data', data)}")
    echo(f"        {command_line('report', next(iter(runs)), '--data', data)}")


def _notes(notes: Iterable[str]) -> list[Text]:
    return [Text(f"Note: {note}", "yellow") for note in notes if note]


def fit_report(result: FitResult, per_class: bool = False) -> Group:
    """The accuracies, the words with their gains, and the prompt as a line of text."""
    parts: list[Group | Text] = [Text(NO_IMAGES)]
    if (comparison := result.comparison) is not None:
        parts = [Text("\n".join(comparison.verdict), "bold"), Text("")]
        parts += [comparison.table().to_terminal(), Text(ABOUT_INTERVALS)]
        parts += _notes([*comparison.notes, suggest_backbone(result.config.backbone)])
        parts += [Text(""), *_class_parts(result)] if per_class else []
    train = f"Accuracy on {result.images} training images: {percent(result.train_accuracy)}"
    train += " (the prompt alone)" if result.head is not None else ""
    parts += [Text(""), Text(train), Text("")]
    if len(result.trials) > 1:
        tried = [f"{trial.words} ({percent(trial.accuracy)})" for trial in result.trials]
        taken = f"{len(result.words)} did best on the training images."
        parts += [Text(f"Numbers of words that were tried: {', '.join(tried)}. {taken}"), Text("")]
    if (selection := result.selection) is not None:
        parts += [words_table(selection).to_terminal(), Text("")] if selection.steps else []
        sentences = [selection.how_checked] if selection.steps else []
        if sentences := sentences + certainty_sentences(selection):
            parts += [Text("\n".join(sentences)), Text("")]
    parts += [Text(result.about_words), Text("")]
    parts.append(Text.assemble("Prompt: ", (result.prompt, "bold")))
    return Group(*parts)


def _class_parts(result: FitResult) -> list[Group | Text]:
    """Every class before and after, and the classes that are confused most often."""
    if (comparison := result.comparison) is None:
        return []
    return [comparison.class_table().to_terminal(), Text(comparison.confusions)]
