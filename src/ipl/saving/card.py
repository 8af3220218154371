"""The card a saved prompt carries: what it says, how it was made, how to use it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined

from ipl.support.hub import is_on_hub


def model_card(config: Mapping[str, Any], where: str = "path/to/this/folder") -> str:
    """Returns README.md, a model card in Hugging Face's form, from a run's config.

    `where` is what a reader loads the prompt by: a folder, or its name on the hub.
    """
    source = (files("ipl.saving") / "card.md.jinja").read_text(encoding="utf-8")
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    name = config["backbone"]["name"]
    values = {**config, "base_model": name if is_on_hub(name) else None, "where": where}
    return environment.from_string(source).render(values)
