"""Several runs on one page."""

from __future__ import annotations

from typing import Any

from ipl._version import __version__
from ipl.display.document import Block, Document, Figure, Paragraph, Prompts, Section
from ipl.display.document import make_table as make
from ipl.display.formatting import listed, number, percent, several, signed
from ipl.display.plots import Bar, Series, bars, lines
from ipl.explain.comparison import Compared, Comparison
from ipl.explain.ratings.results import RatingResults
from ipl.explain.ratings.study import CHOSEN, METHODS, fingerprint
from ipl.explain.ratings_section import MEANING, MOST, NAMES, mean_text
from ipl.explain.values import plain_values
from ipl.prompts.layout import prompt_pieces
from ipl.words.selection import Selection

OTHER_CLASSES = (
    "These runs were trained on different classes, and accuracies over different classes cannot be "
    "compared: fewer classes, or classes that look less alike, are easier to tell apart."
)


def comparison_document(found: Comparison, study: RatingResults | None = None) -> Document:
    """Returns the runs side by side: words, accuracies, settings that differ, shared words.

    With a study of `ipl rate`, what people say of their words as well.
    """
    count = len(found.runs)
    sections = [_words(found), _accuracy(found), _settings(found), _vectors(found)]
    if study is not None:
        sections.insert(1, _people(found, study))
    return Document(
        title=f"{count} prompts side by side",
        subtitle=", ".join(run.name for run in found.runs),
        prompt=(),
        lead=(_lead(found),),
        warnings=found.notes,
        sections=tuple(sections),
        foot=f"Written by ipl {__version__}. What the numbers mean: docs/report.md in ipl's "
        "repository.",
    )


def _lead(found: Comparison) -> str:
    what = ", ".join(key for key, _ in found.differ) or "nothing that is kept in a run"
    return f"The runs differ in: {what}."


def _words(found: Comparison) -> Section:
    said = tuple((run.name, prompt_pieces(run.saved.prompt)) for run in found.runs)
    blocks: list[Block] = [Prompts(said)]
    chosen = [(run, run.selection) for run in found.runs if run.selection is not None]
    steps = [
        [
            run.name,
            step.word,
            signed(step.gain),
            signed(step.utility),
            number(step.redundancy),
            number(step.loss),
        ]
        for run, selection in chosen
        for step in selection.steps
    ]
    if steps:
        columns = ("run", "word", "gain", "utility", "redundancy", "loss after")
        curves = _curves(chosen)
        series = [
            Series(_first(names), tuple(enumerate(losses)), 1 + place % 4)
            for place, (losses, names) in enumerate(curves.items())
        ]
        told = "; ".join(f"{s.name} ends at {s.points[-1][1]:.3f}" for s in series)
        most = max(len(s.points) for s in series)
        svg = lines(
            series,
            f"Cross-entropy after each word: {told}.",
            "words",
            "cross-entropy",
            x_ticks=[(float(i), str(i)) for i in range(most)],
        )
        numbers = make("Each word when it was chosen", columns, steps)
        blocks.append(Figure("The loss after each word", svg, numbers))
        blocks += [
            Paragraph(f"The curves of {listed(names)} are the same and drawn as one.", "note")
            for names in curves.values()
            if len(names) > 1
        ]
    if found.shared:
        rows = [
            [word, *(f"word {p}" if p else "" for p in places)] for word, places in found.shared
        ]
        names = ("word", *(run.name for run in found.runs))
        blocks.append(make("Words that two or more runs share", names, rows))
    else:
        blocks.append(Paragraph("No two of these runs share a word."))
    return Section("words", "The words", tuple(blocks))


def _curves(
    chosen: list[tuple[Compared, Selection]],
) -> dict[tuple[float, ...], list[str]]:
    """Returns the runs of each curve: the loss without words and after each of them."""
    found: dict[tuple[float, ...], list[str]] = {}
    for run, selection in chosen:
        losses = (selection.loss_without_words, *(step.loss for step in selection.steps))
        found.setdefault(tuple(round(loss, 4) for loss in losses), []).append(run.name)
    return found


def _first(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _people(found: Comparison, study: RatingResults) -> Section:
    rated = {one.fingerprint: one for one in study.runs}
    rows, shown = [], []
    for run in found.runs:
        one = rated.get(fingerprint(run.saved))
        if one is None:
            rows.append([run.name, "not in the study", "", "", ""])
            continue
        value = one.agreement.ordinal.value
        means = [mean_text(part) for part in one.lists]
        rows.append([run.name, *means, "" if value is None else number(value, 3)])
        if (mean := one.of(CHOSEN).mean) is not None:
            shown.append(Bar(run.name, mean, number(mean, 2)))
    title = "Mean rating of the chosen words, from 1 to 5"
    told = ", ".join(f"{bar.label} {bar.shown}" for bar in shown) or "none yet"
    columns = ("run", *(NAMES[method] for method in METHODS), "alpha (ordinal)")
    numbers = make("Mean rating ± deviation over words", columns, rows)
    figure = Figure(title, bars(shown, f"{title}: {told}.", MOST), numbers)
    return Section("people", "What people say", (figure, Paragraph(MEANING)))


def _accuracy(found: Comparison) -> Section:
    fresh = any(run.test is not None for run in found.runs)
    columns = ["run", "training", "held out, when trained"]
    columns += ["held out, now", "loss, now", "zero-shot, now", "images"] if fresh else []
    columns.insert(1, "classes")
    rows = []
    for run in found.runs:
        results = run.saved.results
        row = [
            run.name,
            str(len(run.classes)),
            percent(results.get("train_accuracy")),
            percent(results.get("held_out_accuracy")),
        ]
        if run.test is not None and run.zero_shot is not None:
            row += [percent(run.test.accuracy), number(run.test.loss)]
            row += [percent(run.zero_shot.accuracy), f"{run.images:,}"]
        rows.append(row)
    shown = [
        Bar(f"{run.name}{_scored_on(found, run)}", value, percent(value), 1)
        for run in found.runs
        if (value := run.accuracy()) is not None
    ]
    told = ", ".join(f"{bar.label} {bar.shown}" for bar in shown)
    numbers = make("Accuracy of each run", columns, rows)
    figure = Figure("Held-out accuracy", bars(shown, f"Held-out accuracy: {told}."), numbers)
    blocks: list[Block] = [Paragraph(_how(found, fresh))]
    if not found.same_classes:
        blocks.append(Paragraph(OTHER_CLASSES, "warning"))
    return Section("accuracy", "Accuracy", (*blocks, figure if shown else numbers))


def _how(found: Comparison, fresh: bool) -> str:
    if not fresh:
        return (
            "As saved when each was trained, on its own held-out images; these need not be the "
            "same. With --data all are scored on the images given."
        )
    if found.same_images:
        return "All were scored now on the same images."
    return (
        "All were scored now, each on those of the images given that are of its own classes and "
        "held out from its training: these are not the same for all."
    )


def _scored_on(found: Comparison, run: Compared) -> str:
    """Returns what a run was scored on, where that differs between runs."""
    told = [] if found.same_classes else [several(len(run.classes), "class", "classes")]
    if run.images is not None and not found.same_images:
        told.append(several(run.images, "image"))
    return f" ({', '.join(told)})" if told else ""


def _settings(found: Comparison) -> Section:
    columns = ("setting", *(run.name for run in found.runs))
    blocks: list[Block] = [
        make("Settings that differ", columns, [[key, *values] for key, values in found.differ])
        if found.differ
        else Paragraph("All settings that are kept in a run are the same."),
        make("Settings that are the same", ("setting", "value"), found.same),
    ]
    return Section("settings", "What sets them apart", tuple(blocks))


def _vectors(found: Comparison) -> Section:
    known = [(run, run.moved) for run in found.runs if run.moved is not None]
    if not known:
        return Section("vectors", "The soft vectors", (Paragraph("Their starts are not known."),))
    shown = [Bar(run.name, moved, number(moved, 3)) for run, moved in known]
    rows = [[run.name, number(moved)] for run, moved in known]
    title = "Mean distance of the soft vectors from their start"
    told = ", ".join(f"{bar.label} {bar.shown}" for bar in shown)
    figure = Figure(title, bars(shown, f"{title}: {told}."), make(title, ("run", "moved"), rows))
    return Section("vectors", "The soft vectors", (figure,))


def comparison_values(found: Comparison, study: RatingResults | None = None) -> dict[str, Any]:
    """Returns the comparison as plain values for JSON; raters stay without names."""
    rated = {one.fingerprint: one for one in study.runs} if study else {}
    return {
        "runs": [
            {**_values(run), "people": plain_values(rated.get(fingerprint(run.saved)))}
            for run in found.runs
        ],
        "same": dict(found.same),
        "differ": {key: list(values) for key, values in found.differ},
        "shared_words": {word: list(places) for word, places in found.shared},
        "same_classes": found.same_classes,
        "same_images": found.same_images,
        "notes": list(found.notes),
    }


def _values(run: Compared) -> dict[str, Any]:
    score = None if run.test is None else vars(run.test)
    frozen = None if run.zero_shot is None else vars(run.zero_shot)
    return {
        "name": run.name,
        "run": run.folder,
        "prompt": run.saved.prompt,
        "words": list(run.saved.words),
        "selection": run.selection.as_dict() if run.selection else None,
        "results_when_trained": run.saved.results,
        "held_out": score,
        "zero_shot": frozen,
        "classes": list(run.classes),
        "images": run.images,
        "moved": run.moved,
    }
