"""Which words were chosen and why: the gain of each at its step, what came next, its meaning."""

from __future__ import annotations

from ipl.display.document import Block, Figure, Heading, Paragraph, Section
from ipl.display.formatting import listed, number, percent, several, signed
from ipl.display.plots import line
from ipl.display.table import Table
from ipl.explain.inputs import ReportData
from ipl.words.lexicon import sense_of
from ipl.words.selection import Selection, SelectionStep, certainty_sentences


def words_section(data: ReportData) -> Section:
    """The words in the order they were chosen, with the curve of diminishing returns."""
    run = data.run
    selection, about = run.selection, run.result.words_from
    if selection is None:
        return Section("words", "The words", (Paragraph(about),), about, {"words": run.words})
    values = {"words": selection.as_dict()}
    notes: list[Block] = [Paragraph(note, "warning") for note in selection.notes]
    if selection.stopped_before is not None:
        notes.append(Paragraph(certainty_sentences(selection)[-1]))
    steps = selection.steps
    if not steps:
        return Section("words", "The words", (Paragraph(about), *notes), about, values)
    blocks: list[Block] = [
        Paragraph(
            f"The words were chosen one after the other from {selection.pool_size:,}, before any "
            f"training, in the sentence “{selection.template}”. {selection.about_gain} Redundancy "
            f"is how much a word repeats the words before it. {selection.how_checked}"
        ),
        *notes,
        _overview(selection),
        Paragraph(
            "Held-out gain: the word that is best on one half of the images is scored on the other "
            "half, and the reverse; the interval holds 90 % of its values when the images are "
            "drawn anew 1,000 times, within each class. Wins is how often the word was still the "
            "best of its step's twenty."
        ),
        _curve(selection),
    ]
    for number_, step in enumerate(steps, start=1):
        blocks += [Heading(f"{step.word}: word {number_}"), *_step_blocks(step, number_)]
    gains = listed([f"“{step.word}” ({signed(step.gain, 3)})" for step in steps])
    summary = f"{gains}, with their gains: how each was chosen, what it means, what came next."
    return Section("words", "The words", tuple(blocks), summary, values)


def _overview(selection: Selection) -> Table:
    before = [percent(selection.accuracy_without_words), number(selection.loss_without_words)]
    rows = [["(none)", "", "", "", "", "", "", *before]]
    for step in selection.steps:
        sure = step.certainty
        held_out, wins = signed(sure.held_out_gain), percent(sure.wins, 0)
        interval = f"{signed(sure.low)} to {signed(sure.high)}"
        numbers = [signed(step.utility), number(step.redundancy)]
        after = [percent(step.accuracy), number(step.loss)]
        rows.append([step.word, signed(step.gain), held_out, interval, wins, *numbers, *after])
    columns = ["word", "gain", "held-out gain", "90 % interval", "wins", "utility", "redundancy"]
    columns += ["accuracy on the shots", "loss after"]
    return Table(columns, rows, caption="The words in the order they were chosen")


def _curve(selection: Selection) -> Figure:
    names = ["none", *(step.word for step in selection.steps)]
    losses = [selection.loss_without_words, *(step.loss for step in selection.steps)]
    values = ", ".join(f"{n} {v:.3f}" for n, v in zip(names, losses, strict=True))
    drawing = line(
        [(float(i), loss) for i, loss in enumerate(losses)],
        f"Cross-entropy after each word: {values}.",
        "words in the sentence, in order",
        "cross-entropy",
        x_ticks=[(float(i), name) for i, name in enumerate(names)],
    )
    return Figure("Diminishing returns: the loss after each word", drawing)


def _step_blocks(step: SelectionStep, position: int) -> list[Block]:
    sense = sense_of(step.word)
    meaning = f"Sense: {sense}"
    if sense.part:
        more = f" WordNet has {several(sense.others, 'more sense')} of it." if sense.others else ""
        meaning = f"WordNet, most frequent sense: {sense}.{more}"
    own = [(step.word, step.gain)]
    best = sorted([*own, *step.runners_up], key=lambda ranked: -ranked[1])
    caption = f"The best words of step {position}"
    rows = [[str(i), word, signed(gain)] for i, (word, gain) in enumerate(best, start=1)]
    table = Table(("place", "word", "gain"), rows, caption=caption)
    return [Paragraph(meaning), Paragraph(step.how_sure), table]
