"""Small pieces of HTML in the report's visual language; every text in them is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ipl.display.document import Table
from ipl.prompts.layout import prompt_pieces


def box(*inside: str) -> str:
    """Returns pieces in the frame that the style sheet speaks of."""
    return f'<div class="ipl">{"".join(inside)}</div>'


def text(sentence: str, kind: str = "plain") -> str:
    """Returns a paragraph; `kind` is plain, quiet, done, warning or error."""
    roles = {"error": "alert", "done": "status"}  # which are read out by themselves
    role = f' role="{roles[kind]}"' if kind in roles else ""
    return f'<p class="{kind}"{role}>{escape(sentence)}</p>'


def prompt(line: str) -> str:
    """Returns a prompt's line of text, to be read: vectors small, words bold."""
    found = []
    for piece in prompt_pieces(line):
        blank = "" if piece.text[0] in ".,;:!?" else " "
        found.append(f'{blank}<span class="{piece.kind}">{escape(piece.text)}</span>')
    return f'<p class="prompt">{"".join(found).strip()}</p>'


def table(of: Table, hidden_caption: bool = False) -> str:
    """Returns a table, which scrolls by itself where it is too wide."""

    def cell(place: int, content: str) -> str:
        tag = 'th scope="row"' if place == 0 else "td"
        kind = ' class="n"' if of.numeric[place] else ""
        return f"<{tag}{kind}>{escape(content)}</{tag.split()[0]}>"

    head = "".join(
        f'<th scope="col"{" class=n" if numeric else ""}>{escape(name)}</th>'
        for name, numeric in zip(of.columns, of.numeric, strict=True)
    )
    rows = "".join(
        f"<tr>{''.join(cell(place, content) for place, content in enumerate(row))}</tr>"
        for row in of.rows
    )
    kind = ' class="hidden"' if hidden_caption else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(of.caption)}"><table>'
        f"<caption{kind}><span>{escape(of.caption)}</span></caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )


def figure(title: str, svg: str, numbers: Table | None = None) -> str:
    """Returns a drawing under its title, with its numbers to open."""
    more = ""
    if numbers is not None:
        more = f"<details><summary>The numbers</summary>{table(numbers, True)}</details>"
    return f"<figure><figcaption>{escape(title)}</figcaption>{svg}{more}</figure>"


def beside(figures: Sequence[str]) -> str:
    """Returns drawings side by side where there is room."""
    return f'<div class="beside">{"".join(figures)}</div>' if figures else ""


def image(uri: str, alt: str) -> str:
    """Returns a small image."""
    return f'<img src="{uri}" alt="{escape(alt)}" loading="lazy">'


def code(title: str, line: str) -> str:
    """Returns a line of text as it stands."""
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>"
        f'<pre tabindex="0"><code>{escape(line)}</code></pre></figure>'
    )
