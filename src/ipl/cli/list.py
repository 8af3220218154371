"""`ipl list`: what there is to choose from, and what is cached."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import typer
from rich.filesize import decimal

from ipl.backbone.families import FAMILIES, POCKET, find_weights, hub_cache
from ipl.backbone.loading import load_backbone
from ipl.bench.recipe import read_recipe, recipe_names, recipe_text
from ipl.cli.output import command_line, console, echo, on_interrupt, print_json
from ipl.cli.shared_options import BACKBONE, JSON
from ipl.datasets.benchmarks import BENCHMARKS, DOMAINS, template_of
from ipl.display.table import Styled, Table, tables_to_terminal
from ipl.learners.hyperparameters import PROTOCOLS
from ipl.learners.registry import known_learners, learner_class
from ipl.support.cache import Cache

WORDS = 3  # of the prompts that `ipl list learners` shows
SETTINGS = {"epochs": "T", "interval": "t", "batch": "batch", "lr": "lr", "m": "m"}

app = typer.Typer(
    help="List learners, backbones, datasets, recipes, or what is cached.", no_args_is_help=True
)


@app.command()
def learners(backbone: str = BACKBONE, as_json: bool = JSON) -> None:
    """List the learners: published hyperparameters, number of parameters, prompt."""
    clip = load_backbone(backbone, "cpu")
    rows: list[dict[str, Any]] = []
    for name in known_learners():
        learner = learner_class(name)
        if learner.prompts_images and not clip.image_layers:
            continue  # this backbone takes no image prompts
        for words in (0, WORDS):
            published = learner.hyperparameters(words)
            built = learner.from_hyperparameters(clip, ["cat", "dog"], words, published)
            rows.append(
                {
                    "learner": name,
                    "words": words,
                    "prompt": built.layout.readable(),
                    "parameters": sum(parameter.numel() for parameter in built.parameters()),
                    "image_prompts": learner.prompts_images,
                    "recipes": {p: vars(learner.hyperparameters(words, p)) for p in PROTOCOLS},
                }
            )
    if as_json:
        print_json({"backbone": backbone, "learners": rows})
        return
    numbers = ["words", "parameters", *SETTINGS.values()]
    cells = []
    for row in rows:
        published = row["recipes"][PROTOCOLS[0]]
        settings = [str(published[name]) for name in SETTINGS]
        prompt = row["prompt"].replace("*_*", "*word*")
        name = Styled(row["learner"], "bold")
        cells.append([name, str(row["words"]), f"{row['parameters']:,}", *settings, prompt])
    table = Table(["learner", *numbers, "prompt"], cells, numbers=numbers)
    console().print(table.to_terminal())
    echo(
        "\nT epochs in all, t after each word, m soft vectors in a group; for base-to-novel (all: "
        "--json)."
    )


@app.command()
def backbones(as_json: bool = JSON) -> None:
    """List the families of backbones, what each allows, and whose weights are on this machine."""
    found = list(find_weights())
    if as_json:
        families = [{"family": name, **asdict(family)} for name, family in FAMILIES.items()]
        weights = [{**vars(each), "folder": str(each.folder)} for each in found]
        print_json({"families": families, "cache": str(hub_cache()), "weights": weights})
        return
    example = "--backbone, for example"
    names, abilities = [], []
    for family in FAMILIES.values():
        title = Styled(family.title, "bold")
        names.append([title, next(n for n in family.examples if n != POCKET), family.needs or "-"])
        exports = ", ".join(family.exports)
        abilities.append([title, family.search, family.image_prompts, exports])
    tables = (
        Table(["family", example, "needs"], names),
        Table(["family", "search", "image prompts", "ipl export --to"], abilities),
    )
    here = [[each.name, FAMILIES[each.family].title, decimal(each.bytes)] for each in found]
    terminal = console()
    terminal.print(tables_to_terminal(tables))
    echo(
        "\nA search of whole prompts is many times slower than one with the prefix cache. Image "
        "prompts are for maple and promptsrc.\n\nWeights on this machine"
    )
    weights_table = Table(["--backbone", "family", "size"], here)
    terminal.print(weights_table.to_terminal())
    echo(f"\nLooked in {hub_cache()}; a folder can be named too.")


@app.command()
def datasets(as_json: bool = JSON) -> None:
    """List the datasets that are known by name: sizes, templates, folders."""
    published = (BENCHMARKS | DOMAINS).values()
    if as_json:
        print_json({"datasets": [asdict(each) for each in published]})
        return
    rows = [
        [b.name, f"{b.classes:,}", f"{b.test_images:,}", b.template, b.folder] for b in published
    ]
    rows.append(["scenes", "20", "480", template_of("scenes"), "(in the package)"])
    columns = ["name", "classes", "test images", "template", "folder"]
    console().print(Table(columns, rows, numbers=columns[1:3]).to_terminal())


@app.command()
def recipes(
    name: str | None = typer.Argument(
        None, metavar="NAME", help="Print the YAML of this recipe, to be changed and run."
    ),
    as_json: bool = JSON,
) -> None:
    """List the recipes: the rows and ablations of the paper as plans for `ipl bench`."""
    if name is not None:
        echo(recipe_text(name), end="")
        return
    rows = [{"name": each, "title": read_recipe(each).title} for each in recipe_names()]
    if as_json:
        print_json({"recipes": rows})
        return
    cells = [[row["name"], row["title"]] for row in rows]
    console().print(Table(["recipe", "what it runs"], cells).to_terminal())
    command = command_line("bench", "--recipe", "NAME", "--data", "ROOT", "--out", "DIR")
    echo(f"\nRun one:  {command}")


@app.command()
def cache(
    clear: bool = typer.Option(False, "--clear", help="Remove everything in it."),
    as_json: bool = JSON,
) -> None:
    """Show the size of the results that are kept on disk for later commands, or remove them."""
    store = Cache()
    report: dict[str, Any] = {"folder": str(store.folder)}
    if clear:
        with on_interrupt(lambda: "a part of the cache was not removed."):
            count, size = store.clear()
        report["removed"] = {"entries": count, "bytes": size}
        lines = [f"Removed {count:,} entries ({decimal(size)}) from {store.folder}."]
    else:
        usage = store.usage()
        report["kinds"] = {name: {"entries": n, "bytes": size} for name, (n, size) in usage.items()}
        lines = [f"The cache is in {store.folder}"]
        lines += [f"  {name:<12}{n:>10,}{decimal(size):>12}" for name, (n, size) in usage.items()]
        lines.append(f"To remove all of it: {command_line('list', 'cache', '--clear')}")
    if as_json:
        print_json(report)
    else:
        echo("\n".join(lines))
