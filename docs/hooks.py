"""What the documentation site adds to MkDocs.

- Pages link to each other and to other files of the repository as they do on a code host, so that
  they can be read in both places. A file outside of `docs` that a page links to becomes a page too.
- Formulas are drawn.
- The API reference has the settings that a decorator adds to docstrings.
- A page lists the commands with their options.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from html import escape, unescape
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from typing import Any

from griffe import Extension, dynamic_import
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
DOCS, OUTSIDE = "docs/", "repository/"
ALWAYS = ("CHANGELOG.md", "CONTRIBUTING.md")  # they are in the navigation
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#|/)([^)#\s]+)")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
WITH_SETTINGS = {  # the code has `**settings` where the docstring has all of them
    "ipl.classifier.PromptClassifier",
    "ipl.config.FitConfig",
    "ipl.select.select_words",
}
SOURCE_PAGE = "---\nsearch: {{exclude: true}}\n---\n\n# {path}\n\n````{kind}\n{text}\n````\n"
COMMANDS = "<!-- commands -->"  # where a page lists them
NO_DEFAULT = ("None", "False", "[]", "()")
SIZE = 100.0  # points that a formula is drawn at; the page scales it to its text


def on_files(files: Files, config: Any) -> Files:
    """Adds the files outside of `docs` that pages link to, and those that these link to."""
    texts = {DOCS + file.src_uri: file.content_string for file in files.documentation_pages()}
    waiting = [*ALWAYS, *(link for path, text in texts.items() for link in _outside(path, text))]
    while waiting:
        path = waiting.pop()
        if files.get_file_from_path(_place(path)) is None:
            text = (ROOT / path).read_text(encoding="utf-8")
            if path.endswith(".md"):
                waiting += _outside(path, text)
            else:
                text = SOURCE_PAGE.format(path=path, kind=Path(path).suffix[1:], text=text)
            files.append(File.generated(config, _place(path), content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lists the commands, and points links at the places that files have on the site."""
    if COMMANDS in markdown:
        markdown = markdown.replace(COMMANDS, list_commands())
    uri = page.file.src_uri
    path = uri.removeprefix(OUTSIDE) if uri.startswith(OUTSIDE) else DOCS + uri

    def moved(match: re.Match[str]) -> str:
        return relpath(_place(_target(path, match[1])), dirname(uri) or ".")

    return LINK.sub(moved, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Draws the formulas of a page, so that it needs neither scripts nor fonts for them."""
    return FORMULA.sub(lambda match: draw_formula(unescape(match[2]), match[1] == "div"), html)


def draw_formula(formula: str, is_block: bool = False) -> str:
    """Returns a formula in LaTeX as an SVG drawing in the colour and size of the text."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    source = " ".join(formula.split())
    path = TextPath((0, 0), f"${source}$", size=SIZE, prop=FontProperties(math_fontfamily="cm"))
    box = path.get_extents()
    commands = {1: "M", 2: "L", 3: "Q", 4: "C", 79: "Z"}
    drawn = "".join(
        commands[int(code)] + ("" if code == 79 else " ".join(f"{value:.0f}" for value in points))
        for points, code in path.iter_segments(curves=True, simplify=False)
    )
    left, top, width, height = box.x0, -box.y1, box.width, box.height
    svg = (
        f'<svg class="formula" role="img" aria-label="{escape(source)}" '
        f'viewBox="{left:.0f} {top:.0f} {width:.0f} {height:.0f}" '
        f'style="width:{width / SIZE:.3f}em;height:{height / SIZE:.3f}em;'
        f'vertical-align:{box.y0 / SIZE:.3f}em">'
        f'<path transform="scale(1 -1)" d="{drawn}"/></svg>'
    )
    return f'<div class="formula">{svg}</div>' if is_block else svg


def list_commands() -> str:
    """Returns every command of `ipl` in Markdown: what it does, its arguments and its options."""
    import typer

    from ipl.cli.main import make_app

    sections = _sections(typer.main.get_command(make_app()), "ipl")
    return "\n\n".join(['<div class="commands" markdown>', *sections, "</div>"])


class SettingsInDocstrings(Extension):
    """Gives the reference the docstrings that the package has when it is imported."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Replaces the docstring in the source by the complete one."""
        if obj.path in WITH_SETTINGS:
            obj.docstring.value = inspect.cleandoc(dynamic_import(obj.path).__doc__)


def _sections(command: Any, name: str, parent: Any = None) -> Iterator[str]:
    """Yields the section of a command, and those of its sub-commands."""
    context = command.context_class(command, info_name=name, parent=parent)
    path = context.command_path
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    yield f"## {path}\n\n{inspect.cleandoc(command.help)}\n\n```text\n{usage}\n```"
    for kind in ("argument", "option"):
        parameters = [each for each in command.params if each.param_type_name == kind]
        rows = [_row(each, context) for each in parameters if not each.hidden]
        if rows:
            yield "\n".join([f"| {kind.capitalize()} | |", "|---|---|", *rows])
    for each, sub_command in sorted(getattr(command, "commands", {}).items()):
        yield from _sections(sub_command, each, context)


def _row(parameter: Any, context: Any) -> str:
    """Returns the row of an argument or option: its names, what it means, its default."""
    names, _ = parameter.get_help_record(context)
    meaning = re.sub(r"([*|])", r"\\\1", parameter.help)
    if str(parameter.default) not in NO_DEFAULT:
        meaning += f" Default: `{parameter.default}`."
    return f"| `{names}` | {meaning} |"


def _outside(path: str, text: str) -> Iterator[str]:
    """Yields the files outside of `docs` that a page links to."""
    targets = (_target(path, link) for link in LINK.findall(text))
    yield from (target for target in targets if not target.startswith(DOCS))


def _target(path: str, link: str) -> str:
    """Returns the path of the file that a page links to, from the root of the repository."""
    return normpath(join(dirname(path), link))


def _place(path: str) -> str:
    """Returns the path of a file on the site."""
    if path.startswith(DOCS):
        return path.removeprefix(DOCS)
    return OUTSIDE + path + ("" if path.endswith(".md") else ".md")
