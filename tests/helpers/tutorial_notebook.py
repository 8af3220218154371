"""The notebook of the first tutorial, made from its page and executed; see `make notebook`."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tests.helpers.tutorials import BLOCK, TUTORIALS

PAGE = TUTORIALS / "your-images.md"
NOTEBOOK = PAGE.with_suffix(".ipynb")


def make_notebook(page: str) -> NotebookNode:
    """Returns a page as a notebook: a code cell for each block of Python, without outputs.

    The outputs that the page shows are left out; those of the cells take their place.
    """
    cells, position = [], 0
    for match in BLOCK.finditer(page):
        if match[1] == "python":
            cells += [new_markdown_cell(page[position : match.start()].strip())]
            cells += [new_code_cell(match[2].strip())]
            position = match.end()
    cells.append(new_markdown_cell(page[position:].strip()))
    cells = [cell for cell in cells if cell.source]
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    metadata = {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
        "language_info": {"name": "python"},
    }
    return new_notebook(cells=cells, metadata=metadata)


def execute(notebook: NotebookNode, folder: Path) -> None:
    """Runs a notebook in a folder; outputs are kept, but not what is printed on standard error."""
    metadata = dict(notebook.metadata)
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=600, record_timing=False, resources=resources).execute()
    notebook.metadata = NotebookNode(metadata)  # without the versions of this machine
    for cell in (cell for cell in notebook.cells if cell.cell_type == "code"):
        cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]


def main() -> None:
    """Writes the notebook beside its page."""
    notebook = make_notebook(PAGE.read_text(encoding="utf-8"))
    with TemporaryDirectory() as folder:
        os.environ["IPL_CACHE"] = str(Path(folder) / "cache")
        execute(notebook, Path(folder))
    nbformat.write(notebook, NOTEBOOK)


if __name__ == "__main__":
    main()
