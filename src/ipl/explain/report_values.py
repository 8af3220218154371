"""The report on one saved run as plain values, for JSON."""

from __future__ import annotations

from dataclasses import asdict, fields, is_dataclass
from typing import Any

from ipl.datasets.dataset import Item
from ipl.datasets.images import short_name
from ipl.explain.random_words import RandomComparison
from ipl.explain.report import Analysis


def report_values(analysis: Analysis) -> dict[str, Any]:
    """Return everything a report shows as plain values for JSON, without its images.

    The parts are dataclasses whose field names become keys of the JSON.

    Parameters
    ----------
    analysis : Analysis
        What `analyse_run` computed.

    Returns
    -------
    dict
        Dictionaries, lists, texts and numbers only.
    """
    run, result, run_images = analysis.run, analysis.run.result, analysis.run_images
    return {
        "run": str(run.folder),
        "prompt": result.prompt,
        "words": list(result.words),
        "classes": list(run.classes),
        "classes_as_saved": list(result.classes),
        "notes": list(analysis.notes),
        "results_when_trained": result.results,
        "data": None
        if run_images is None
        else {
            "source": run_images.source,
            "training_images": len(run_images.shots.items) if run_images.shots else None,
            "held_out_images": len(run_images.test.items),
            "left_out": run_images.left_out,
            "notes": list(run_images.notes),
        },
        "chosen": _plain(analysis.words),
        "stopped_before": _plain(run.selection.stopped_before) if run.selection else None,
        "held_out": _plain(analysis.test),
        "effects": _plain(analysis.effects),
        "chance": _random_words_values(analysis.random_words),
        "stability": _plain(analysis.stability),
        "outcomes": None
        if analysis.outcomes is None
        else {
            **_plain(analysis.outcomes),
            "comparison": analysis.outcomes.comparison.as_dict(),
        },
        "doubtful_images": _plain(analysis.doubtful_images),
        "vectors": _plain(analysis.vectors),
        "plain_learner": None
        if analysis.baseline is None
        else {"how": analysis.baseline.how, "vectors": _plain(analysis.baseline_vectors)},
        "made": _plain(analysis.provenance),
        "missing": [asdict(missing) for missing in analysis.missing],
    }


def _random_words_values(comparison: RandomComparison | None) -> dict[str, Any] | None:
    if comparison is None:
        return None
    ranks = {
        "sentence_training": comparison.sentence_rank,
        "sentence_held_out": comparison.held_out_rank,
        "prompt_held_out": comparison.prompt_rank,
    }
    return {**_plain(comparison), "places_by_loss": ranks, "of": len(comparison.draws) + 1}


def _plain(value: Any) -> Any:
    """Returns dataclasses as dictionaries, tuples as lists, and images by their names."""
    if isinstance(value, Item):
        return short_name(value.path)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {key: _plain(entry) for key, entry in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value
