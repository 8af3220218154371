"""Plots of ablations: a panel for each measure, a line for each method."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ipl.bench.ablation import Ablation, AblationRow
from ipl.bench.ablation_tables import headline
from ipl.bench.tables.cells import AVERAGE
from ipl.support.errors import ConfigError

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
    "svg.hashsalt": "ipl",  # the same image, the same file
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
        width = 3.1 * len(ablation.measures) + 0.4 if len(ablation.measures) > 1 else 4.6
        figure = Figure(figsize=(width, 3.3), layout="constrained")
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
            look = _look(rows, method, numeric)
            # Side by side where levels have no order and no line joins them.
            shift = 0.0 if numeric else 0.12 * (methods.index(method) - (len(methods) - 1) / 2)
            shifted = {label: place + shift for label, place in places.items()}
            _line(panel, [r for r in rows if r.method == method], measure, shifted, look)
        panel.set_title(TITLES.get(measure, _targets(ablation)), loc="left")
        panel.set_xticks(list(places.values()), _ticks(levels, numeric))
        panel.tick_params(axis="x", labelsize=9 if numeric else 8)
        panel.margins(x=0.08, y=0.12)
        panel.grid(axis="y", color=PALE, linewidth=0.8)
        panel.set_axisbelow(True)
    panels[0].set_ylabel("accuracy in %")
    panels[len(panels) // 2].set_xlabel(ablation.axis)
    handles, labels = panels[0].get_legend_handles_labels()
    if len(labels) > 1:
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    title = textwrap.fill(_title(ablation, rows), int(15 * figure.get_figwidth()))
    figure.suptitle(title, x=0.01, ha="left", fontsize=9)


def _look(rows: Sequence[AblationRow], method: str, joined: bool) -> dict[str, Any]:
    """Returns how a method is drawn: a colour for each learner, without words dashed and hollow."""
    kinds = {row.method: (row.entry.arm.learner, row.with_words) for row in rows}
    learners = list(dict.fromkeys(learner for learner, _ in kinds.values()))
    place = learners.index(kinds[method][0])
    if len(set(kinds.values())) < len(kinds):  # a learner has several rows with words
        place = list(kinds).index(method)
    look: dict[str, Any] = {"color": COLOURS[place % len(COLOURS)], "label": method}
    look |= {"marker": "o", "markersize": 4.5, "linewidth": 1.6, "capsize": 3, "elinewidth": 1}
    if not kinds[method][1]:
        look |= {"linestyle": "--", "markerfacecolor": "white"}
    return look if joined else {**look, "linestyle": "none"}


def _line(
    panel: Axes,
    rows: Sequence[AblationRow],
    measure: str,
    places: dict[str, float],
    look: dict[str, Any],
) -> None:
    """Draws a method's mean with bars of one standard deviation over the seeds."""
    found = [(places[row.level.label], row.entry.numbers.get(measure)) for row in rows]
    seen = [(place, value) for place, value in found if value is not None]
    if seen:
        middles = [value.mean for _, value in seen]
        bars = [value.std or 0.0 for _, value in seen]
        panel.errorbar([place for place, _ in seen], middles, yerr=bars, **look)


def _title(ablation: Ablation, rows: Sequence[AblationRow]) -> str:
    """Returns what is shown: the method if there is one, data, backbone, shots and seeds."""
    methods = dict.fromkeys(row.method for row in rows)
    names = [name for name in ablation.datasets if name not in (AVERAGE, ablation.source)]
    where = names[0] if len(names) == 1 else f"average of {len(names)} datasets"
    start = f"{next(iter(methods))}, {where}" if len(methods) == 1 else where
    parts = [start]
    if ablation.source:
        parts.append(f"trained on {ablation.source}")
    if "backbone" in ablation.common:
        parts.append(str(ablation.common["backbone"]))
    if "shots" in ablation.common:
        parts.append(f"{ablation.common['shots']} shots")
    counts = sorted({len(row.entry.seeds) for row in rows if row.entry.seeds})
    seeds = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])
    what = "1 seed" if seeds == "1" else f"mean and standard deviation of {seeds} seeds"
    return f"{', '.join(parts)}: {what}"


def _targets(ablation: Ablation) -> str:
    name = headline(ablation)
    return "average of the targets" if name == AVERAGE else name


def _ticks(levels: Sequence[str], numeric: bool) -> list[str]:
    """Returns what to write below the levels: of sentences only what tells them apart."""
    if numeric:
        return list(levels)
    start = _shared_start(levels)
    end = _shared_start([level[len(start) :][::-1] for level in levels])[::-1]
    short = [level[len(start) : len(level) - len(end)].strip(" :,") for level in levels]
    texts = [text if " " in text else Path(text).name for text in (short if all(short) else levels)]
    return ["\n".join(textwrap.wrap(textwrap.shorten(text, 40), 10)) for text in texts]


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
