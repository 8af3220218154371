"""`ipl backbones`: list the families of backbones, what each allows, and the weights found here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ipl.cli.output import console, print_json
from ipl.cli.shared_options import JSON
from ipl.display.table import Styled, Table

if TYPE_CHECKING:
    from ipl.backbone.families import FoundWeights


def backbones(as_json: bool = JSON) -> None:
    """List the families of backbones, what each allows, and whose weights are on this machine."""
    from ipl.backbone.families import FAMILIES, find_weights, hub_cache

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
    terminal.print(families_table().to_terminal())
    terminal.print(
        "\nsearch: with the prefix cache, only what follows a word's beginning is run; whole "
        "prompts are many times slower.\nimage prompts: maple and promptsrc; the other learners "
        "work with every backbone.\n\nWeights on this machine",
        markup=False,
    )
    terminal.print(weights_table(found).to_terminal())
    terminal.print(f"\nLooked in {hub_cache()}; a folder can be named too.", markup=False)


def families_table() -> Table:
    """Returns a table of the families, with one example each."""
    from ipl.backbone.families import FAMILIES

    rows: list[list[Any]] = [
        [
            Styled(family.title, "bold"),
            family.search,
            family.image_prompts,
            ", ".join(family.exports),
            family.needs or "-",
            next(name for name in family.examples if name != "pocket"),
        ]
        for family in FAMILIES.values()
    ]
    columns = ["family", "search", "image prompts", "ipl export --to", "needs", "--backbone"]
    return Table(columns, rows, unwrapped=["--backbone"])


def weights_table(found: Sequence[FoundWeights]) -> Table:
    """Returns a table of the models that can be loaded without network."""
    from rich.filesize import decimal

    from ipl.backbone.families import FAMILIES

    rows = [[each.name, FAMILIES[each.family].title, decimal(each.bytes)] for each in found]
    return Table(["--backbone", "family", "size"], rows, numbers=["size"], unwrapped=["--backbone"])
