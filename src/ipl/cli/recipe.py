"""`ipl recipe`: what the package can run of the paper, ready to be read, copied and changed."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from ipl.bench.recipe import read_recipe, recipe_names, recipe_text
from ipl.cli.output import command_line, console, print_json
from ipl.cli.shared_options import JSON
from ipl.display.table import Table
from ipl.support.errors import ConfigError
from ipl.support.files import write_text

app = typer.Typer(
    help="List, show and copy the recipes: one small YAML file for each row of the paper.",
    no_args_is_help=True,
)


@app.command("list")
def list_recipes(as_json: bool = JSON) -> None:
    """List the recipes of the package."""
    rows = [{"name": name, "title": read_recipe(name).title} for name in recipe_names()]
    if as_json:
        print_json({"recipes": rows})
        return
    cells = [[row["name"], row["title"]] for row in rows]
    console().print(Table(["recipe", "what it runs"], cells).to_terminal())
    command = command_line("bench", "--recipe", "NAME", "--data", "ROOT", "--out", "DIR")
    console().print(f"Run one:  {command}", markup=False, soft_wrap=True)


@app.command("show")
def show(name: str = typer.Argument(metavar="NAME", help="A recipe's name, or a file.")) -> None:
    """Print the YAML of a recipe."""
    print(recipe_text(name), end="")


@app.command("copy")
def copy(
    name: str = typer.Argument(metavar="NAME", help="A recipe's name, or a file."),
    path: Path = typer.Argument(metavar="FILE", help="The file to write."),
    overwrite: bool = typer.Option(
        False, "--overwrite", help="Replace the file if it already exists."
    ),
) -> None:
    """Copy a recipe, to change it and run `ipl bench --recipe FILE`."""
    text = recipe_text(name)
    if os.path.exists(path) and not overwrite:
        raise ConfigError(f"{path} already exists; --overwrite replaces it.")
    write_text(path, text)
    command = command_line("bench", "--recipe", path, "--data", "ROOT", "--out", "DIR")
    console().print(f"Saved:  {path}\nNext:   {command}", markup=False, soft_wrap=True)
