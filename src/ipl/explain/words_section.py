"""The words: what each brought when it was chosen, and what it does now."""

from __future__ import annotations

from ipl.datasets.images import short_name, thumbnail
from ipl.display.document import Block, Figure, Figures, Gallery, Heading, Paragraph, Section, Thumb
from ipl.display.document import make_table as make
from ipl.display.formatting import (
    number,
    ordinal,
    percent,
    points,
    several,
    signed,
)
from ipl.display.plots import Bar, Series, bars, lines
from ipl.explain.analysis import Analysis
from ipl.explain.chosen_words import WordFacts
from ipl.explain.random_words import Chance, place_among
from ipl.explain.word_effects import ClassEffect, ImageEffect, WordEffect
from ipl.metrics import Score

TONES = (
    ("all words as they are", 1),
    ("the word taken out", 0),
    ("a middling word in its place", 2),
)


def words_section(analysis: Analysis) -> Section:
    """Returns the words in the order they were chosen, with the curve of diminishing returns."""
    selection = analysis.subject.selection
    if selection is None or not analysis.words:
        text = "This prompt has no words: it is the plain learner."
        return Section("words", "The words", (Paragraph(text),))
    proved = "no other word of the pool has a higher gain at its step (proved)"
    guess = f"approximate ({selection.search}): another word may be better"
    blocks: list[Block] = [
        Paragraph(
            f"The words were chosen one after the other from {selection.pool_size:,}, before any "
            f"training, in the sentence “{selection.template}”. Gain is utility (how much the word "
            f"lowers the cross-entropy on the training images) minus {selection.lambda_:g} times "
            f"redundancy (how much it repeats the words before it); "
            f"{proved if selection.certified else guess}."
        )
    ]
    blocks += [Paragraph(note, "warning") for note in selection.notes]
    blocks.append(_overview(analysis.words, selection.loss_without_words))
    blocks.append(_curve(analysis.words, selection.loss_without_words))
    for step, word in enumerate(analysis.words, start=1):
        blocks += [Heading(f"{word.word}: word {step}"), *_word(word, step)]
    return Section("words", "The words", tuple(blocks))


def _overview(words: tuple[WordFacts, ...], loss: float) -> Block:
    rows = [["(none)", "", "", "", number(loss)]]
    rows += [
        [w.word, signed(w.gain), signed(w.utility), number(w.redundancy), number(w.loss)]
        for w in words
    ]
    columns = ("word", "gain", "utility", "redundancy", "loss after")
    return make("The words in the order they were chosen", columns, rows)


def _curve(words: tuple[WordFacts, ...], loss: float) -> Block:
    names = ["none", *(w.word for w in words)]
    losses = [loss, *(w.loss for w in words)]
    told = ", ".join(f"{n} {v:.3f}" for n, v in zip(names, losses, strict=True))
    svg = lines(
        [Series("loss", tuple((float(i), v) for i, v in enumerate(losses)))],
        f"Cross-entropy after each word: {told}.",
        "words in the sentence, in order",
        "cross-entropy",
        x_range=(-0.3, len(words) + 0.3),
        x_ticks=[(float(i), name) for i, name in enumerate(names)],
    )
    gains = bars(
        [Bar(w.word, w.gain, signed(w.gain), 1 if w.gain >= 0 else 2) for w in words],
        "Gain of each word: " + ", ".join(f"{w.word} {w.gain:+.3f}" for w in words) + ".",
    )
    first = make(
        "Cross-entropy on the training images after each word",
        ("after", "cross-entropy"),
        [[n, number(v)] for n, v in zip(names, losses, strict=True)],
    )
    second = make("Gain of each word", ("word", "gain"), [[w.word, signed(w.gain)] for w in words])
    return Figures(
        (
            Figure("Diminishing returns: the loss after each word", svg, first),
            Figure("What each word gained", gains, second),
        )
    )


def _word(word: WordFacts, step: int) -> list[Block]:
    sense = word.sense
    if sense.part:
        more = f" WordNet has {several(sense.others, 'more sense')} of it." if sense.others else ""
        meaning = f"WordNet, most frequent sense: {sense}.{more}"
    else:
        meaning = f"Sense: {sense}"
    place = f"It has {ordinal(word.place)} place among the best {len(word.best)} of step {step}"
    if word.lead is not None:
        far = f"{abs(word.lead):.4f}" if abs(word.lead) >= 1e-4 else "less than 0.0001"
        place += f", {far} {'ahead of' if word.lead >= 0 else 'behind'} the next"
    before = [
        f"{ordinal(place)} at step {number}" if place else f"not among them at step {number}"
        for number, place in enumerate(word.earlier, start=1)
    ]
    if before:
        place += f"; before that it was {', '.join(before)}"
    best = [
        Bar(
            f"{i}. {other.word}",
            other.gain,
            signed(other.gain),
            1 if other.word == word.word else 0,
        )
        for i, other in enumerate(word.best, start=1)
    ]
    shown = bars(
        best[:8], f"The best words of step {step}, with their gains; {word.word} is marked."
    )
    rows = [[str(i), other.word, signed(other.gain)] for i, other in enumerate(word.best, start=1)]
    numbers = make(
        f"The best {len(word.best)} words of step {step}", ("place", "word", "gain"), rows
    )
    title = f"The best words of step {step}" + (" (eight of them)" if len(best) > 8 else "")
    return [Paragraph(meaning), Paragraph(place + "."), Figure(title, shown, numbers)]


def effects_section(analysis: Analysis) -> Section:
    """Returns what each word does in the finished prompt."""
    assert analysis.effects is not None
    assert analysis.test is not None
    assert analysis.run_images is not None
    count, test = len(analysis.run_images.test.items), analysis.test
    blocks: list[Block] = [
        Paragraph(
            f"On {several(count, 'held-out image')}, with the trained vectors as they are: each "
            "word taken out of the sentence, and a middling word put in its place. The vectors "
            "were trained around these words, so a prompt trained without the word would do better "
            "than this one without it."
        ),
        *_scores(analysis.effects, test),
    ]
    for place, effect in enumerate(analysis.effects):
        blocks.append(Heading(f"What “{effect.word}” does"))
        blocks += _effect(effect, test, _among_random(analysis.chance, place))
    return Section("effects", "What each word does", tuple(blocks))


def _scores(effects: tuple[WordEffect, ...], test: Score) -> list[Block]:
    rows, found, tone = [], [("all words as they are", test)], [1]
    for effect in effects:
        found.append((f"without “{effect.word}”", effect.without))
        tone.append(0)
        if effect.with_median is not None and effect.sample is not None:
            name = f"“{effect.sample.median_word}” in place of “{effect.word}”"
            found.append((name, effect.with_median))
            tone.append(2)
    legend = [(name, t) for name, t in TONES if t in tone]
    for name, one in found:
        change = "" if one is test else points(one.accuracy - test.accuracy)
        more = "" if one is test else signed(one.loss - test.loss)
        rows.append([name, percent(one.accuracy), change, number(one.loss), more])
    columns = ("prompt", "accuracy", "change, points", "loss", "change")
    numbers = make("With words taken out and replaced", columns, rows)
    accuracy = [
        Bar(name, one.accuracy, percent(one.accuracy), t)
        for (name, one), t in zip(found, tone, strict=True)
    ]
    loss = [
        Bar(name, one.loss - test.loss, signed(one.loss - test.loss), t)
        for (name, one), t in zip(found[1:], tone[1:], strict=True)
    ]
    told = "; ".join(f"{row[0]}: {row[1]}, loss {row[3]}" for row in rows)
    change = "Change of the loss (more than 0 is worse)"
    return [
        Figures(
            (
                Figure("Accuracy", bars(accuracy, f"Accuracy. {told}.", legend=legend), None),
                Figure(change, bars(loss, f"{change}. {told}.", legend=legend[1:]), None),
            ),
            numbers,
        )
    ]


def _change(one: Score, test: Score) -> str:
    """Returns what a change of the prompt does to accuracy and loss."""
    lost, rise = test.accuracy - one.accuracy, one.loss - test.loss
    told = f"{'costs' if lost > 0 else 'gains'} {abs(100 * lost):.1f} points of accuracy"
    if not lost:
        told = "leaves the accuracy as it is"
    return f"{told} and {'raises' if rise > 0 else 'lowers'} the loss by {abs(rise):.4f}"


def _among_random(chance: Chance | None, place: int) -> str | None:
    """Returns where a word stands among random words in its place, if that is known."""
    if chance is None or not chance.draws:
        return None
    losses = [one.loss for one in chance.singles[place]]
    stands = ordinal(place_among(chance.chosen.prompt.loss, losses))
    return f"it has {stands} place of {len(losses) + 1} by loss"


def _effect(effect: WordEffect, test: Score, among: str | None) -> list[Block]:
    told, sample = f"Taking “{effect.word}” out {_change(effect.without, test)}", effect.sample
    if effect.with_median is not None and sample is not None:
        instead = f"putting the middling word “{sample.median_word}” in its place"
        told += f"; {instead} {_change(effect.with_median, test)}"
    if among is not None:
        told += f". Beside random words in its place, about as frequent, {among}"
    blocks: list[Block] = [Paragraph(f"{told}.")]
    if sample is not None:
        share = "all" if sample.sampled == sample.pool else f"{sample.sampled:,} drawn at random of"
        blocks.append(
            Paragraph(
                f"The middling word is “{sample.median_word}”: it has the median gain of {share} "
                f"{sample.pool:,} other words at this step. Their gains go from "
                f"{signed(sample.quantiles[0])} over {signed(sample.quantiles[2])} (median) to "
                f"{signed(sample.quantiles[4])}; that of “{effect.word}” is {signed(sample.gain)}, "
                f"and {sample.better} of them are above it."
            )
        )
    kinds = (("helps", effect.classes_helped), ("hurts", effect.classes_hurt))
    rows = [_class_row(kind, one) for kind, some in kinds for one in some]
    if rows:
        columns = (
            *("it", "class", "images", "accuracy", "accuracy without it"),
            *("loss", "loss without it"),
        )
        title = f"Classes that “{effect.word}” helps and hurts most, by the change of their loss"
        blocks.append(make(title, columns, rows))
    for title, images in (
        (f"Images that “{effect.word}” helps most", effect.images_helped),
        (f"Images that “{effect.word}” hurts most", effect.images_hurt),
    ):
        thumbs = [thumb for one in images if (thumb := _thumb(one)) is not None]
        if thumbs:
            blocks.append(Gallery(title, tuple(thumbs)))
    return blocks


def _class_row(kind: str, one: ClassEffect) -> list[str]:
    scores = [percent(one.accuracy), percent(one.accuracy_without)]
    scores += [number(one.loss, 3), number(one.loss_without, 3)]
    return [kind, one.name, str(one.images), *scores]


def _thumb(one: ImageEffect) -> Thumb | None:
    uri = thumbnail(one.item.path)
    if uri is None:
        return None
    told = (
        f"{one.true}: {percent(one.probability_without)} without the word, "
        f"{percent(one.probability)} with it"
    )
    taken = "" if one.predicted == one.true else f"; taken for {one.predicted}"
    return Thumb(
        uri, f"An image of the class {one.true}, {short_name(one.item.path)}", told + taken
    )
