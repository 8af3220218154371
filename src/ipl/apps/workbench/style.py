"""How the page looks: the report's colours, and letters that are on every machine."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import gradio as gr

FONTS = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif"]
BLUES = (  # from the lightest to the darkest, of one hue
    "#f0f7fc", "#dcedf8", "#b9dbf1", "#8cc6ef", "#62b0e8", "#0065a3",
    "#005a91", "#00507f", "#00426a", "#003554", "#00243a",
)  # fmt: skip
MONO = ["ui-monospace", "Menlo", "Consolas", "monospace"]


def theme() -> Any:
    """Returns a theme that fetches nothing from anywhere."""
    colours = {
        "body_background_fill": ("#ffffff", "#14181c"),
        "body_text_color": ("#1c2126", "#e8ebee"),
        "body_text_color_subdued": ("#545d66", "#a9b2bb"),
        "background_fill_primary": ("#ffffff", "#14181c"),
        "background_fill_secondary": ("#f3f5f7", "#1d2329"),
        "block_background_fill": ("#ffffff", "#14181c"),
        "block_label_text_color": ("#1c2126", "#e8ebee"),
        "block_title_text_color": ("#1c2126", "#e8ebee"),
        "block_info_text_color": ("#545d66", "#a9b2bb"),
        "border_color_primary": ("#c3cad1", "#48525c"),
        "block_border_color": ("#d5dae0", "#39424b"),
        "input_background_fill": ("#ffffff", "#1d2329"),
        "input_border_color": ("#8b949e", "#5d6873"),
        "input_placeholder_color": ("#6a737c", "#8f99a3"),
        "slider_color": ("#0065a3", "#62b0e8"),
        "button_primary_background_fill": ("#0065a3", "#62b0e8"),
        "button_primary_background_fill_hover": ("#00507f", "#8cc6ef"),
        "button_primary_text_color": ("#ffffff", "#14181c"),
        "button_secondary_background_fill": ("#f3f5f7", "#2a323a"),
        "button_secondary_background_fill_hover": ("#e4e8ec", "#39424b"),
        "button_secondary_text_color": ("#1c2126", "#e8ebee"),
        "button_secondary_border_color": ("#8b949e", "#5d6873"),
    }
    chosen = {"input_border_width": "1px", "button_border_width": "1px"}
    for name, (light, dark) in colours.items():
        chosen[name], chosen[f"{name}_dark"] = light, dark
    return gr.themes.Base(primary_hue=gr.themes.Color(*BLUES), font=FONTS, font_mono=MONO).set(
        **chosen
    )


def css() -> str:
    """Returns the style sheet of what the page draws itself."""
    return (files("ipl.apps.workbench") / "style.css").read_text(encoding="utf-8")
