"""Which settings of several runs differ; those about words are compared among runs with slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ipl.display.document import Block, Paragraph, Section
from ipl.display.table import Table
from ipl.training.result import FitResult

# What is saved of a search, by its name in Selection.
OF_SEARCH = ("lambda_", "preset", "word_embedding", "template", "search", "pool_size")


@dataclass(frozen=True)
class ComparedSettings:
    """Settings of several runs, as texts."""

    same: tuple[tuple[str, str], ...]  # with one value in all runs
    same_with_slots: tuple[tuple[str, str], ...]  # about words, if only some runs have slots
    differ: tuple[tuple[str, tuple[str, ...]], ...]  # a value per run, empty where it has none


def compare_settings(results: Sequence[FitResult]) -> ComparedSettings:
    """Returns what is the same and what differs.

    Settings about words mean nothing in a run without slots for them. What only one run has is
    not compared.
    """
    values = [_settings_of(result) for result in results]
    with_slots = [bool(result.layout.slots) for result in results]
    same, same_with_slots, differ = [], [], []
    for key in dict.fromkeys(key for each in values for key in each):
        row = tuple(each.get(key, "") for each in values)
        held = [value for value in row if value]
        if len(set(held)) > 1:
            differ.append((key, row))
        elif len(held) == len(results):
            same.append((key, held[0]))
        elif len(held) > 1 and [bool(value) for value in row] == with_slots:
            same_with_slots.append((key, held[0]))
    return ComparedSettings(tuple(same), tuple(same_with_slots), tuple(differ))


def _settings_of(result: FitResult) -> dict[str, str]:
    """Returns the settings that decide a run."""
    rows = {
        "learner": result.config.learner,
        "words": len(result.words),
        "backbone": result.backbone["name"],
        "weights": str(result.backbone["weights_sha256"])[:12],
        "classes": len(result.trained_classes),
        "class names": ", ".join(result.trained_classes),
        **result.training_settings,
        "placeholder": result.config.placeholder if result.layout.slots else None,
        "slots": result.config.arm,
    }
    texts = {
        key: f"{value:g}" if isinstance(value, float) else str(value)
        for key, value in rows.items()
        if value is not None
    }
    if result.selection is not None:
        of_search = {key: str(getattr(result.selection, key)) for key in OF_SEARCH}
        texts |= {key.strip("_").replace("_", " "): value for key, value in of_search.items()}
    return texts


# -- how it is shown ----------------------------------------------------------------------------


def settings_section(settings: ComparedSettings, names: Sequence[str]) -> Section:
    """Returns the settings that differ and those that are the same, for runs of these names."""
    rows = [[key, *values] for key, values in settings.differ]
    blocks: list[Block] = [
        Table(("setting", *names), rows, caption="Settings that differ")
        if rows
        else Paragraph("All settings that are saved with a run are the same."),
        Table(("setting", "value"), settings.same, caption="Settings that are the same"),
    ]
    if settings.same_with_slots:
        caption = "Settings about words that are the same in all runs with slots for words"
        blocks.append(Table(("setting", "value"), settings.same_with_slots, caption=caption))
    return Section("settings", "What sets them apart", tuple(blocks))
