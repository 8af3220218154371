"""How a run was made, and how it is made again."""

from __future__ import annotations

from ipl.display.document import Block, Code, Figure, Heading, Paragraph, Section
from ipl.display.document import make_table as make
from ipl.display.formatting import listed, number, several
from ipl.display.plots import Series, lines
from ipl.explain.analysis import Analysis


def made_section(analysis: Analysis) -> Section:
    """Returns the command, settings, times, versions and the training's losses."""
    made, run_images = analysis.made, analysis.run_images
    blocks: list[Block] = []
    if made.command is not None:
        blocks += [Paragraph("This command makes the run again:"), Code(made.command)]
    blocks += [Paragraph(sentence, "note") for sentence in made.unsaid]
    if run_images is not None:
        left = f" ({run_images.left_out:,} more were left out)" if run_images.left_out else ""
        blocks.append(
            Paragraph(
                f"This report drew the shots again from {run_images.source} and looked at "
                f"{several(len(run_images.test.items), 'held-out image')}{left}."
            )
        )
    blocks.append(make("Settings", ("setting", "value"), made.settings))
    if made.losses:
        arrivals = [(float(epoch), word) for epoch, _, word in made.losses if word]
        told = [f"“{word}” in epoch {epoch:.0f}" for epoch, word in arrivals]
        entered = f" Words entered: {listed(told)}." if told else ""
        svg = lines(
            [Series("loss", tuple((float(epoch), loss) for epoch, loss, _ in made.losses))],
            f"Training loss from {made.losses[0][1]:.3f} in the first epoch to "
            f"{made.losses[-1][1]:.3f} in the last.{entered}",
            "epoch",
            "training loss",
            arrivals=arrivals,
        )
        title = "The loss while training" + (", and where words entered" if told else "")
        rows = [[str(epoch), number(loss), word or ""] for epoch, loss, word in made.losses]
        numbers = make("Training", ("epoch", "loss", "word that entered"), rows)
        blocks += [Heading("Training"), Figure(title, svg, numbers)]
    if made.times:
        rows = [[name, f"{seconds:.1f}"] for name, seconds in made.times]
        blocks.append(make("Times", ("what", "seconds"), rows))
    blocks.append(make("Versions", ("what", "version"), made.versions))
    return Section("made", "How it was made", tuple(blocks))
