"""The facts of a report as plain values for JSON."""

from __future__ import annotations

from dataclasses import asdict, fields, is_dataclass
from typing import Any

from ipl.analysis import Analysis, place_among
from ipl.datasets import Item
from ipl.rating import RunRating
from ipl.reports.account.shown import file_name


def report_values(analysis: Analysis, ratings: RunRating | None = None) -> dict[str, Any]:
    """Returns everything a report tells, without its pictures; raters stay without names."""
    saved, pictures = analysis.subject.saved, analysis.pictures
    selection = analysis.subject.selection
    return {
        "run": str(analysis.subject.folder),
        "prompt": saved.prompt,
        "words": list(saved.words),
        "classes": list(analysis.subject.classes),
        "classes_as_saved": list(saved.classes),
        "notes": list(analysis.notes),
        "results_when_trained": saved.results,
        "data": None
        if pictures is None
        else {
            "source": pictures.source,
            "training_images": len(pictures.shots.items),
            "held_out_images": len(pictures.test.items),
            "left_out": pictures.left_out,
            "notes": list(pictures.notes),
        },
        "chosen": plain_values(analysis.words),
        "diminishing_returns": selection.diminishing_returns() if selection else None,
        "held_out": plain_values(analysis.test),
        "effects": plain_values(analysis.effects),
        "chance": _chance(analysis),
        "stability": plain_values(analysis.stability),
        "people": plain_values(ratings),
        "outcomes": plain_values(analysis.outcomes),
        "vectors": plain_values(analysis.vectors),
        "plain_learner": None
        if analysis.plain is None
        else {"how": analysis.plain.how, "vectors": plain_values(analysis.plain_vectors)},
        "made": plain_values(analysis.made),
        "missing": [asdict(missing) for missing in analysis.missing],
    }


def _chance(analysis: Analysis) -> Any:
    chance = analysis.chance
    if chance is None:
        return None
    chosen, draws = chance.chosen, chance.draws
    places = {
        "sentence_training": place_among(chosen.shots_loss, [d.shots_loss for d in draws]),
        "sentence_held_out": place_among(chosen.test_loss, [d.test_loss for d in draws]),
        "prompt_held_out": place_among(chosen.prompt.loss, [d.prompt.loss for d in draws]),
    }
    return {**plain_values(chance), "places_by_loss": places, "of": len(draws) + 1}


def plain_values(value: Any) -> Any:
    """Returns dataclasses as dictionaries, tuples as lists, and pictures by their names."""
    if isinstance(value, Item):
        return file_name(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain_values(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key: plain_values(one) for key, one in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {key: plain_values(one) for key, one in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [plain_values(one) for one in value]
    return value
