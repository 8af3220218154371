"""How a run was made: the command that makes it again, its settings, its losses and times."""

from __future__ import annotations

from ipl._version import __version__
from ipl.display.document import Block, Code, Figure, Paragraph, Section
from ipl.display.formatting import listed, several
from ipl.display.plots import line
from ipl.display.table import Table
from ipl.explain.inputs import ReportData
from ipl.training.history import EpochRecord


def provenance_section(data: ReportData) -> Section:
    """The command, the settings, the training's losses and times."""
    run, images = data.run, data.images
    result, command = run.result, run.result.config.command("DATA")
    blocks: list[Block] = [
        Paragraph(
            f"This command makes the run again; DATA is the folder or file of {result.data!r}, "
            f"with the {len(run.classes)} classes of the run and no others:"
        ),
        Code(command),
    ]
    if images is not None:
        left = f" ({images.left_out:,} more were left out)" if images.left_out else ""
        looked = several(len(images.test.items), "held-out image")
        blocks.append(Paragraph(f"This report looked at {looked} of {images.source}{left}."))
    settings = {
        "learner": result.config.learner,
        **result.backbone,
        "classes": len(run.classes),
        **{key: value for key, value in result.training_settings.items() if value is not None},
    }
    seconds = {"training": result.history.seconds}
    if (found := run.selection) is not None:
        settings |= {
            "utility": found.utility,
            "lambda": found.lambda_,
            "redundancy": found.preset,
            "word embedding": found.word_embedding,
            "sentence that scores words": found.template,
            "search": found.search,
            "pool": f"{found.pool_size:,} words, SHA-256 {found.pool_sha256[:12]}",
        }
        seconds["choosing the words"] = sum(step.seconds for step in found.steps)
    settings |= {f"seconds of {name}": round(value, 1) for name, value in seconds.items()}
    settings |= {"ipl that made the run": result.ipl_version, "ipl that made this": __version__}
    shown = {key: f"{v:g}" if isinstance(v, float) else str(v) for key, v in settings.items()}
    blocks.append(Table(("setting", "value"), list(shown.items()), caption="Settings"))
    if epochs := result.history.epochs:
        blocks.append(_loss_figure(epochs))
    values = {
        "command": command,
        "settings": shown,
        "losses": [(epoch.epoch + 1, epoch.loss, epoch.word) for epoch in epochs],
        "seconds": seconds,
    }
    summary = "The command that repeats it, settings, losses and times."
    return Section("made", "How it was made", tuple(blocks), summary, values)


def _loss_figure(epochs: tuple[EpochRecord, ...]) -> Figure:
    arrivals = [(epoch.epoch + 1.0, epoch.word) for epoch in epochs if epoch.word]
    entries = [f"“{word}” in epoch {epoch:.0f}" for epoch, word in arrivals]
    entered = f" Words entered: {listed(entries)}." if entries else ""
    svg = line(
        [(epoch.epoch + 1.0, epoch.loss) for epoch in epochs],
        f"Training loss from {epochs[0].loss:.3f} in the first epoch to {epochs[-1].loss:.3f} in "
        f"the last.{entered}",
        "epoch",
        "training loss",
        arrivals=arrivals,
    )
    title = "The loss while training" + (", and where words entered" if entries else "")
    return Figure(title, svg)
