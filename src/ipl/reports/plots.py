"""Plots of ablations: a panel for each measure, a line for each method."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from importlib.util import find_spec
from io import BytesIO
from typing import TYPE_CHECKING, Any

from ipl.errors import ConfigError
from ipl.protocols.ablation import Ablation, AblationRow
from ipl.protocols.tables import AVERAGE
from ipl.reports.ablations import headline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("svg", "png")
# Told apart by every common kind of colour blindness (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
INK, PALE = "#333333", "#DDDDDD"
TITLES = {"base": "base classes", "novel": "novel classes", "hm": "harmonic mean"}
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "ipl",  # the same picture, the same file
}


def check_matplotlib() -> None:
    """Raises ConfigError unless plots can be made."""
    if find_spec("matplotlib") is None:
        raise ConfigError(
            "A plot needs matplotlib, which is not installed: pip install 'ipl[plots]', or leave "
            "it out with --no-plot."
        )


def plot_ablation(ablation: Ablation) -> dict[str, bytes]:
    """Returns the plot of an ablation's average, as SVG and as PNG."""
    check_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(3.1 * len(ablation.measures) + 0.4, 3.3), layout="constrained")
        _draw(figure, ablation)
        files = {}
        for kind in FORMATS:
            buffer = BytesIO()
            metadata = {"Date": None} if kind == "svg" else None
            figure.savefig(buffer, format=kind, dpi=200, metadata=metadata)
            files[kind] = buffer.getvalue()
    return files


def _draw(figure: Figure, ablation: Ablation) -> None:
    rows = ablation.of(headline(ablation))
    levels = list(dict.fromkeys(row.level.label for row in rows))
    numeric = all(isinstance(row.level.value, int | float) for row in rows)
    places = {
        row.level.label: float(row.level.value) if numeric else float(levels.index(row.level.label))
        for row in rows
    }
    methods = list(dict.fromkeys(row.method for row in rows))
    panels = figure.subplots(1, len(ablation.measures), squeeze=False)[0]
    for panel, measure in zip(panels, ablation.measures, strict=True):
        for method in methods:
            _line(panel, [r for r in rows if r.method == method], measure, places, methods)
        panel.set_title(TITLES.get(measure, _targets(ablation)), loc="left")
        panel.set_xticks(list(places.values()), _ticks(levels, numeric))
        panel.margins(x=0.08, y=0.12)
        panel.grid(axis="y", color=PALE, linewidth=0.8)
        panel.set_axisbelow(True)
    panels[0].set_ylabel("accuracy in %")
    figure.supxlabel(ablation.axis, fontsize=9)
    handles, labels = panels[0].get_legend_handles_labels()
    if len(labels) > 1:
        figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)


def _line(
    panel: Axes,
    rows: Sequence[AblationRow],
    measure: str,
    places: dict[str, float],
    methods: Sequence[str],
) -> None:
    """Draws a method's mean with bars of one standard deviation; without words, dashed."""
    found = [(places[row.level.label], row.entry.numbers.get(measure)) for row in rows]
    seen = [(place, value) for place, value in found if value is not None]
    if not seen:
        return
    look: dict[str, Any] = {"color": COLOURS[methods.index(rows[0].method) % len(COLOURS)]}
    look |= {"marker": "o", "markersize": 4.5, "linewidth": 1.6, "capsize": 3, "elinewidth": 1}
    if not rows[0].with_words:
        look |= {"linestyle": "--", "markerfacecolor": "white"}
    panel.errorbar(
        [place for place, _ in seen],
        [value.mean for _, value in seen],
        yerr=[value.std or 0.0 for _, value in seen],
        label=rows[0].method,
        **look,
    )


def _targets(ablation: Ablation) -> str:
    name = headline(ablation)
    return "average of the targets" if name == AVERAGE else name


def _ticks(levels: Sequence[str], numeric: bool) -> list[str]:
    if numeric:
        return list(levels)
    # What all sentences begin and end with tells none from another.
    start = _shared_start(levels)
    end = _shared_start([level[len(start) :][::-1] for level in levels])[::-1]
    short = [level[len(start) : len(level) - len(end) or None].strip(" :,") for level in levels]
    return [textwrap.fill(text, 11) for text in (short if all(short) else levels)]


def _shared_start(texts: Sequence[str]) -> str:
    """Returns the words that all texts begin with."""
    if len(texts) < 2:
        return ""
    start = ""
    for word in texts[0].split(" "):
        longer = f"{start}{word} "
        if not all(text.startswith(longer) for text in texts):
            break
        start = longer
    return start
