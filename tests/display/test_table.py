"""The one table: every writer, escaping, footnotes and empty tables."""

from __future__ import annotations

import csv
import re
from io import StringIO

import pytest
from rich.console import Console

from ipl.display.table import (
    DIFFERS,
    LATEX_FIT,
    Styled,
    Table,
    escape_latex,
    escape_markdown,
    tables_to_latex,
)
from tests.helpers.page_check import Page

NASTY = '<script>alert("x")</script> & \'*_|[bold]x[/bold] :smile: $%#{}~^\\'


def terminal(table: Table, width: int = 120) -> str:
    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(table.to_terminal())
    return captured.get()


@pytest.fixture
def table() -> Table:
    """Returns a table with everything that a table can have."""
    columns = ["dataset", "method", "accuracy", "seeds"]
    table = Table(columns, title="Results", caption="Accuracy in %", numbers=columns[2:])
    gap = table.footnote_mark(["seed 3 failed"])
    table.add_section(
        [["pets", "CoOp", "82.49 ± 0.31", "3"], ["", "CoOp + IPL", "80.00", "2" + gap]]
    )
    table.add_section([["average", "CoOp", DIFFERS + table.footnote_mark(["2 of 11"]), "3"]])
    table.notes.append("A note.")
    return table


def test_columns_of_numbers_are_named_or_recognised() -> None:
    rows = [["a", "1.5", "1,000", "", "x"], ["b", "\N{MINUS SIGN}2 %", "", "", "3"]]
    columns = ["name", "value", "count", "empty", "mixed"]
    assert Table(columns, rows).numeric == (False, True, True, False, False)
    assert Table(columns, rows, numbers=["mixed"]).numeric == (False, False, False, False, True)
    assert Table(columns, rows, numbers=[]).numeric == (False,) * 5
    assert Table(columns).numeric == (False,) * 5


def test_terminal(table: Table) -> None:
    assert [line.rstrip() for line in terminal(table).splitlines()] == [
        "Results",
        "Accuracy in %",
        "dataset  method          accuracy  seeds",
        "pets     CoOp        82.49 ± 0.31      3",
        "         CoOp + IPL         80.00  2 [1]",
        "average  CoOp               ≠ [2]      3",
        "[1] seed 3 failed",
        "[2] 2 of 11",
        "A note.",
    ]


def test_terminal_folds_rather_than_cuts() -> None:
    table = Table(["dataset", "value"], [["a-long-name" * 4, "1234567890" * 4]], numbers=["value"])
    text = terminal(table, width=30)
    assert "…" not in text
    assert "dataset" in text
    assert max(map(len, text.splitlines())) <= 30
    assert sum(character in "0123456789" for character in text) == 40


def test_styles_show_on_a_terminal_alone() -> None:
    table = Table(["state"], [[Styled("found", "green")]])
    console = Console(width=40, force_terminal=True, color_system="standard", highlight=False)
    with console.capture() as captured:
        console.print(table.to_terminal())
    assert "\x1b[32mfound" in captured.get()
    for text in (table.to_markdown(), table.to_latex(), table.to_csv(), table.to_html()):
        assert "found" in text
        assert "green" not in text


def test_markdown(table: Table) -> None:
    assert table.to_markdown().splitlines() == [
        "### Results",
        "",
        "Accuracy in %.",
        "",
        "| dataset | method | accuracy | seeds |",
        "| --- | --- | ---: | ---: |",
        "| pets | CoOp | 82.49 ± 0.31 | 3 |",
        "|  | CoOp + IPL | 80.00 | 2 [1] |",
        "| average | CoOp | ≠ [2] | 3 |",
        "",
        r"- \[1\] seed 3 failed",
        r"- \[2\] 2 of 11",
        "- A note.",
    ]


def test_markdown_escapes_everything() -> None:
    table = Table([NASTY, "n"], [[NASTY, "a\nb"], ["[x](http://y)", "z [1]"]], title=NASTY)
    table.notes.append(NASTY)
    text = table.to_markdown()
    assert not re.search(r"(?<!\\)[<>*_#~\[]", text.replace("### ", ""))
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3}
    assert "| a b |" in text  # a line break would end the row
    assert r"z \[1\]" in text  # no mark, as there are no footnotes
    assert escape_markdown("a_b") == r"a\_b"


def test_latex(table: Table) -> None:
    assert table.to_latex().splitlines() == [
        r"\begin{table}",
        r"\centering",
        r"\small",
        r"\caption{Results. Accuracy in \%.}",
        LATEX_FIT,
        r"\begin{tabular}{llrr}",
        r"\toprule",
        r"dataset & method & accuracy & seeds \\",
        r"\midrule",
        r"pets & CoOp & 82.49 $\pm$ 0.31 & 3 \\",
        r" & CoOp + IPL & 80.00 & 2\textsuperscript{1} \\",
        r"\midrule",
        r"average & CoOp & $\neq$\textsuperscript{2} & 3 \\",
        r"\bottomrule",
        r"\end{tabular}}",
        r"\par\smallskip\raggedright\footnotesize",
        r"[1] seed 3 failed\par",
        r"[2] 2 of 11\par",
        r"A note.\par",
        r"\end{table}",
    ]
    text = tables_to_latex([table, table])
    assert text.startswith("% needs \\usepackage{booktabs,graphicx}\n\n\\begin{table}")
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 2


def test_latex_escapes_everything() -> None:
    assert escape_latex("50%_of{a}\\b~c^d&e#f$") == (
        r"50\%\_of\{a\}\textbackslash{}b\textasciitilde{}c\textasciicircum{}d\&e\#f\$"
    )
    assert escape_latex("a < b | λ \N{MINUS SIGN}1") == r"a $<$ b \textbar{} $\lambda$ $-$1"
    text = Table(["a", NASTY], [[NASTY, "x\ny"]], caption=NASTY).to_latex()
    body = re.sub(r"\\[&%$#_{}]", "", text)
    assert [line.count("&") for line in body.splitlines() if line.endswith(r"\\")] == [1, 1]
    assert body.count("{") == body.count("}")
    assert r"& x y \\" in text


def test_html(table: Table) -> None:
    page = Page(table.to_html())
    assert len(page.of("tbody")) == 2
    assert [cell.get("class") for cell in page.of("th")[:4]] == [None, None, "n", "n"]
    assert {cell.get("scope") for cell in page.of("th")} == {"col", "row"}
    assert page.of("div")[0]["aria-label"] == "Results. Accuracy in %"
    assert page.of("div")[0]["tabindex"] == "0"  # the keyboard can scroll it
    assert len(page.of("sup")) == 2
    text = "".join(page.text)
    assert "2[1]" in text
    assert text.endswith("[1] seed 3 failed\n[2] 2 of 11\nA note.")


def test_an_empty_table_is_its_columns() -> None:
    empty = Table(["name", "value"])
    assert terminal(empty).split() == ["name", "value"]
    assert empty.to_markdown() == "| name | value |\n| --- | --- |\n"
    assert empty.to_csv() == "name,value\n"
    assert r"\caption" not in empty.to_latex()
    assert Page(empty.to_html()).of("tr") == [{}]


def test_csv_has_no_formulas_and_keeps_numbers() -> None:
    table = Table(
        ["name", "gain", "change", "mixed"],
        [
            ["=1+1", "-0.3", "+1.2 [1]", "-0.5"],
            ["@x", "+2", "-3", "+cmd|' /C calc'!A0"],
            ["\tx", "", "-4", "plain"],
        ],
        numbers=["gain", "change"],
    )
    assert list(csv.reader(StringIO(table.to_csv())))[1:] == [
        ["'=1+1", "-0.3", "+1.2 [1]", "-0.5"],
        ["'@x", "+2", "-3", "'+cmd|' /C calc'!A0"],
        ["'\tx", "", "-4", "plain"],
    ]
