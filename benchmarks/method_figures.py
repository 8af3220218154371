"""Draws the figures of docs/method.md: python benchmarks/method_figures.py docs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from ipl.training.schedule import learning_rate

INK, GREY, BLUE, ORANGE, GREEN = "#1c2126", "#8b949e", "#0065a3", "#b84a00", "#00734f"
PALE = {GREY: "#e6e9ed", BLUE: "#d6e8f5", ORANGE: "#fbe3d2", GREEN: "#d3eee4"}


def box(axes: Any, left: float, bottom: float, width: float, text: str, colour: str) -> None:
    """Draws a box with a text in it."""
    shape = FancyBboxPatch(
        (left, bottom),
        width,
        0.7,
        boxstyle="round,pad=0,rounding_size=0.12",
        facecolor=PALE[colour],
        edgecolor=colour,
    )
    axes.add_patch(shape)
    axes.text(left + width / 2, bottom + 0.35, text, ha="center", va="center", color=INK, size=10)


def arrow(axes: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Draws an arrow."""
    axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": INK})


def draw_prompt() -> Figure:
    """Draws how an image and the prompt of a class become a probability."""
    figure = Figure(figsize=(8.4, 3.3))
    axes = figure.add_axes((0, 0, 1, 1))
    pieces = [
        ("V", BLUE),
        ("V", BLUE),
        ("furry", ORANGE),
        ("V", BLUE),
        ("V", BLUE),
        ("adopt", ORANGE),
        ("V", BLUE),
        ("V", BLUE),
        ("cat", GREEN),
        (".", GREY),
    ]
    left = 0.2
    for text, colour in pieces:
        width = 0.55 if len(text) == 1 else 1.05
        box(axes, left, 3.0, width, text, colour)
        left += width + 0.12
    end = left - 0.12
    box(axes, 2.0, 1.5, 3.6, "text tower (frozen)", GREY)
    arrow(axes, (3.8, 2.95), (3.8, 2.25))
    box(axes, 8.6, 3.0, 1.6, "image", GREEN)
    box(axes, 7.9, 1.5, 3.0, "image tower (frozen)", GREY)
    arrow(axes, (9.4, 2.95), (9.4, 2.25))
    box(axes, 5.0, 0.1, 3.6, "cosine, softmax over classes", GREY)
    arrow(axes, (3.8, 1.45), (5.6, 0.85))
    arrow(axes, (9.4, 1.45), (8.0, 0.85))
    legend = ((BLUE, "trained vectors"), (ORANGE, "chosen words, fixed"), (GREEN, "what is given"))
    for index, (colour, text) in enumerate(legend):
        axes.text(0.2 + 2.6 * index, 3.95, text, color=colour, size=10, weight="bold")
    axes.set(xlim=(0, max(end, 11.1)), ylim=(0, 4.3))
    axes.axis("off")
    return figure


def draw_schedule(epochs: int = 100, interval: int = 10, words: int = 3) -> Figure:
    """Draws the learning rate over the epochs, and when each word enters."""
    figure = Figure(figsize=(8.4, 2.6), layout="constrained")
    axes = figure.subplots()
    rates = [learning_rate(epoch, 0.002, epochs) for epoch in range(epochs)]
    axes.plot(range(epochs), rates, color=BLUE)
    for index in range(words):
        axes.axvline(index * interval, color=ORANGE, linestyle="--", linewidth=1)
        axes.text(index * interval + 0.6, 0.00023, f"word {index + 1}", color=ORANGE, rotation=90)
    axes.text(words * interval + 4, 0.0018, "all words in their slots: the rest of T", color=INK)
    axes.set(xlabel="epoch", ylabel="learning rate", xlim=(-1, epochs), ylim=(0, 0.0022))
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def main() -> None:
    """Writes the figures into a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    matplotlib.rcParams["svg.hashsalt"] = "ipl"  # the same bytes every time
    figures = {"method-prompt": draw_prompt(), "method-schedule": draw_schedule()}
    for name, figure in figures.items():
        figure.savefig(options.folder / f"{name}.svg", metadata={"Date": None}, facecolor="white")


if __name__ == "__main__":
    main()
