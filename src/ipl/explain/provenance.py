"""How a run was made: settings, times, versions, and the command that makes it again."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ipl._version import __version__
from ipl.display.document import Block, Code, Figure, Heading, Paragraph, Section, make_table
from ipl.display.formatting import listed, number, several
from ipl.display.plots import Series, lines
from ipl.explain.loaded_run import LoadedRun, RunImages
from ipl.learners.registry import learner_class
from ipl.saving.format import SavedPrompt
from ipl.support.errors import IplError
from ipl.words.pool import Pool

PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "pillow")
# Settings of `ipl fit` that are saved with a run, and the options that set them.
OPTIONS = {"epochs": "--epochs", "interval": "--interval", "batch": "--batch", "lr": "--lr"}
OPTIONS |= {"m": "--m", "depth": "--depth"}
DEFAULTS = {"shots": 16, "views": 8, "class_template": "a photo of a {}."}
CHOICE = {"lambda_": 0.1, "preset": "paper", "word_embedding": "text", "search": "exact"}


@dataclass(frozen=True)
class Provenance:
    """Rows of (name, value), the command that repeats the run, and what it leaves out."""

    settings: tuple[tuple[str, str], ...]
    times: tuple[tuple[str, float], ...]  # seconds
    versions: tuple[tuple[str, str], ...]
    losses: tuple[tuple[int, float, str | None], ...]  # epoch, training loss, word that entered
    command: str | None
    unsaid: tuple[str, ...]  # sentences on what the command leaves out


def provenance_of(run: LoadedRun, data: str | None, words_file: str | None = None) -> Provenance:
    """Returns how the run was made, from what is saved with it."""
    saved = run.saved
    history = saved.training.get("history") or {}
    epochs = history.get("epochs") or []
    times = [("training", float(history["seconds"]))] if "seconds" in history else []
    if run.selection is not None:
        times.insert(0, ("choosing the words", sum(s.seconds for s in run.selection.steps)))
    command, unsaid = _command(run, data, words_file)
    return Provenance(
        settings=tuple(_settings(run)),
        times=tuple(times),
        versions=(("ipl that made the run", saved.ipl_version), *_versions()),
        losses=tuple((int(e["epoch"]) + 1, float(e["loss"]), e.get("word")) for e in epochs),
        command=command,
        unsaid=unsaid,
    )


def _settings(run: LoadedRun) -> list[tuple[str, str]]:
    saved, training = run.saved, run.saved.training
    rows = [
        ("learner", saved.learner),
        ("backbone", str(saved.backbone["name"])),
        ("weights (SHA-256)", str(saved.backbone["weights_sha256"])),
        ("precision", str(saved.backbone.get("precision", "fp32"))),
        ("data", str(training.get("data"))),
        ("classes", str(len(run.classes))),
    ]
    keys = [key for key in training if key not in ("data", "classes", "history")]
    rows += [(key, _text(training[key])) for key in keys if training[key] is not None]
    rows += [("placeholder", saved.placeholder)]
    if (selection := run.selection) is not None:
        rows += [
            ("lambda", f"{selection.lambda_:g}"),
            ("redundancy", selection.preset),
            ("word embedding", selection.word_embedding),
            ("sentence that scores words", selection.template),
            ("search", selection.search),
            ("pool", f"{selection.pool_size:,} words, SHA-256 {selection.pool_sha256[:12]}"),
        ]
    return rows


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _versions() -> tuple[tuple[str, str], ...]:
    """Returns what is installed where the report is made."""
    rows = [("ipl that made this report", __version__), ("Python", platform.python_version())]
    for name in PACKAGES:
        try:
            rows.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return tuple(rows)


def _command(
    run: LoadedRun, data: str | None, words_file: str | None
) -> tuple[str | None, tuple[str, ...]]:
    """Returns the command that makes the run again, if its data has no other classes."""
    command, unsaid = fit_command(run.saved, run.pool, data, words_file)
    run_images = run.run_images
    if run_images is None or run_images.classes == run_images.dataset.class_names:
        return command, unsaid
    run_count, data_count = len(run_images.dataset.class_names), len(run_images.classes)
    if run_count == data_count:
        order = "This data has the classes in another order than the run: other shots are drawn."
        return command, (*unsaid, order)
    return None, (
        f"No command makes the run again: ipl fit would learn all {data_count} classes of "
        f"{run_images.source}, and the run had {run_count} of them.",
    )


def fit_command(
    saved: SavedPrompt, pool: Pool | None, data: str | None, words_file: str | None = None
) -> tuple[str, tuple[str, ...]]:
    """Returns the command that makes a run again, and sentences on what it leaves out."""
    training, unsaid = saved.training, []
    auto = len(saved.results.get("words_tried", ())) > 1
    parts: list[Any] = ["ipl", "fit", data or "DATA", "--learner", saved.learner]
    parts += ["--words", "auto" if auto else len(saved.words)]
    if saved.backbone["name"] != "pocket":
        parts += ["--backbone", saved.backbone["name"]]
    parts += _recipe_options(saved, auto)
    for key, default in DEFAULTS.items():
        if training.get(key, default) != default:
            parts += [f"--{key.replace('_', '-')}", training[key]]
    if saved.placeholder != "token":
        parts += ["--placeholder", saved.placeholder]
    selection: Mapping[str, Any] = saved.selection or {}
    for key, default in CHOICE.items():
        if selection.get(key, default) != default:
            parts += [f"--{key.strip('_').replace('_', '-')}", selection[key]]
    template = "a photo of a {cls}, with emphasis on: {words}"
    if selection.get("template", template) != template:
        parts += ["--template", selection["template"]]
    if selection.get("search") == "screen":
        unsaid.append("The length of the search's shortlist is not saved with a run.")
    if selection and pool is None:
        unsaid.append("The word list it chose from is not saved with a run: give --words-file.")
    elif selection and pool is not None:
        parts += ["--words-file", words_file] if words_file else []
        parts += ["--no-names"] if "no names" in pool.source else []
    precision = saved.backbone.get("precision", "fp32")
    if precision != "fp32":
        parts += ["--precision", precision]
    parts += ["--seed", training.get("seed", 1)]
    if data is None:
        unsaid.append(
            f"DATA is the folder or file of {training.get('data')!r}, with the "
            f"{len(training.get('classes', saved.classes))} classes of the run and no others."
        )
    return " ".join(shlex.quote(str(part)) for part in parts), tuple(unsaid)


def _recipe_options(saved: SavedPrompt, auto: bool) -> list[Any]:
    """Returns the options whose values are not the learner's published ones."""
    try:
        published = vars(learner_class(saved.learner).recipe(1 if auto else len(saved.words)))
    except IplError:
        published = {}
    parts: list[Any] = []
    for key, option in OPTIONS.items():
        value = saved.training.get(key)
        if value is not None and value != published.get(key):
            parts += [option, value]
    return parts


# -- how it is shown ----------------------------------------------------------------------------


def provenance_section(provenance: Provenance, run_images: RunImages | None) -> Section:
    """Returns the command, settings, times, versions and the training's losses."""
    blocks: list[Block] = []
    if provenance.command is not None:
        blocks += [Paragraph("This command makes the run again:"), Code(provenance.command)]
    blocks += [Paragraph(sentence, "note") for sentence in provenance.unsaid]
    if run_images is not None:
        left = f" ({run_images.left_out:,} more were left out)" if run_images.left_out else ""
        blocks.append(
            Paragraph(
                f"This report drew the shots again from {run_images.source} and looked at "
                f"{several(len(run_images.test.items), 'held-out image')}{left}."
            )
        )
    blocks.append(make_table("Settings", ("setting", "value"), provenance.settings))
    if provenance.losses:
        blocks += [Heading("Training"), _loss_figure(provenance.losses)]
    if provenance.times:
        rows = [[name, f"{seconds:.1f}"] for name, seconds in provenance.times]
        blocks.append(make_table("Times", ("what", "seconds"), rows))
    blocks.append(make_table("Versions", ("what", "version"), provenance.versions))
    return Section("made", "How it was made", tuple(blocks))


def _loss_figure(losses: tuple[tuple[int, float, str | None], ...]) -> Figure:
    arrivals = [(float(epoch), word) for epoch, _, word in losses if word]
    entries = [f"“{word}” in epoch {epoch:.0f}" for epoch, word in arrivals]
    entered = f" Words entered: {listed(entries)}." if entries else ""
    svg = lines(
        [Series("loss", tuple((float(epoch), loss) for epoch, loss, _ in losses))],
        f"Training loss from {losses[0][1]:.3f} in the first epoch to {losses[-1][1]:.3f} in the "
        f"last.{entered}",
        "epoch",
        "training loss",
        arrivals=arrivals,
    )
    title = "The loss while training" + (", and where words entered" if entries else "")
    rows = [[str(epoch), number(loss), word or ""] for epoch, loss, word in losses]
    return Figure(title, svg, make_table("Training", ("epoch", "loss", "word that entered"), rows))
