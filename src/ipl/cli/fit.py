"""`ipl fit DATA`: learn a prompt from images and save it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Group
from rich.text import Text

from ipl.cli import options as common
from ipl.cli.options import as_number, out, own_pool, print_json, stopping, typed
from ipl.display.table import Styled, Table
from ipl.support.errors import ConfigError

if TYPE_CHECKING:
    from ipl.classifier import PromptClassifier


def fit(
    data: Path = common.DATA,
    backbone: str = common.BACKBONE,
    learner: str = typer.Option("coop", help="The prompt learner."),
    words: str = typer.Option(
        "3", help="Words in the prompt, k: a number (0: the plain learner), or auto."
    ),
    shots: int = common.SHOTS,
    epochs: int | None = typer.Option(None, help="Epochs in all, T (default: the learner's)."),
    interval: int | None = typer.Option(
        None, help="Epochs after each word, t (default: the learner's)."
    ),
    batch: int | None = typer.Option(None, help="Images in a step (default: the learner's)."),
    lr: float | None = typer.Option(None, help="Learning rate (default: the learner's)."),
    m: int | None = typer.Option(
        None, "--m", help="Soft vectors in a group (default: the learner's)."
    ),
    depth: int | None = typer.Option(
        None, help="Layers that get vectors of their own (default: the learner's)."
    ),
    class_template: str = typer.Option(
        "a photo of a {}.", help="A hand-made prompt, for learners that stay near one (kgcoop)."
    ),
    lambda_: float = common.LAMBDA,
    preset: str = common.PRESET,
    word_embedding: str = common.WORD_EMBEDDING,
    template: str = common.TEMPLATE,
    search: str = common.SEARCH,
    shortlist: int = common.SHORTLIST,
    memory: float = common.MEMORY,
    placeholder: str = typer.Option("token", help='An empty slot holds token ("0") or zero.'),
    views: str = typer.Option(
        "8", help="Random crops per training image: a number, 0 (centre crop), or fresh."
    ),
    words_file: Path | None = common.WORDS_FILE,
    no_names: bool = common.NO_NAMES,
    seed: int = typer.Option(1, help="Draws the shots and starts the vectors."),
    device: str = common.DEVICE,
    precision: str = common.PRECISION,
    no_cache: bool = common.NO_CACHE,
    save_to: Path | None = typer.Option(
        None, "--out", help="Where to save (default: ipl-runs/NAME)."
    ),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace a saved run in --out."),
    strict: bool = common.STRICT,
    quiet: bool = common.QUIET,
    as_json: bool = common.JSON,
) -> None:
    """Learn a prompt from a few images per class and save it."""
    from ipl.backbone.loading import load_backbone
    from ipl.classifier import PromptClassifier
    from ipl.datasets.readers import read_dataset
    from ipl.saving.format import check_target
    from ipl.support.progress import Reporter
    from ipl.words.modes import Search

    reporter = Reporter(quiet=quiet)
    where = save_to or "ipl-runs"
    later = "" if no_cache else " The same command goes on from here."
    with stopping(lambda: f"nothing was saved, and {where} is as it was.{later}"):
        classifier = PromptClassifier(
            backbone,
            learner,
            as_number(words),
            shots=shots,
            epochs=epochs,
            interval=interval,
            batch=batch,
            lr=lr,
            m=m,
            depth=depth,
            class_template=class_template,
            lambda_=lambda_,
            preset=preset,
            word_embedding=word_embedding,
            template=template,
            search=Search(search, shortlist),
            memory=memory,
            placeholder=placeholder,
            views=_views(views),
            seed=seed,
            device=device,
            precision=precision,
            cache=not no_cache,
            strict=strict,
            reporter=reporter,
        )
        dataset = read_dataset(data, strict)
        target = save_to or _free_folder(f"{dataset.name}-{learner}-{_named(words)}-seed{seed}")
        check_target(target, overwrite)
        clip = load_backbone(backbone, device, precision)
        pool = own_pool(words_file, no_names, clip.tokenizer, reporter)
        classifier.set_params(backbone=clip, pool=pool)
        classifier.fit(dataset)
        classifier.save_pretrained(target, overwrite)
    if as_json:
        print_json({"out": str(target), "notes": classifier.notes_, **classifier.config()})
        return
    console = out()
    console.print(fit_report(classifier))
    console.print(f"Saved:  {target}", markup=False, soft_wrap=True)
    console.print(f"Next:   {typed('predict', target)} IMAGE...", markup=False, soft_wrap=True)


def _named(words: str) -> str:
    return f"{int(words)}w" if words.isdigit() else words


def _views(text: str) -> int | str:
    if text == "fresh":
        return text
    if text.isascii() and text.isdigit():
        return int(text)
    raise ConfigError(f"views is {text!r}; allowed are 0, a number of crops, or fresh.")


def _free_folder(name: str) -> Path:
    """Returns ipl-runs/NAME, with a number behind it if that is taken."""
    clean = "".join(c if c.isalnum() or c in "-_." else "-" for c in name)[-100:]
    first = Path("ipl-runs") / clean
    numbered = (first.with_name(f"{clean}-{number}") for number in range(2, 10_000))
    return first if not first.exists() else next(path for path in numbered if not path.exists())


def fit_report(classifier: PromptClassifier) -> Group:
    """Returns accuracies, words with their gains and the prompt as a line of text."""
    from ipl.words.selection import words_table

    results: dict[str, Any] = classifier.results_
    lines = [
        f"Accuracy on {classifier.training_['images']} training images: "
        f"{100 * results['train_accuracy']:.1f} %"
    ]
    if results["held_out_accuracy"] is None:
        lines.append("Held-out accuracy: not measured, no readable image was left for it")
    else:
        lines.append(
            f"Accuracy on {results['held_out_images']} held-out images: "
            f"{100 * results['held_out_accuracy']:.1f} %"
        )
    parts: list[Group | Text] = [Text("\n".join(lines)), Text("")]
    trials = results.get("words_tried", ())
    if len(trials) > 1:
        parts += [_trials_table(trials, len(classifier.words_)).to_terminal(), Text("")]
    if classifier.selection_ is not None:
        parts += [words_table(classifier.selection_).to_terminal(), Text("")]
        if not classifier.selection_.certified:
            search = classifier.selection_.search
            parts += [Text(f"Approximate ({search}): another word may be better."), Text("")]
    parts.append(Text.assemble("Prompt: ", (classifier.prompt_, "bold")))
    return Group(*parts)


def _trials_table(trials: list[dict[str, Any]], taken: int) -> Table:
    """Returns a table of the numbers of words that were trained with, the one taken marked."""
    numbers = ["words", "training accuracy", "loss"]
    rows: list[list[str]] = []
    for trial in trials:
        row = [str(trial["words"]), f"{100 * trial['accuracy']:.1f} %", f"{trial['loss']:.4f}"]
        best = trial["words"] == taken
        rows.append([Styled(cell, "bold") for cell in (*row, "taken")] if best else [*row, ""])
    return Table([*numbers, ""], rows, numbers=numbers)
