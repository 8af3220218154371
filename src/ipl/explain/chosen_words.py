"""Which words were chosen and why: the gain of each word at its step, its rank, its meaning."""

from __future__ import annotations

from dataclasses import dataclass

from ipl.display.document import Block, Figure, Figures, Heading, Paragraph, Section
from ipl.display.formatting import listed, number, ordinal, percent, several, signed
from ipl.display.plots import Bar, Series, bars, lines
from ipl.display.table import Table
from ipl.words.selection import Certainty, RankedWord, Selection, certainty_sentences
from ipl.words.senses import Sense, sense_of

BEST = 20  # how many words of a step are saved with a run
DRAWN = 8  # how many of them are drawn
HOW_SURE = (
    "The images were drawn anew 1,000 times, within each class. Wins is how often the word was "
    "still the best of its step's twenty; the interval holds 90 % of its gains. The word was "
    "chosen on the same images among thousands, so an interval above 0 is a necessary sign, not a "
    "sufficient one."
)


@dataclass(frozen=True)
class WordFacts:
    """One word at its step: gain = utility - lambda * redundancy."""

    word: str
    gain: float
    utility: float  # how much it lowered the cross-entropy
    redundancy: float  # how much it repeats the words before it
    loss: float  # with the words up to this one
    best: tuple[RankedWord, ...]  # the best twenty of the step, this word among them
    place: int  # its rank among them; 1 is the best
    lead: float | None  # its gain minus that of the best other word
    earlier: tuple[int | None, ...]  # its rank at each earlier step, None below the best twenty
    checked: int  # how many words of the step were scored in fp32
    margin: float  # how far the others' losses were allowed to be off; 0 if there were none
    sense: Sense
    certainty: Certainty | None
    how_sure: str  # the same in words


def word_facts(selection: Selection) -> tuple[WordFacts, ...]:
    """Returns the facts of each chosen word, from the trace saved with the run."""
    rankings = [_ranking(selection, index) for index in range(len(selection.steps))]
    facts = []
    for index, step in enumerate(selection.steps):
        words = [ranked.word for ranked in rankings[index]]
        other_gains = [ranked.gain for ranked in rankings[index] if ranked.word != step.word]
        facts.append(
            WordFacts(
                word=step.word,
                gain=step.gain,
                utility=step.utility,
                redundancy=step.redundancy,
                loss=step.loss,
                best=rankings[index],
                place=words.index(step.word) + 1,
                lead=step.gain - max(other_gains) if other_gains else None,
                earlier=tuple(_rank(ranking, step.word) for ranking in rankings[:index]),
                checked=step.checked,
                margin=step.margin,
                sense=sense_of(step.word),
                certainty=step.certainty,
                how_sure=step.how_sure,
            )
        )
    return tuple(facts)


def _ranking(selection: Selection, index: int) -> tuple[RankedWord, ...]:
    step = selection.steps[index]
    candidates = [RankedWord(step.word, step.gain), *step.runners_up]
    return tuple(sorted(candidates, key=lambda ranked: -ranked.gain)[:BEST])


def _rank(ranking: tuple[RankedWord, ...], word: str) -> int | None:
    words = [ranked.word for ranked in ranking]
    return words.index(word) + 1 if word in words else None


# -- how it is shown ----------------------------------------------------------------------------


def words_section(
    words: tuple[WordFacts, ...], selection: Selection | None, about_words: str
) -> Section:
    """Returns the words in the order they were chosen, with the curve of diminishing returns.

    `about_words` is a sentence on where they come from, for words that no search chose.
    """
    if selection is None:
        return Section("words", "The words", (Paragraph(about_words),), about_words)
    notes = [Paragraph(note, "warning") for note in selection.notes]
    if selection.stopped_before is not None:
        notes.append(Paragraph(certainty_sentences(selection)[-1]))
    if not words:
        nothing = tuple(notes) or (Paragraph(about_words),)
        return Section("words", "The words", nothing, about_words)
    blocks: list[Block] = [
        Paragraph(
            f"The words were chosen one after the other from {selection.pool_size:,}, before any "
            f"training, in the sentence “{selection.template}”. Gain is utility (how much the word "
            "lowers the cross-entropy on the training images) minus "
            f"{selection.lambda_:g} times redundancy (how much it repeats the words before it). "
            f"{selection.how_checked}"
        ),
        *notes,
    ]
    blocks.append(_overview(words, selection.loss_without_words))
    if any(word.certainty for word in words):
        blocks.append(Paragraph(HOW_SURE))
    blocks.append(_curve(words, selection))
    for step, word in enumerate(words, start=1):
        blocks += [Heading(f"{word.word}: word {step}"), *_word_blocks(word, step)]
    gains = listed([f"“{word.word}” ({signed(word.gain, 3)})" for word in words])
    summary = f"{gains}, with their gains: how each was chosen, what it means, what came next."
    return Section("words", "The words", tuple(blocks), summary)


def _overview(words: tuple[WordFacts, ...], loss: float) -> Block:
    rows = [["(none)", "", "", "", "", "", number(loss)]]
    for word in words:
        interval = wins = ""
        if word.certainty is not None:
            interval = f"{signed(word.certainty.low)} to {signed(word.certainty.high)}"
            wins = percent(word.certainty.wins, 0)
        row = [word.word, signed(word.gain), interval, wins]
        rows.append([*row, signed(word.utility), number(word.redundancy), number(word.loss)])
    columns = ["word", "gain", "90 % interval", "wins", "utility", "redundancy", "loss after"]
    if not any(word.certainty for word in words):
        columns, rows = _without_certainty(columns), [_without_certainty(row) for row in rows]
    return Table(columns, rows, caption="The words in the order they were chosen")


def _without_certainty(row: list[str]) -> list[str]:
    return row[:2] + row[4:]


def _curve(words: tuple[WordFacts, ...], selection: Selection) -> Block:
    gains = bars(
        [Bar(w.word, w.gain, signed(w.gain), 1 if w.gain >= 0 else 2) for w in words],
        "Gain of each word: " + ", ".join(f"{w.word} {w.gain:+.3f}" for w in words) + ".",
    )
    gain_table = Table(
        ("word", "gain"), [[w.word, signed(w.gain)] for w in words], caption="Gain of each word"
    )
    gained = Figure("What each word gained", gains, gain_table)
    names = ["none", *(w.word for w in words)]
    losses = [selection.loss_without_words, *(w.loss for w in words)]
    values = ", ".join(f"{n} {v:.3f}" for n, v in zip(names, losses, strict=True))
    svg = lines(
        [Series("loss", tuple((float(i), v) for i, v in enumerate(losses)))],
        f"Cross-entropy after each word: {values}.",
        "words in the sentence, in order",
        "cross-entropy",
        x_range=(-0.3, len(words) + 0.3),
        x_ticks=[(float(i), name) for i, name in enumerate(names)],
    )
    loss_table = Table(
        ("after", "cross-entropy"),
        [[n, number(v)] for n, v in zip(names, losses, strict=True)],
        caption="Cross-entropy on the training images after each word",
    )
    title = "Diminishing returns: the loss after each word"
    return Figures((Figure(title, svg, loss_table), gained))


def _word_blocks(word: WordFacts, step: int) -> list[Block]:
    sense = word.sense
    if sense.part:
        more = f" WordNet has {several(sense.others, 'more sense')} of it." if sense.others else ""
        meaning = f"WordNet, most frequent sense: {sense}.{more}"
    else:
        meaning = f"Sense: {sense}"
    rank = f"It has {ordinal(word.place)} place among the best {len(word.best)} of step {step}"
    if word.lead is not None:
        distance = f"{abs(word.lead):.4f}" if abs(word.lead) >= 1e-4 else "less than 0.0001"
        rank += f", {distance} {'ahead of' if word.lead >= 0 else 'behind'} the next"
    earlier = [
        f"{ordinal(place)} at step {number}" if place else f"not among them at step {number}"
        for number, place in enumerate(word.earlier, start=1)
    ]
    if earlier:
        rank += f"; before that it was {', '.join(earlier)}"
    best = list(enumerate(word.best, start=1))
    svg = bars(
        [
            Bar(f"{i}. {b.word}", b.gain, signed(b.gain), 1 if b.word == word.word else 0)
            for i, b in best[:DRAWN]
        ],
        f"The best words of step {step}, with their gains; {word.word} is marked.",
    )
    table = Table(
        ("place", "word", "gain"),
        [[str(i), b.word, signed(b.gain)] for i, b in best],
        caption=f"The best {len(word.best)} words of step {step}",
    )
    title = f"The best words of step {step}" + (" (eight of them)" if len(best) > DRAWN else "")
    sure = [Paragraph(word.how_sure)] if word.how_sure else []
    return [Paragraph(meaning), *sure, Paragraph(rank + "."), Figure(title, svg, table)]
