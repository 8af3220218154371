"""`ipl fit DATA`: learn a prompt from images and save it."""

from __future__ import annotations

from pathlib import Path

import typer

from ipl.cli import options as common
from ipl.cli.options import as_number, out, own_pool, print_json, stopping, typed
from ipl.support.errors import ConfigError


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
    from ipl.cli.fit_report import fit_report
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
