"""The facts of a report as plain values for JSON."""

from __future__ import annotations

from dataclasses import asdict, fields, is_dataclass
from typing import Any

from ipl.datasets.dataset import Item
from ipl.datasets.images import short_name
from ipl.explain.analysis import Analysis
from ipl.explain.random_words import place_among
from ipl.explain.ratings.results import RunRating


def report_values(analysis: Analysis, ratings: RunRating | None = None) -> dict[str, Any]:
    """Returns everything a report tells, without its images; raters stay without names."""
    saved, run_images = analysis.subject.saved, analysis.run_images
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
        if run_images is None
        else {
            "source": run_images.source,
            "training_images": len(run_images.shots.items),
            "held_out_images": len(run_images.test.items),
            "left_out": run_images.left_out,
            "notes": list(run_images.notes),
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
    """Returns dataclasses as dictionaries, tuples as lists, and images by their names."""
    if isinstance(value, Item):
        return short_name(value.path)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain_values(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key: plain_values(one) for key, one in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {key: plain_values(one) for key, one in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [plain_values(one) for one in value]
    return value
