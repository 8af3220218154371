"""How a run was made: settings, times, versions, and the command that makes it again."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ipl._version import __version__
from ipl.display.document import Block, Code, Figure, Heading, Paragraph, Section
from ipl.display.formatting import listed, number, several
from ipl.display.plots import Series, lines
from ipl.display.table import Table
from ipl.explain.loaded_run import LoadedRun, RunImages
from ipl.training.result import FitResult
from ipl.words.pool import Pool

PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "pillow")


@dataclass(frozen=True)
class Provenance:
    """Rows of (name, value), the command that repeats the run, and what it leaves out."""

    settings: tuple[tuple[str, str], ...]
    times: tuple[tuple[str, float], ...]  # seconds
    versions: tuple[tuple[str, str], ...]
    losses: tuple[tuple[int, float, str | None], ...]  # epoch, training loss, word that entered
    about_losses: str
    command: str | None
    unsaid: tuple[str, ...]  # sentences on what the command leaves out


def provenance_of(run: LoadedRun, data: str | None, words_file: str | None = None) -> Provenance:
    """Returns how the run was made, from what is saved with it."""
    result = run.result
    epochs = result.history.epochs
    times = [("training", result.history.seconds)]
    if run.selection is not None:
        times.insert(0, ("choosing the words", sum(s.seconds for s in run.selection.steps)))
    command, unsaid = _command(run, data, words_file)
    return Provenance(
        settings=tuple(_settings(run)),
        times=tuple(times),
        versions=(("ipl that made the run", result.ipl_version), *_versions()),
        losses=tuple((epoch.epoch + 1, epoch.loss, epoch.word) for epoch in epochs),
        about_losses=result.about_losses,
        command=command,
        unsaid=unsaid,
    )


def _settings(run: LoadedRun) -> list[tuple[str, str]]:
    result, training = run.result, run.result.training_settings
    rows = [
        ("learner", result.config.learner),
        ("backbone", str(result.backbone["name"])),
        ("weights (SHA-256)", str(result.backbone["weights_sha256"])),
        ("precision", str(result.backbone.get("precision", "fp32"))),
        ("data", str(training.get("data"))),
        ("classes", str(len(run.classes))),
    ]
    rows += [(k, _text(v)) for k, v in training.items() if k != "data" and v is not None]
    rows += [("placeholder", result.config.placeholder)] if result.layout.slots else []
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
    run_images = run.run_images
    if run_images is not None and run_images.shots is None:
        data = None  # it is other data
    command, unsaid = fit_command(run.result, run.pool, data, words_file)
    if run_images is None or run_images.shots is None:
        return command, unsaid
    run_count, data_count = len(run_images.dataset.class_names), len(run_images.classes)
    if run_count != data_count:
        return None, (
            f"No command makes the run again: ipl fit would learn all {data_count} classes of "
            f"{run_images.source}, and the run had {run_count} of them.",
        )
    if data is not None and run_images.classes != run_images.dataset.class_names:
        unsaid += (
            "This data has the classes in another order than the run: other shots are drawn.",
        )
    elif data is not None and not run_images.drawn_again:
        unsaid += ("This data has changed since the training: other shots are drawn.",)
    return command, unsaid


def fit_command(
    result: FitResult, pool: Pool | None, data: str | None, words_file: str | None = None
) -> tuple[str, tuple[str, ...]]:
    """Returns the command that makes a run again, and sentences on what it leaves out."""
    config, unsaid = result.config, []
    if words_file is not None:
        config = replace(config, words_file=words_file)
    if result.selection is not None and pool is None and config.words_file is None:
        unsaid.append("The word list it chose from is not saved with a run: give --words-file.")
    if data is None:
        unsaid.append(
            f"DATA is the folder or file of {result.data!r}, with the "
            f"{len(result.trained_classes)} classes of the run and no others."
        )
    return config.command(data or "DATA"), tuple(unsaid)


# -- how it is shown ----------------------------------------------------------------------------


def provenance_section(provenance: Provenance, run_images: RunImages | None) -> Section:
    """Returns the command, settings, times, versions and the training's losses."""
    blocks: list[Block] = []
    if provenance.command is not None:
        blocks += [Paragraph("This command makes the run again:"), Code(provenance.command)]
    blocks += [Paragraph(sentence, "note") for sentence in provenance.unsaid]
    if run_images is not None:
        left = f" ({run_images.left_out:,} more were left out)" if run_images.left_out else ""
        shots = f"took the training images, by their hashes, from {run_images.source} and "
        if run_images.drawn_again:
            shots = f"drew the shots again from {run_images.source} and "
        where = f" of {run_images.source}" if run_images.shots is None else ""
        blocks.append(
            Paragraph(
                f"This report {'' if where else shots}looked at "
                f"{several(len(run_images.test.items), 'held-out image')}{where}{left}."
            )
        )
    blocks.append(Table(("setting", "value"), provenance.settings, caption="Settings"))
    if provenance.losses:
        blocks += [Heading("Training"), _loss_figure(provenance.losses)]
        if provenance.about_losses:
            blocks.append(Paragraph(provenance.about_losses))
    if provenance.times:
        rows = [[name, f"{seconds:.1f}"] for name, seconds in provenance.times]
        blocks.append(Table(("what", "seconds"), rows, caption="Times"))
    blocks.append(Table(("what", "version"), provenance.versions, caption="Versions"))
    parts = ["settings", "the loss of each epoch"] if provenance.losses else ["settings"]
    parts += ["versions", *(["the command that repeats it"] if provenance.command else [])]
    summary = f"{listed(parts)}."
    return Section("made", "How it was made", tuple(blocks), summary[0].upper() + summary[1:])


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
    return Figure(
        title, svg, Table(("epoch", "loss", "word that entered"), rows, caption="Training")
    )
