"""The report on one saved run: its answers and its sections, as a document."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from ipl._version import __version__
from ipl.backbone.backbone import Backbone
from ipl.backbone.families import suggest_backbone
from ipl.datasets.dataset import Item
from ipl.datasets.images import short_name
from ipl.display.document import Document, Paragraph, Section
from ipl.display.formatting import percent, range_of_percent, several
from ipl.explain.accuracy import accuracy_section
from ipl.explain.effects import effects_section, word_effects
from ipl.explain.inputs import ReportData, find_images, load_run
from ipl.explain.labels import labels_section
from ipl.explain.learning_curve import learning_curve_section
from ipl.explain.mistakes import mistakes_section
from ipl.explain.provenance import provenance_section
from ipl.explain.stability import stability_section
from ipl.explain.vectors import vectors_section
from ipl.explain.words import words_section
from ipl.prompts.layout import prompt_pieces
from ipl.support.files import check_exists
from ipl.support.progress import SILENT, Reporter
from ipl.training.comparison import (
    ABOUT_INTERVALS,
    NAMES,
    NO_IMAGES,
    WITHOUT_WORDS,
    Comparison,
    compare_with_baselines,
)
from ipl.training.words_matter import words_statement
from ipl.words.pool import read_word_list

# The sections in their order; one that has nothing to show returns None.
SECTIONS: tuple[Callable[[ReportData], Section | None], ...] = (
    accuracy_section,
    mistakes_section,
    labels_section,
    learning_curve_section,
    words_section,
    effects_section,
    stability_section,
    vectors_section,
    provenance_section,
)
LOOKED_AT = 2000  # held-out images, drawn at random if there are more
FOOT = (
    f"Written by ipl {__version__}. The words lower the loss of one backbone on a few images; "
    "they are no explanation of a single decision. What each part means and how it is computed: "
    "docs/report.md in ipl's repository."
)


def make_report(
    folder: Path,
    data: Path | None = None,
    backbone: str | Backbone | None = None,
    device: str = "auto",
    words_file: Path | None = None,
    cache: bool = True,
    reporter: Reporter = SILENT,
    resamples: int = 5,
) -> Document:
    """Report what a saved run has learnt.

    Parameters
    ----------
    folder : Path
        The folder of the run, or owner/name on the Hugging Face hub.
    data : Path, optional
        The dataset that the run was trained on. On other labelled images of its classes, what needs
        the training images is left out; without any, only what is saved with the run is shown.
    backbone : str or Backbone, optional
        Where the backbone's weights are now. Default: as saved with the run.
    device : str
        The device to load the backbone on.
    words_file : Path, optional
        The word list that the run chose from, if it was not the bundled one.
    cache : bool
        Whether image features and word searches are read from and written to the disk cache.
    reporter : Reporter
        Receives progress and messages.
    resamples : int
        How often words are chosen again for other draws of the training images; 0: never.

    Returns
    -------
    Document
        The report, for `ipl.display.page.as_html` and `report_values`.

    Raises
    ------
    DataError
        If the data does not exist, has no class of the run, or no image that was not used in
        training; or if `words_file` is not the list that the run chose from.
    """
    if data is not None:
        check_exists(data)
    if words_file is not None:
        read_word_list(words_file)
    run = load_run(folder, backbone, device, words_file, cache, reporter)
    result = run.result
    shared = ReportData(run, result.comparison, resamples, reporter=reporter)
    if data is not None:
        shared = _measure(data, shared)
    made = (make(shared) for make in (*SECTIONS, _missing_section))
    found, comparison = shared.images, shared.comparison
    return Document(
        title=f"What “{folder.resolve().name}” has learnt",
        subtitle=f"{result.config.learner} on {result.backbone['name']}, {result.data}",
        prompt=prompt_pieces(result.prompt),
        lead=("[V] is a trained vector that no one can read; the class name stands at the end.",),
        warnings=(
            *run.notes,
            *(found.notes if found else ()),
            *(comparison.notes if comparison else ()),
            *filter(None, [suggest_backbone(result.backbone["name"])]),
        ),
        sections=tuple(section for section in made if section is not None),
        foot=FOOT,
        answers={**_answers(shared), "Do the words matter?": words_matter(shared)},
        table=comparison.table() if comparison else None,
        values={
            "run": str(folder),
            "prompt": result.prompt,
            "words": result.words,
            "classes": run.classes,
            "classes_as_saved": result.classes,
            "results_when_trained": result.results,
            "data": found
            and {
                "source": found.source,
                "training_images": len(found.shots.items) if found.shots else None,
                "held_out_images": len(found.test.items),
                "left_out": found.left_out,
            },
        },
    )


def _measure(path: Path, data: ReportData) -> ReportData:
    """The images of a dataset, and what several sections need to know of them."""
    run, reporter = data.run, data.reporter
    images = find_images(run, path, LOOKED_AT, reporter)
    comparison = compare_with_baselines(
        *(run.learner, images.prompt, images.shots, images.test, run.result.config),
        head=None if run.result.head is None else (run.result.head, images.learnt),
    )
    if images.shots is not None and data.comparison is not None:
        comparison = with_saved(comparison, data.comparison)
    return replace(
        data,
        comparison=comparison,
        images=images,
        effects=word_effects(run, images, reporter),
    )


def with_saved(comparison: Comparison, saved: Comparison) -> Comparison:
    """The comparison with the prompt without words that the fit trained, if it did.

    Its counts are for these images only if the prompt's own counts are the same as at the fit.
    """
    method = saved.of(WITHOUT_WORDS)
    same_prompt = saved.prompt.correct == comparison.prompt.correct
    if method is None or not same_prompt or saved.images != comparison.images:
        return comparison
    return comparison.with_method(method)


def _missing_section(data: ReportData) -> Section | None:
    """Which parts this report does not have, and why."""
    run, missing = data.run, dict[str, str]()
    if data.images is None:
        missing["Mistakes, label errors, the learning curve, what each word does"] = (
            "they need images, and a saved run names its data but does not say where it is: give "
            "--data."
        )
    elif data.images.shots is None:
        missing["The linear probe, label errors, the learning curve, whether words come back"] = (
            "they need the images that the prompt was trained on, and the data does not have all "
            "of them."
        )
    if run.selection is not None and run.words and run.pool is None:
        missing["Whether words come back"] = (
            "the run chose from a list of words that is not the bundled one: give --words-file."
        )
    if not missing:
        return None
    blocks = tuple(Paragraph(f"{part}: {why}") for part, why in missing.items())
    summary = f"{'; '.join(missing)}."
    values = {"missing": missing}
    return Section("missing", "What this report does not have", blocks, summary, values)


# -- the answers ----------------------------------------------------------------------------------


def _answers(data: ReportData) -> dict[str, str]:
    """What to use, and how good it is beside what it must beat."""
    comparison = data.comparison
    if comparison is None:
        return {"How good is it?": NO_IMAGES}
    use = comparison.recommendation.removeprefix("Recommendation: ")
    learnt = NAMES[comparison.learnt.name][1]
    sentences = [
        f"{'On' if data.images else 'When it was trained: on'} "
        f"{several(comparison.total, 'held-out image')} {learnt} is right for "
        f"{percent(comparison.accuracy())} ({range_of_percent(*comparison.interval())}).",
        *comparison.verdict[:-1],
        ABOUT_INTERVALS,
    ]
    return {
        "What should I use?": f"{use[0].upper()}{use[1:]}",
        "How good is it?": " ".join(sentences),
    }


def words_matter(data: ReportData) -> str:
    """Whether the words matter, from what was measured now, else when it was trained."""
    result, comparison, saved = data.run.result, data.comparison, data.run.result.comparison
    if not result.words or data.effects is None or comparison is None:
        return result.about_words
    without = comparison.of(WITHOUT_WORDS)
    if without is None and saved is not None and saved.of(WITHOUT_WORDS) is not None:
        return f"When it was trained, on other images: {result.about_words}"
    difference = None if without is None else comparison.difference(without)
    return words_statement(data.effects.together.change, difference)


# -- plain values ---------------------------------------------------------------------------------


def report_values(document: Document) -> dict[str, Any]:
    """Return everything a document shows as plain values for JSON, without its images.

    The values of a section stand under its anchor, as in a link to it.
    """
    values = {
        **document.values,
        "notes": document.warnings,
        "answers": document.answers,
        "sections": {each.anchor: each.values for each in document.sections if each.values},
    }
    return {key: _plain(value) for key, value in values.items()}


def _plain(value: Any) -> Any:
    """Dataclasses and named tuples as dictionaries, tuples as lists, and images by their names."""
    if isinstance(value, Item):
        return short_name(value.path)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value
