"""`ipl fit DATA`: learn a prompt from pictures and save it."""

from __future__ import annotations

from pathlib import Path

import typer

from ipl.cli.common import BACKBONE_HELP, DEVICE, JSON, QUIET, out, print_json, stopping, typed
from ipl.errors import ConfigError

TEMPLATE = "a photo of a {cls}, with emphasis on: {words}"


def fit(
    data: Path = typer.Argument(
        metavar="DATA",
        help="A folder with one sub-folder per class, or a CSV/JSONL file: path,label[,split].",
    ),
    backbone: str = typer.Option("pocket", help=BACKBONE_HELP),
    learner: str = typer.Option("coop", help="The prompt learner."),
    words: int = typer.Option(3, help="Words in the prompt (k); 0 is the plain learner."),
    shots: int = typer.Option(16, help="Training images per class."),
    epochs: int | None = typer.Option(None, help="Epochs in all, T (default: the learner's)."),
    interval: int | None = typer.Option(
        None, help="Epochs after each word, t (default: the learner's)."
    ),
    batch: int | None = typer.Option(None, help="Images in a step (default: the learner's)."),
    lr: float | None = typer.Option(None, help="Learning rate (default: the learner's)."),
    m: int | None = typer.Option(
        None, "--m", help="Soft vectors in a group (default: the learner's)."
    ),
    lambda_: float = typer.Option(0.1, "--lambda", help="Weight of redundancy between words."),
    preset: str = typer.Option(
        "paper", help="Redundancy: paper (sum of cosines) or reference (their mean)."
    ),
    word_embedding: str = typer.Option(
        "text", help="What redundancy compares: text (features) or token (embeddings)."
    ),
    template: str = typer.Option(TEMPLATE, help="The sentence that scores words."),
    placeholder: str = typer.Option("token", help='An empty slot holds token ("0") or zero.'),
    views: str = typer.Option(
        "0", help="Random crops per training image: 0 (centre crop), a number, or fresh."
    ),
    words_file: Path | None = typer.Option(None, help="Choose from your own list of words."),
    no_names: bool = typer.Option(False, "--no-names", help="Leave proper names out of the pool."),
    seed: int = typer.Option(1, help="Draws the shots and starts the vectors."),
    device: str = DEVICE,
    precision: str = typer.Option("fp32", help="fp32, bf16 or fp16; prompts stay fp32."),
    save_to: Path | None = typer.Option(
        None, "--out", help="Where to save (default: ipl-runs/NAME)."
    ),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace a saved run in --out."),
    strict: bool = typer.Option(False, "--strict", help="Fail on a file that is not an image."),
    quiet: bool = QUIET,
    as_json: bool = JSON,
) -> None:
    """Learn a prompt from a few pictures per class and save it."""
    from ipl.backbone import load_backbone
    from ipl.classifier import PromptClassifier
    from ipl.datasets import read_dataset
    from ipl.lexicon import Pool
    from ipl.progress import Reporter
    from ipl.reports import fit_report
    from ipl.saving import check_target

    reporter = Reporter(quiet=quiet)
    where = save_to or "ipl-runs"
    with stopping(lambda: f"nothing was saved, and {where} is as it was."):
        classifier = PromptClassifier(
            backbone,
            learner,
            words,
            shots=shots,
            epochs=epochs,
            interval=interval,
            batch=batch,
            lr=lr,
            m=m,
            lambda_=lambda_,
            preset=preset,
            word_embedding=word_embedding,
            template=template,
            placeholder=placeholder,
            views=_views(views),
            seed=seed,
            device=device,
            precision=precision,
            strict=strict,
            reporter=reporter,
        )
        dataset = read_dataset(data, strict)
        target = save_to or _free_folder(f"{dataset.name}-{learner}-{words}w-seed{seed}")
        check_target(target, overwrite)
        classifier.backbone = load_backbone(backbone, device, precision)
        if words_file is not None:
            classifier.pool, dropped = Pool.from_file(words_file, classifier.backbone.tokenizer)
            for drop in dropped:
                reporter.warn(f"{words_file}: {drop.word!r} is left out, it is {drop.reason}.")
        if no_names:
            classifier.pool = (classifier.pool or Pool.bundled()).without_names()
        classifier.fit(dataset)
        classifier.save_pretrained(target, overwrite)
    if as_json:
        print_json({"out": str(target), "notes": classifier.notes_, **classifier.config()})
        return
    console = out()
    console.print(fit_report(classifier))
    console.print(f"Saved:  {target}", markup=False, soft_wrap=True)
    console.print(f"Next:   {typed('predict', target)} IMAGE...", markup=False, soft_wrap=True)


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
