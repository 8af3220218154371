"""`ipl backbones`: list the families of backbones, what each allows, and the weights found here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.filesize import decimal

from ipl.backbone.families import FAMILIES, FoundWeights, find_weights, hub_cache
from ipl.cli.output import console, print_json
from ipl.cli.shared_options import JSON
from ipl.display.table import Styled, Table, tables_to_terminal


def backbones(as_json: bool = JSON) -> None:
    """List the families of backbones, what each allows, and whose weights are on this machine."""
    found = list(find_weights())
    if as_json:
        families = [
            {
                "family": name,
                "title": family.title,
                "examples": list(family.examples),
                "search": family.search,
                "image_prompts": family.image_prompts,
                "exports": list(family.exports),
                "needs": family.needs or None,
            }
            for name, family in FAMILIES.items()
        ]
        weights = [{**vars(each), "folder": str(each.folder)} for each in found]
        print_json({"families": families, "cache": str(hub_cache()), "weights": weights})
        return
    terminal = console()
    terminal.print(tables_to_terminal(families_tables()))
    terminal.print(
        "\nsearch: with the prefix cache, only what follows a word's beginning is run; whole "
        "prompts are many times slower.\nimage prompts: maple and promptsrc; the other learners "
        "work with every backbone.\n\nWeights on this machine",
        markup=False,
    )
    terminal.print(weights_table(found).to_terminal())
    terminal.print(f"\nLooked in {hub_cache()}; a folder can be named too.", markup=False)


def families_tables() -> tuple[Table, Table]:
    """Returns what to type for each family, and what it allows; both fit into 80 columns."""
    families = [(Styled(family.title, "bold"), family) for family in FAMILIES.values()]
    names: list[list[Any]] = [
        [title, next(name for name in family.examples if name != "pocket"), family.needs or "-"]
        for title, family in families
    ]
    allowed: list[list[Any]] = [
        [title, family.search, family.image_prompts, ", ".join(family.exports)]
        for title, family in families
    ]
    return (
        Table(
            ["family", "--backbone, for example", "needs"],
            names,
            unwrapped=["--backbone, for example"],
        ),
        Table(
            ["family", "search", "image prompts", "ipl export --to"], allowed, unwrapped=["family"]
        ),
    )


def weights_table(found: Sequence[FoundWeights]) -> Table:
    """Returns a table of the models that can be loaded without network."""
    rows = [[each.name, FAMILIES[each.family].title, decimal(each.bytes)] for each in found]
    return Table(["--backbone", "family", "size"], rows, numbers=["size"], unwrapped=["--backbone"])
