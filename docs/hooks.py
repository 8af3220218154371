"""What the documentation site needs beside MkDocs."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from griffe import Extension, dynamic_import

DOCS = Path(__file__).parent
LINK = re.compile(r"\[([^\[\]]*)\]\((\.\./[^)#\s]+)[^)]*\)")
WITH_SETTINGS = {  # the code has `**settings` where the docstring has all of them
    "ipl.classifier.PromptClassifier",
    "ipl.config.FitConfig",
    "ipl.select.select_words",
}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turns links to files outside of `docs`, which the site does not have, into text."""
    folder = Path(page.file.abs_src_path).parent

    def shown(link: re.Match[str]) -> str:
        return link[0] if (folder / link[2]).resolve().is_relative_to(DOCS) else link[1]

    return LINK.sub(shown, markdown)


class SettingsInDocstrings(Extension):
    """Gives the reference the docstrings that the package has when it is imported."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Replaces the docstring in the source by the complete one."""
        if obj.path in WITH_SETTINGS:
            obj.docstring.value = inspect.cleandoc(dynamic_import(obj.path).__doc__)
